//! The events of the feature `tracing`, for a subscriber that collects them.
//!
//! This is a program of its own, because `tracing` decides once for the whole process whether an
//! event has a subscriber, when a thread first emits it. If that thread runs another test, without
//! a subscriber, the event is off for all threads. For the same reason these tests run one at a
//! time.

#[allow(dead_code, reason = "the program `scripted` uses the rest")]
#[path = "scripted/fake_backend.rs"]
mod fake_backend;
#[allow(dead_code, reason = "the program `scripted` uses the rest")]
#[path = "scripted/fake_member.rs"]
mod fake_member;
#[allow(dead_code, reason = "the program `scripted` uses the rest")]
#[path = "scripted/fixture.rs"]
mod fixture;
#[path = "scripted/script.rs"]
mod script;

use std::{
    fmt::{self, Write},
    sync::{Arc, Mutex, PoisonError},
};

use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span,
    subscriber::with_default,
};

use crate::script::script;

/// Collects events as lines: level, target, message, and fields.
#[derive(Clone)]
struct Collector {
    level: Level,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Subscriber for Collector {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.level
    }

    fn event(&self, event: &Event<'_>) {
        let metadata = event.metadata();
        let mut line = Line::default();
        event.record(&mut line);
        let Line { message, fields } = line;
        let (level, target) = (metadata.level(), metadata.target());
        let line = format!("{level} {target}: {message}{fields}");
        self.lines.lock().unwrap().push(line);
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        unreachable!("the loop has no spans")
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

#[derive(Default)]
struct Line {
    message: String,
    fields: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => write!(self.message, "{value:?}").unwrap(),
            // The number of the descriptor differs between processes.
            "descriptor" => self.fields.push_str(" descriptor=N"),
            name => write!(self.fields, " {name}={value:?}").unwrap(),
        }
    }
}

/// The lock that is held while a loop of this program runs.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn events(level: Level) -> Vec<String> {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let lines = Arc::default();
    let collector = Collector {
        level,
        lines: Arc::clone(&lines),
    };
    with_default(collector, || drop(script(|builder| builder)));
    let lines = lines.lock().unwrap();
    lines.clone()
}

#[test]
fn a_scripted_turn_emits_the_expected_events() {
    let events = events(Level::TRACE);
    let expected = [
        "DEBUG evcore::connections: registered token=3v1 watched=true descriptor=N",
        "DEBUG evcore::connections: registered token=4v1 watched=true descriptor=N",
        "DEBUG evcore::connections: registered token=5v1 watched=false",
        "TRACE evcore::timer: armed token=5v1 timer=WRITE deadline_ms=1",
        "TRACE evcore::timer: armed token=3v1 timer=READ deadline_ms=60000",
        "TRACE evcore::timer: disarmed token=3v1 timer=READ",
        "DEBUG evcore::balancer: planned listening=true holds_lock=true leadership=Keep",
        "TRACE evcore::balancer: accept lock taken",
        "TRACE evcore::turn: turn began turn=1 at_ns=1000000 events=2",
        "TRACE evcore::posted: posted token=4v1 ready=Ready(WRITABLE)",
        "TRACE evcore::posted: posted token=3v1 ready=Ready(READABLE)",
        "DEBUG evcore::accept: accepted listener=0",
        "TRACE evcore::balancer: accept lock released",
        "TRACE evcore::turn: woken",
        "TRACE evcore::timer: expired token=5v1 timer=WRITE",
        "TRACE evcore::turn: ready token=4v1 ready=Ready(WRITABLE)",
        "TRACE evcore::turn: ready token=3v1 ready=Ready(READABLE)",
        "TRACE evcore::turn: turn ended took_ns=7000000",
        "DEBUG evcore::balancer: planned listening=true holds_lock=true leadership=Keep",
        "TRACE evcore::balancer: accept lock taken",
        "TRACE evcore::turn: turn began turn=2 at_ns=8000000 events=2",
        "TRACE evcore::balancer: accept lock released",
        "TRACE evcore::turn: ready token=3v1 ready=Ready(READABLE)",
        "DEBUG evcore::connections: closed token=4v1",
        "DEBUG evcore::poller: stale token=4v1",
        "TRACE evcore::turn: turn ended took_ns=0",
        "DEBUG evcore::balancer: planned listening=false holds_lock=false leadership=Keep",
        "TRACE evcore::turn: turn began turn=3 at_ns=8000000 events=0",
        "TRACE evcore::turn: shutting down",
        "DEBUG evcore::connections: evicted token=3v1",
    ];
    assert_eq!(events, expected);
}

#[test]
fn at_debug_only_events_of_that_level_are_emitted() {
    let events = events(Level::DEBUG);
    assert_eq!(events.len(), 10, "{events:#?}");
    assert!(events.iter().all(|event| event.starts_with("DEBUG ")));
}
