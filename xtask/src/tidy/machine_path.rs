//! No path that exists on one machine only.

use crate::diagnostic::Diagnostic;
use crate::tree::File;

/// Where people and build machines keep their checkouts. In pieces, so that this file has none.
const PLACES: &[&str] = &[
    concat!("/", "root/"),
    concat!("/", "work/"),
    concat!("/", "home/"),
    concat!("/", "Users/"),
];

/// What is committed runs in any directory.
pub(super) fn no_path_of_one_machine(file: &File) -> Vec<Diagnostic> {
    file.lines()
        .filter(|(_, line)| PLACES.iter().any(|place| begins_a_path(line, place)))
        .map(|(number, _)| {
            Diagnostic::at(
                &file.path,
                number,
                "a path of one machine; make it relative",
            )
        })
        .collect()
}

/// Whether a path in `line` begins with `place`: in the middle of one it is a name like any other.
fn begins_a_path(line: &str, place: &str) -> bool {
    line.match_indices(place).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "._-}".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diagnostics(text: &str) -> usize {
        no_path_of_one_machine(&File::new("a.md", text)).len()
    }

    #[test]
    fn a_path_of_one_machine_is_reported() {
        for place in PLACES {
            assert_eq!(diagnostics(&format!("cd {place}x")), 1, "{place}");
            assert_eq!(diagnostics(&format!("\"{place}x\"")), 1, "{place}");
        }
    }

    #[test]
    fn a_directory_inside_a_path_is_not() {
        for place in PLACES {
            assert_eq!(
                diagnostics(&format!("https://example.org{place}x")),
                0,
                "{place}"
            );
            assert_eq!(diagnostics(&format!("docs{place}x")), 0, "{place}");
        }
    }
}
