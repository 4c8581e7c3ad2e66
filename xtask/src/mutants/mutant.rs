//! A mutant as its file describes it.
//!
//! ```text
//! A sentence that describes the bug.
//!
//! test = the arguments of `cargo test` that select the test which must fail
//! seeds = how many seeds a simulation may take to find it
//! found by = words of the failure (may stand several times: any of them will do)
//!
//! == crates/evcore/src/turn.rs
//! -- before
//! lines that stand exactly once in that file
//! -- after
//! lines in their place
//! ```

use crate::source_tree::{File, Tree};

/// A planted bug, and how it is found.
#[derive(Debug, Default)]
pub(crate) struct Mutant {
    pub(crate) test: String,
    pub(crate) seeds: u32,
    /// Empty: the edit is no bug, and the test must pass.
    pub(crate) found_by: Vec<String>,
    edits: Vec<Edit>,
}

/// Lines of a file, and what stands in their place.
#[derive(Debug, Default)]
struct Edit {
    path: String,
    before: String,
    after: String,
}

/// Which lines of the file come next.
enum Section {
    Head,
    Before,
    After,
}

impl Mutant {
    /// Reads the file of a mutant.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut mutant = Self {
            seeds: 100,
            ..Self::default()
        };
        let mut section = Section::Head;
        for line in text.lines() {
            if let Some(path) = line.strip_prefix("== ") {
                let path = path.trim().to_owned();
                mutant.edits.push(Edit {
                    path,
                    ..Edit::default()
                });
                section = Section::Head;
            } else if line == "-- before" {
                mutant.open_edit()?;
                section = Section::Before;
            } else if line == "-- after" {
                section = Section::After;
            } else {
                mutant.take(line, &section)?;
            }
        }
        mutant.check()
    }

    /// A second edit of the same file has its path from the first.
    fn open_edit(&mut self) -> Result<(), String> {
        let last = self.edits.last().ok_or("`-- before` needs a `== path`")?;
        if !last.before.is_empty() {
            let path = last.path.clone();
            self.edits.push(Edit {
                path,
                ..Edit::default()
            });
        }
        Ok(())
    }

    fn take(&mut self, line: &str, section: &Section) -> Result<(), String> {
        let edit = self.edits.last_mut();
        match (section, edit) {
            (Section::Before, Some(edit)) => push_line(&mut edit.before, line),
            (Section::After, Some(edit)) => push_line(&mut edit.after, line),
            _ => self.take_key(line)?,
        }
        Ok(())
    }

    fn take_key(&mut self, line: &str) -> Result<(), String> {
        // A line without `=` is the sentence that describes the bug.
        let Some((key, value)) = line.split_once(" = ") else {
            return Ok(());
        };
        let value = value.trim();
        match key.trim() {
            "test" => self.test = value.to_owned(),
            "found by" => self.found_by.push(value.to_owned()),
            "seeds" => {
                let number = value.parse().map_err(|_| format!("{value:?} is no number"));
                self.seeds = number?;
            }
            other => {
                return Err(format!("unknown key {other:?}: test, seeds or found by"));
            }
        }
        Ok(())
    }

    fn check(self) -> Result<Self, String> {
        if self.test.is_empty() {
            return Err("a mutant needs a line `test = ...`".to_owned());
        }
        if self.edits.iter().all(|edit| edit.before.is_empty()) {
            return Err("a mutant needs an edit: `== path`, `-- before`, `-- after`".to_owned());
        }
        Ok(self)
    }

    /// The tree with the edits made.
    pub(crate) fn apply(&self, tree: &Tree) -> Result<Vec<File>, String> {
        let mut files = tree.files.clone();
        for edit in &self.edits {
            let file = files.iter_mut().find(|file| file.path == edit.path);
            let file = file.ok_or_else(|| format!("{} does not exist", edit.path))?;
            match file.text.matches(&edit.before).count() {
                1 => file.text = file.text.replacen(&edit.before, &edit.after, 1),
                count => {
                    return Err(format!(
                        "the lines before the edit stand {count} times in {}, not once:\n{}",
                        edit.path, edit.before
                    ));
                }
            }
        }
        Ok(files)
    }
}

fn push_line(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "A bug.\n\ntest = -p a --test b\nseeds = 7\nfound by = early\n\
                        found by = too soon\n\n== src/a.rs\n-- before\none\n-- after\n\
                        -- before\nthree\n-- after\n3\n4\n";

    fn tree(text: &str) -> Tree {
        Tree::fake(&[("src/a.rs", text)])
    }

    #[test]
    fn a_mutant_is_read_and_made() {
        let mutant = Mutant::parse(TEXT).unwrap();
        assert_eq!((mutant.test.as_str(), mutant.seeds), ("-p a --test b", 7));
        assert_eq!(mutant.found_by, ["early", "too soon"]);
        let files = mutant.apply(&tree("one\ntwo\nthree\n")).unwrap();
        assert_eq!(files[0].text, "two\n3\n4\n");
    }

    #[test]
    fn an_edit_that_does_not_apply_is_an_error() {
        let mutant = Mutant::parse(TEXT).unwrap();
        let twice = mutant.apply(&tree("one\none\nthree\n")).unwrap_err();
        assert!(twice.contains("2 times in src/a.rs"), "{twice}");
        assert!(
            mutant
                .apply(&tree("three\n"))
                .unwrap_err()
                .contains("0 times")
        );
        assert!(mutant.apply(&Tree::fake(&[])).is_err());
    }

    #[test]
    fn a_file_without_a_test_or_an_edit_is_refused() {
        let needs_test = Mutant::parse("== a\n-- before\nb\n-- after\n").unwrap_err();
        assert!(needs_test.contains("test = "), "{needs_test}");
        let needs_edit = Mutant::parse("test = a\nfound by = b\n").unwrap_err();
        assert!(needs_edit.contains("== path"), "{needs_edit}");
        assert!(
            Mutant::parse("tests = a\n")
                .unwrap_err()
                .contains("unknown key")
        );
        assert!(Mutant::parse("-- before\n").is_err());
    }
}
