//! What is put in to be taken out again.

use super::source;
use crate::diagnostic::Diagnostic;
use crate::tree::File;

/// What stands in code, and what it leaves behind.
const LEFTOVERS: &[(&str, &str)] = &[
    ("todo!", "write the code, or an issue"),
    ("unimplemented!", "implement it, or do not offer it"),
    ("dbg!", "take the trace out again"),
    (
        "#[ignore",
        "a test that does not run shows nothing; mend or remove it",
    ),
];

/// No unfinished code, no traces, no tests that are skipped.
pub(super) fn nothing_is_left_to_do(file: &File) -> Vec<Diagnostic> {
    let code = File::new(&file.path, source::code(&file.text));
    let mut diagnostics = Vec::new();
    for (number, line) in code.lines() {
        let found = LEFTOVERS.iter().filter(|(mark, _)| line.contains(mark));
        diagnostics.extend(found.map(|(_, what)| Diagnostic::at(&file.path, number, *what)));
    }
    diagnostics
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_leftover_is_found_in_code_and_not_in_text() {
        for (mark, _) in LEFTOVERS {
            let diagnostics = |text: String| nothing_is_left_to_do(&File::new("a.rs", text)).len();
            assert_eq!(diagnostics(format!("\n    {mark}(x)")), 1, "{mark}");
            assert_eq!(
                diagnostics(format!("// {mark}\nlet a = \"{mark}\";")),
                0,
                "{mark}"
            );
        }
    }
}
