//! `lib.rs` is a table of contents.

use super::source;
use crate::diagnostic::Diagnostic;
use crate::tree::File;

/// Part of an assertion at compile time, which does not run.
const ASSERTION: &str = "const fn is_send<T: Send>() {}";

/// Documentation, `mod` lines in reading order and `pub use`: nothing that runs.
pub(super) fn holds_no_logic(file: &File) -> Vec<Diagnostic> {
    if !file.path.ends_with("src/lib.rs") {
        return Vec::new();
    }
    let code = File::new(&file.path, source::code(&file.text));
    code.lines()
        .filter(|(_, line)| line.trim() != ASSERTION)
        .filter(|(_, line)| source::has_word(line, "fn") || source::has_word(line, "impl"))
        .map(|(number, _)| {
            Diagnostic::at(&file.path, number, "move the logic to a module of its own")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diagnostics(path: &str, text: &str) -> usize {
        holds_no_logic(&File::new(path, text)).len()
    }

    #[test]
    fn a_function_or_an_impl_is_logic() {
        let lib = "crates/a/src/lib.rs";
        assert_eq!(diagnostics(lib, "pub(crate) const fn f() {}"), 1);
        assert_eq!(diagnostics(lib, "struct S;\nimpl<T> X for S {}"), 1);
        assert_eq!(diagnostics(lib, "mod inner {\n    fn f() {}\n}"), 1);
    }

    #[test]
    fn documentation_and_module_lines_are_not() {
        let text = "//! ```\n//! fn main() {}\n//! ```\nmod a;\npub use a::A;";
        assert_eq!(diagnostics("crates/a/src/lib.rs", text), 0);
        assert_eq!(diagnostics("crates/a/src/a.rs", "fn f() {}"), 0);
    }
}
