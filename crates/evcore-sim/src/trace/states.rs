//! Describes in words the states of processes, and of the two ends of a connection.

use std::fmt;

use evcore::{Interest, Mode};

use super::{
    event::ClientWait,
    situation::{Activity, End, Holder, Situation, Watch},
    words::{bytes, key_name, names, seconds},
};
use crate::net::EndpointId;

impl Situation<'_> {
    /// The state of one end in words, without its holder. The text is empty if there is nothing to
    /// report.
    pub(crate) fn end_state(&self, id: EndpointId) -> String {
        let (Some(end), Some(other)) = (self.end(id), self.end(id.other())) else {
            return String::new();
        };
        if end.is_closed {
            return "has closed".to_owned();
        }
        let mut facts = Vec::new();
        if let Holder::Client(number) = end.holder {
            facts.extend(self.wait_of(number).map(|wait| wait.to_string()));
        }
        if let Some(send) = end.last_send.filter(|send| send.count < send.of) {
            let unsent = bytes(send.of - send.count);
            facts.push(format!(
                "has {unsent} unsent since {} s",
                seconds(send.at_ns)
            ));
        }
        if end.unread > 0 {
            facts.push(format!("has {} unread", bytes(end.unread)));
        }
        if end.in_flight > 0 {
            facts.push(format!("{} are on their way to it", bytes(end.in_flight)));
        }
        if end.is_at_end {
            facts.push("the peer has ended its stream".to_owned());
        }
        match &end.watch {
            Some(watch) => facts.extend(watch.facts(end, other)),
            None if matches!(end.holder, Holder::Process(_)) => {
                facts.push("is not registered".to_owned());
            }
            None => {}
        }
        facts.join("; ")
    }

    pub(crate) fn process_state(&self, process: u32) -> String {
        let Some(process) = self.process(process) else {
            return String::new();
        };
        let turn = process.turns;
        match process.activity {
            Activity::Runs => format!("runs turn {turn}"),
            Activity::Sleeps(u64::MAX) => format!("waits after turn {turn}"),
            Activity::Sleeps(until_ns) => {
                format!(
                    "waits after turn {turn}, until {} s at most",
                    seconds(until_ns)
                )
            }
            Activity::Paused(until_ns) => {
                format!("is paused in turn {turn} until {} s", seconds(until_ns))
            }
            Activity::Dead => "is dead".to_owned(),
            Activity::Exited => "has exited".to_owned(),
        }
    }
}

impl Watch {
    pub(crate) fn name(&self) -> String {
        key_name(self.key)
    }

    fn facts(&self, end: &End, other: &End) -> Vec<String> {
        let mut facts = vec![format!(
            "is registered as {} for {}",
            self.name(),
            names(self.interest)
        )];
        let can_send = other
            .capacity
            .saturating_sub(other.unread + other.in_flight)
            >= other.capacity.div_ceil(3);
        let wants_to_send = end.last_send.is_some_and(|send| send.count < send.of);
        let is_masked = self.mode.is_edge() || self.mode == Mode::Oneshot;
        let sides = [
            ("READ", Interest::READ, end.unread > 0 || end.is_at_end),
            ("WRITE", Interest::WRITE, can_send && wants_to_send),
        ];
        for (side, interest, is_ready) in sides {
            if !is_ready || self.interest.contains(interest) {
                continue;
            }
            let why = match is_masked && self.wanted.contains(interest) {
                true => "not rearmed",
                false => "not watched",
            };
            facts.push(format!("{side} is {why}, and it is ready"));
        }
        match self.last_report {
            Some((at_ns, ready)) => facts.push(format!(
                "its last report was {} at {} s",
                names(ready),
                seconds(at_ns)
            )),
            None => facts.push("nothing was reported yet".to_owned()),
        }
        facts
    }
}

impl fmt::Display for ClientWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Pause => f.write_str("pauses"),
            Self::Room(count) => write!(f, "waits for room to send {}", bytes(count)),
            Self::Bytes(count) => write!(f, "waits for {}", bytes(count)),
            Self::Text(length, unread) => {
                write!(
                    f,
                    "waits for a text of {}, and has {}",
                    bytes(length),
                    bytes(unread)
                )
            }
            Self::End => f.write_str("waits for the end of the stream"),
        }
    }
}
