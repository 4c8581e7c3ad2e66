//! What a check found: where, and what to do about it.

use std::fmt;

/// One fault. `Display` gives `file:line: what to do`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    file: String,
    line: Option<usize>,
    what: String,
}

impl Fault {
    /// A fault of the file as a whole.
    pub(crate) fn of(file: impl Into<String>, what: impl Into<String>) -> Fault {
        Fault {
            file: file.into(),
            line: None,
            what: what.into(),
        }
    }

    /// A fault in a line, counted from 1.
    pub(crate) fn at(file: impl Into<String>, line: usize, what: impl Into<String>) -> Fault {
        Fault {
            line: Some(line),
            ..Fault::of(file, what)
        }
    }
}

impl fmt::Display for Fault {
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
    fn a_fault_names_its_file_and_line() {
        assert_eq!(
            Fault::at("src/lib.rs", 3, "mend it").to_string(),
            "src/lib.rs:3: mend it"
        );
        assert_eq!(
            Fault::of("README.md", "write it").to_string(),
            "README.md: write it"
        );
    }
}
