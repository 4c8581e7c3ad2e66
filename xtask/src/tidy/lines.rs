//! Rules about single lines: a pattern that certain files must not have.

use regex_lite::Regex;

use super::code::without_comments;
use crate::diagnostic::Diagnostic;
use crate::source_tree::{File, Tree};
use crate::workspace::Workspace;

struct Rule {
    applies: fn(&File) -> bool,
    pattern: &'static str,
    what: &'static str,
}

const RULES: &[Rule] = &[
    Rule {
        // Where people and build machines keep their checkouts.
        applies: |_| true,
        pattern: r"(?:^|[^\w.}-])/(?:root|work|home|Users)/",
        what: "a path of one machine; make it relative",
    },
    Rule {
        applies: File::is_markdown,
        pattern: r"\s$",
        what: "remove the white space at the end",
    },
    Rule {
        // It came with Rust 1.88; `clippy::incompatible_msrv` checks only the library.
        applies: File::is_rust,
        pattern: r"(?:^|\s)&& let ",
        what: "a let chain is younger than `rust-version`; nest the `if`s",
    },
    Rule {
        // Past 65535 it is not a port, as in a test of that.
        applies: |file| file.is_rust() && file.path.split('/').any(|name| name == "tests"),
        pattern: concat!(
            r"(?:127\.0\.0\.1:|0\.0\.0\.0:|localhost:|\[::1?\]:|LOCALHOST, |UNSPECIFIED, )",
            r"(?:[1-9]\d{0,3}|[1-5]\d{4}|6[0-4]\d{3}|65[0-4]\d{2})(?:\D|$)",
        ),
        what: "bind to port 0 and ask which it is",
    },
    Rule {
        // Documentation, `mod` and `pub use`; an assertion at compile time does not run.
        applies: |file| file.path.ends_with("src/lib.rs"),
        pattern: r"^\s*(?:pub(?:\(\w+\))? )?(?:fn|impl|unsafe|async)\b",
        what: "move the logic to a module of its own",
    },
];

pub(super) fn no_line_has_a_forbidden_pattern(tree: &Tree, _: &Workspace) -> Vec<Diagnostic> {
    let mut diagnostics = Vec::new();
    let patterns = RULES
        .iter()
        .map(|rule| Regex::new(rule.pattern).expect("a pattern"));
    let patterns: Vec<Regex> = patterns.collect();
    for file in &tree.files {
        let code = without_comments(file);
        let rules = RULES.iter().zip(&patterns);
        for (rule, pattern) in rules.filter(|(rule, _)| (rule.applies)(file)) {
            let found = code.lines().filter(|(_, line)| pattern.is_match(line));
            let found = found.map(|(number, _)| Diagnostic::at(&file.path, number, rule.what));
            diagnostics.extend(found);
        }
    }
    diagnostics
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> usize {
        let tree = Tree::fake(&[(path, text)]);
        no_line_has_a_forbidden_pattern(&tree, &Workspace::fake(Vec::new())).len()
    }

    #[test]
    fn each_pattern_is_found_where_it_is_forbidden() {
        let home = ["/", "home/me/evcore"].concat();
        assert_eq!(lines("a.sh", &format!("cd {home}\ncd a{home}\n")), 1);
        assert_eq!(lines("a.md", "x \ny\r\nz"), 2);
        assert_eq!(
            lines(
                "src/a.rs",
                &["if a\n    &", "& let Some(b) = c {}\n// &", "& let d"].concat()
            ),
            1
        );
        let ports = "\"127.0.0.1:80\"\n\"127.0.0.1:0\"\n\"[::1]:65536\"\n(LOCALHOST, 8080)\n";
        assert_eq!(lines("crates/a/tests/b.rs", ports), 2);
        assert_eq!(lines("crates/a/src/b.rs", ports), 0);
        let lib = "//! fn\nmod a;\npub fn b() {}\nimpl C {}\nconst _: () = { const fn d() {} };\n";
        assert_eq!(lines("crates/a/src/lib.rs", lib), 2);
    }
}
