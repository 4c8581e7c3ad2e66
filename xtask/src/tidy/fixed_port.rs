//! Tests take the port that the kernel gives them.

use super::source;
use crate::diagnostic::Diagnostic;
use crate::tree::File;

/// What a port follows.
const BEFORE_A_PORT: &[&str] = &[
    "127.0.0.1:",
    "0.0.0.0:",
    "localhost:",
    "[::1]:",
    "[::]:",
    "LOCALHOST, ",
    "UNSPECIFIED, ",
];

/// A fixed port may be in use on the machine that runs the test, or by the test beside it.
pub(super) fn tests_bind_to_port_0(file: &File) -> Vec<Diagnostic> {
    if !file.path.split('/').any(|name| name == "tests") {
        return Vec::new();
    }
    let code = File::new(&file.path, source::uncommented(&file.text));
    code.lines()
        .filter(|(_, line)| names_a_port(line))
        .map(|(number, _)| Diagnostic::at(&file.path, number, "bind to port 0 and ask which it is"))
        .collect()
}

fn names_a_port(line: &str) -> bool {
    BEFORE_A_PORT.iter().any(|before| {
        line.match_indices(before)
            .any(|(at, _)| is_fixed(&line[at + before.len()..]))
    })
}

/// Whether `text` begins with a port other than 0. What is past 65535 is none, as in a test of
/// that.
fn is_fixed(text: &str) -> bool {
    let end = text.find(|c: char| !c.is_ascii_digit());
    let digits = &text[..end.unwrap_or(text.len())];
    digits.parse::<u16>().is_ok_and(|port| port != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diagnostics(path: &str, text: &str) -> usize {
        tests_bind_to_port_0(&File::new(path, text)).len()
    }

    #[test]
    fn a_port_other_than_0_is_reported() {
        for text in [
            "bind(\"127.0.0.1:8080\")",
            "bind(\"[::1]:10\")",
            "bind((Ipv4Addr::LOCALHOST, 80))",
        ] {
            assert_eq!(diagnostics("tests/conformance/a.rs", text), 1, "{text}");
            assert_eq!(diagnostics("crates/a/tests/b.rs", text), 1, "{text}");
        }
    }

    #[test]
    fn a_number_that_is_no_port_is_not() {
        assert_eq!(
            diagnostics("tests/a.rs", "\"127.0.0.1:65536\", \"127.0.0.1:\""),
            0
        );
    }

    #[test]
    fn port_0_a_comment_and_other_code_are_not() {
        let text = "/// like 127.0.0.1:8080\nbind(\"127.0.0.1:0\"); (LOCALHOST, 0); (LOCALHOST, p)";
        assert_eq!(diagnostics("tests/a.rs", text), 0);
        assert_eq!(
            diagnostics("crates/a/examples/b.rs", "\"127.0.0.1:8080\""),
            0
        );
    }
}
