//! The values of options, and their parsers, whose error messages describe the allowed values.

use std::{
    ffi::OsString, fmt, ops::RangeInclusive, os::unix::ffi::OsStrExt, str::FromStr, time::Duration,
};

use clap::{
    ValueEnum,
    builder::{PossibleValuesParser, TypedValueParser},
};
use evcore::poller::BackendKind;
use evcore_serve::prefork::{Affinity, Cpus};

use crate::cpu_masks;

/// The most workers. Each has four slots, and a sample of the history needs one row more than there
/// are slots. A scoreboard has at most 4,096 rows.
pub(super) const MAX_WORKERS: usize = 1023;

/// A choice; `None` is `auto`. (The alias is needed, because for clap a field of the type `Option`
/// is an option without a default.)
pub type AutoOr<T> = Option<T>;

/// The kind of timer queue. In every kind, re-arming a timer to a later deadline only stores the
/// deadline (`evcore::timer::Lazy`).
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Timers {
    /// A hierarchical timing wheel.
    Wheel,
    /// A red-black tree.
    Tree,
    /// A four-ary heap.
    Heap,
}

/// A value of `--log-level`. Each level includes the levels before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogLevel {
    /// Announcements of the server, and errors.
    Error,
    /// Connections, plans and stale events of the event loop.
    Debug,
    /// Turns, steps, timers and posts of the event loop.
    Trace,
}

impl LogLevel {
    /// Checks whether this build can log the level.
    pub fn check(self) -> Result<(), String> {
        if cfg!(feature = "tracing") || self == Self::Error {
            return Ok(());
        }
        Err(
            "--log-level: this program is built without `--features tracing`, so the level can only be error"
                .into(),
        )
    }
}

pub(super) fn number<N>(range: RangeInclusive<N>) -> impl Fn(&str) -> Result<N, String> + Clone
where
    N: FromStr + PartialOrd + fmt::Display + Clone,
{
    move |value| match value.parse() {
        Ok(number) if range.contains(&number) => Ok(number),
        _ => {
            let (least, most) = (range.start(), range.end());
            Err(format!("expected a number from {least} to {most}"))
        }
    }
}

pub(super) fn milliseconds(value: &str) -> Result<Duration, String> {
    // The maximum is a day, because a larger number is probably in another unit.
    number(1..=86_400_000)(value).map(Duration::from_millis)
}

pub(super) fn on_or_off() -> impl TypedValueParser<Value = bool> {
    PossibleValuesParser::new(["on", "off"]).map(|value| value == "on")
}

pub(super) fn workers(value: &str) -> Result<usize, String> {
    match value {
        "auto" => Ok(std::thread::available_parallelism().map_or(1, |n| n.get().min(MAX_WORKERS))),
        _ => number(0..=MAX_WORKERS)(value).map_err(|error| format!("{error}, or auto")),
    }
}

pub(super) fn affinity(value: &str) -> Result<Affinity, String> {
    let allowed = Cpus::allowed().map_err(|error| error.to_string())?;
    cpu_masks::parse(value, &allowed)
}

pub(super) fn poller(value: &str) -> Result<AutoOr<BackendKind>, String> {
    match value {
        "auto" => Ok(None),
        _ => match value.parse() {
            Ok(kind) => Ok(Some(kind)),
            Err(error) => Err(format!("{error}, or auto")),
        },
    }
}

pub(super) fn component(value: OsString) -> Result<OsString, String> {
    let bytes = value.as_bytes();
    if matches!(bytes, b"" | b"." | b"..") || bytes.contains(&b'/') {
        return Err("expected the name of a file, without a directory".to_owned());
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use evcore_serve::prefork::Supervisor;

    use super::*;
    use crate::history::History;

    #[test]
    fn the_most_workers_have_a_history() {
        let slots = Supervisor::new(MAX_WORKERS).slots();
        assert!(History::new(slots).is_ok());
    }

    #[test]
    fn log_levels_that_this_build_cannot_log_are_refused() {
        assert_eq!(LogLevel::Error.check(), Ok(()));
        for level in [LogLevel::Debug, LogLevel::Trace] {
            let refused = level.check().err();
            assert_eq!(refused.is_none(), cfg!(feature = "tracing"), "{refused:?}");
            assert!(refused.is_none_or(|message| message.contains("--features tracing")));
        }
    }
}
