//! Logs the actions of the event loop (`--log-level`), by a subscriber of the crate `tracing`.
//!
//! A line begins like nginx's with time, level and process. Target, message and fields follow.

use std::{
    fmt::{self, Write},
    process,
    sync::Mutex,
};

use evcore::clock::{Clock, Stamp};
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    level_filters::LevelFilter,
    span, subscriber,
};

use crate::{log::log, options::LogLevel};

/// Writes the events of this level, and of less detailed levels, to the log.
#[derive(Debug)]
struct TraceLog {
    level: Level,
    clock: Mutex<Clock>,
}

/// Logs events of this process and of its workers from now on, if the level includes any. Call it
/// once.
pub fn install(level: LogLevel) {
    let level = match level {
        LogLevel::Error => return,
        LogLevel::Debug => Level::DEBUG,
        LogLevel::Trace => Level::TRACE,
    };
    let clock = Mutex::new(Clock::system());
    if subscriber::set_global_default(TraceLog { level, clock }).is_err() {
        log("httpd: --log-level: another subscriber is installed");
    }
}

impl Subscriber for TraceLog {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.level
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::from_level(self.level))
    }

    fn event(&self, event: &Event<'_>) {
        let Ok(mut clock) = self.clock.lock() else {
            return;
        };
        clock.update();
        log(Line {
            time: clock.error_log_time(),
            event,
        });
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

struct Line<'a> {
    time: Stamp<19>,
    event: &'a Event<'a>,
}

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (metadata, pid) = (self.event.metadata(), process::id());
        let level = if *metadata.level() == Level::TRACE {
            "trace"
        } else {
            "debug"
        };
        let target = metadata.target();
        write!(f, "{} [{level}] {pid}: {target}:", self.time)?;
        let mut fields = Fields(String::new());
        self.event.record(&mut fields);
        f.write_str(&fields.0)
    }
}

/// The message and the fields of an event, each after a space.
struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = match field.name() {
            "message" => write!(self.0, " {value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
    }
}
