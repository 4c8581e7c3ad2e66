//! How long a file is, how it is called, how its lines end.

use crate::diagnostic::Diagnostic;
use crate::tree::File;

const LINES_MAX: usize = 600;

/// Names that say where something did not fit, not what it is.
const EMPTY_NAMES: &[&str] = &[
    "common", "helper", "helpers", "misc", "types", "util", "utils",
];

/// Past 600 lines a file has more than one idea.
pub(super) fn a_file_has_at_most_600_lines(file: &File) -> Vec<Diagnostic> {
    let lines = file.text.lines().count();
    if lines <= LINES_MAX {
        return Vec::new();
    }
    let what = format!("{lines} lines, of {LINES_MAX} at most; split it by idea");
    vec![Diagnostic::of(&file.path, what)]
}

/// A file, or the module that a directory is, is named after the one idea that it holds.
pub(super) fn a_file_is_named_after_its_idea(file: &File) -> Vec<Diagnostic> {
    let names = file
        .path
        .split('/')
        .map(|name| name.trim_end_matches(".rs"));
    names
        .filter(|name| EMPTY_NAMES.contains(name))
        .map(|name| {
            Diagnostic::of(
                &file.path,
                format!("`{name}` names no idea; say what it is"),
            )
        })
        .collect()
}

/// At the end of a Markdown line white space is invisible, or a line break by accident.
pub(super) fn no_line_ends_in_white_space(file: &File) -> Vec<Diagnostic> {
    file.lines()
        .filter(|(_, line)| line.trim_end() != *line)
        .map(|(number, _)| Diagnostic::at(&file.path, number, "remove the white space at the end"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_hundred_lines_pass_and_one_more_does_not() {
        let diagnostics =
            |n| a_file_has_at_most_600_lines(&File::new("a.rs", "x\n".repeat(n))).len();
        assert_eq!((diagnostics(600), diagnostics(601)), (0, 1));
    }

    #[test]
    fn a_name_without_an_idea_is_reported_for_files_and_modules() {
        let diagnostics = |path| a_file_is_named_after_its_idea(&File::new(path, "")).len();
        assert_eq!(diagnostics("crates/a/src/util.rs"), 1);
        assert_eq!(diagnostics("tests/helpers/client.rs"), 1);
        assert_eq!(diagnostics("crates/a/src/utility_meter.rs"), 0);
    }

    #[test]
    fn white_space_at_the_end_is_reported_in_its_line() {
        let diagnostics = no_line_ends_in_white_space(&File::new("a.md", "a\nb \n\nc\t"));
        let lines: Vec<_> = diagnostics.iter().map(ToString::to_string).collect();
        assert_eq!(lines.len(), 2);
        assert!(lines[0].starts_with("a.md:2: ") && lines[1].starts_with("a.md:4: "));
    }
}
