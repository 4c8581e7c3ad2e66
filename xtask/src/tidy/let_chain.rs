//! Syntax that the oldest Rust of the manifests does not have, and that clippy does not see.

use super::source;
use crate::diagnostic::Diagnostic;
use crate::tree::File;

/// `if a && let b = c` came with Rust 1.88; `clippy::incompatible_msrv` looks at the library alone.
pub(super) fn there_is_none(file: &File) -> Vec<Diagnostic> {
    let code = File::new(&file.path, source::code(&file.text));
    let chains = code.lines().filter(|(_, line)| {
        let line = line.trim_start();
        line.starts_with("&& let ") || line.contains(" && let ")
    });
    chains
        .map(|(number, _)| {
            let what = "a let chain is younger than `rust-version`; nest the `if`s";
            Diagnostic::at(&file.path, number, what)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_let_chain_is_found_on_one_line_and_on_two() {
        let diagnostics = |text: &str| there_is_none(&File::new("a.rs", text)).len();
        assert_eq!(diagnostics("if a && let Some(b) = c {}\n"), 1);
        assert_eq!(diagnostics("if a\n    && let Some(b) = c\n{}\n"), 1);
        assert_eq!(diagnostics("if a && b {}\n// && let\n"), 0);
    }
}
