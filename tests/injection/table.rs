//! The table `calls.md`: the system calls of the server, the errors that are injected, and the
//! losses that each error may cause.

use std::{fmt, sync::OnceLock};

/// The activity of the server when its calls fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The calls from the start of the program on.
    Start,
    /// The calls after the server listens. New workers are traced from their fork on.
    Serving,
    /// The calls from just before QUIT, with a request under way.
    Quit,
}

/// The phases in the order of the table's columns.
pub(super) const PHASES: [Phase; 3] = [Phase::Start, Phase::Serving, Phase::Quit];

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Start => "at start",
            Self::Serving => "while serving",
            Self::Quit => "at QUIT",
        })
    }
}

/// A row: a call, its errors, and what each may cost.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) call: String,
    /// The file of the call's first argument; `None` for any.
    pub(super) file: Option<FileKind>,
    /// Number of first calls of each process that are left out.
    pub(super) after: usize,
    /// The names of the errors. If the list is empty, no error is injected.
    pub(super) errors: Vec<String>,
    /// The losses that each phase may have; `None` if no error is injected in it.
    losses: [Option<Allowed>; 3],
    /// The reason for the row, which a row without errors must have.
    pub(super) why: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileKind {
    Eventfd,
    AccessLog,
    PidFile,
    Stderr,
    /// Any socket. strace cannot select calls by this kind.
    Socket,
}

impl FileKind {
    fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "an eventfd" => Self::Eventfd,
            "the access log" => Self::AccessLog,
            "the pid file" => Self::PidFile,
            "standard error" => Self::Stderr,
            "a socket" => Self::Socket,
            _ => return None,
        })
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Allowed {
    /// True if the server may end before it listens.
    pub(super) exit: bool,
    /// True if a worker may end. It is started again.
    pub(super) restart: bool,
    /// Number of requests that each error may cost.
    pub(super) requests: usize,
}

impl Allowed {
    fn parse(cell: &str) -> Option<Self> {
        let mut allowed = Self::default();
        for word in cell.split_whitespace() {
            match word {
                "-" => return None,
                "nothing" => {}
                "request" => allowed.requests = 1,
                "retry" => allowed.restart = true,
                "exit" => {
                    allowed.exit = true;
                    allowed.restart = true;
                }
                _ => panic!("calls.md has no word `{word}`"),
            }
        }
        Some(allowed)
    }
}

impl Row {
    pub(super) fn allowed(&self, phase: Phase) -> Option<Allowed> {
        self.losses[phase as usize]
    }

    fn parse(line: &str) -> Self {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [call, errors, start, serving, quit, why] = cells[..] else {
            panic!("calls.md: a row has six cells: {line}");
        };
        let (call, after) = match call.split_once(" after ") {
            Some((call, after)) => (call, after.parse().expect("calls.md: a number")),
            None => (call, 0),
        };
        let (call, file) = match call.split_once(" of ") {
            Some((call, file)) => {
                let kind = FileKind::from_name(file);
                (call, Some(kind.expect("calls.md: an unknown file")))
            }
            None => (call, None),
        };
        let errors = errors.split_whitespace().filter(|error| *error != "-");
        let row = Self {
            call: call.trim_matches('`').to_owned(),
            file,
            after,
            errors: errors.map(str::to_owned).collect(),
            losses: [start, serving, quit].map(Allowed::parse),
            why: why.to_owned(),
        };
        assert!(
            !row.errors.is_empty() || row.losses == [None; 3] && !row.why.is_empty(),
            "calls.md: a call without errors needs a reason, and loses nothing: {line}"
        );
        row
    }
}

/// Prints, for example, `write of AccessLog`.
impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.call)?;
        self.file.map_or(Ok(()), |file| write!(f, " of {file:?}"))
    }
}

pub(super) fn rows() -> &'static [Row] {
    static ROWS: OnceLock<Vec<Row>> = OnceLock::new();
    ROWS.get_or_init(|| {
        let lines = include_str!("calls.md").lines();
        let rows = lines.filter(|line| line.starts_with("| `"));
        rows.map(Row::parse).collect()
    })
}
