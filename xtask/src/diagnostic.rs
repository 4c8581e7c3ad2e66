//! A diagnostic: a place in the tree, and what to do about it.

use std::fmt;

/// A diagnostic. `Display` gives `file:line: what to do`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Diagnostic {
    file: String,
    line: Option<usize>,
    what: String,
}

impl Diagnostic {
    /// A diagnostic of a whole file.
    pub(crate) fn of(file: impl Into<String>, what: impl Into<String>) -> Diagnostic {
        Diagnostic {
            file: file.into(),
            line: None,
            what: what.into(),
        }
    }

    /// A diagnostic of a line, counted from 1.
    pub(crate) fn at(file: impl Into<String>, line: usize, what: impl Into<String>) -> Diagnostic {
        Diagnostic {
            line: Some(line),
            ..Diagnostic::of(file, what)
        }
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}", self.what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diagnostic_names_its_file_and_line() {
        assert_eq!(
            Diagnostic::at("src/lib.rs", 3, "mend it").to_string(),
            "src/lib.rs:3: mend it"
        );
        assert_eq!(
            Diagnostic::of("README.md", "write it").to_string(),
            "README.md: write it"
        );
    }
}
