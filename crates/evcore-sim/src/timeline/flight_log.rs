//! Draws the flight records (the last actions of an event loop) in a log of `httpd`.

use std::collections::BTreeMap;

use super::{Group, Kind, Span, SpanKind, Timeline};

impl Timeline {
    /// Draws the flight records in an error log of `httpd`. If a process has logged its records
    /// several times, only the last ones are drawn. Returns `None` if the log has no records.
    ///
    /// Most records have no time of their own, so they are drawn at the beginning of their turn
    /// (one iteration of the loop). Records before the first whole turn of a process are drawn at
    /// the beginning of that turn.
    ///
    /// ```
    /// use evcore_sim::Timeline;
    ///
    /// let log = "\
    /// 2026/11/23 20:00:00 [alert] 7: turn 1 took 21ms, with 1 steps
    /// 2026/11/23 20:00:00 [alert] 7: record -0: TurnEnded { took_ns: 21000000 }
    /// 2026/11/23 20:00:00 [alert] 7: record -1: Ready(4v1, Ready(READABLE))
    /// 2026/11/23 20:00:00 [alert] 7: record -2: TurnBegan { turn: 1, at_ns: 5000, events: 1 }
    /// ";
    /// let timeline = Timeline::of_flight_log(log).expect("it has records");
    /// assert!(timeline.to_html().contains("READABLE"));
    /// ```
    #[must_use]
    pub fn of_flight_log(log: &str) -> Option<Self> {
        let mut records: Vec<_> = processes(log).into_iter().flat_map(timed).collect();
        if records.is_empty() {
            return None;
        }
        records.sort_by_key(|record| record.at_ns);
        let mut drawing = Drawing::default();
        drawing.timeline.title = "Flight records".to_owned();
        records.iter().for_each(|record| drawing.follow(record));
        Some(drawing.end())
    }
}

/// A record with the time of its turn.
#[derive(Clone, Copy, Debug)]
struct Record<'a> {
    at_ns: u64,
    process: &'a str,
    /// The `Debug` of an `evcore::Record`.
    text: &'a str,
}

/// The last records that each process has logged, the newest first.
fn processes(log: &str) -> BTreeMap<&str, Vec<&str>> {
    let mut processes: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (process, age, text) in log.lines().filter_map(parse) {
        let records = processes.entry(process).or_default();
        if age == 0 {
            records.clear();
        }
        // A log loses lines while its pipe is full. Records older than a lost one are left out,
        // because the picture would not show the gap.
        if records.len() == age {
            records.push(text);
        }
    }
    processes
}

/// The process, the age and the text of a record.
fn parse(line: &str) -> Option<(&str, usize, &str)> {
    let (_, rest) = line.split_once(" [alert] ")?;
    let (process, rest) = rest.split_once(": record -")?;
    let (age, text) = rest.split_once(": ")?;
    Some((process, age.parse().ok()?, text))
}

/// The records of a process, the oldest first, with their times.
fn timed<'a>((process, newest_first): (&'a str, Vec<&'a str>)) -> Vec<Record<'a>> {
    let texts = newest_first.into_iter().rev();
    let began = |text: &str| {
        name(text)
            .starts_with("TurnBegan")
            .then(|| field(text, "at_ns"))?
    };
    let first = texts.clone().find_map(began);
    let mut at_ns = first.unwrap_or(0);
    let with_time = |text| {
        at_ns = began(text).unwrap_or(at_ns);
        Record {
            at_ns,
            process,
            text,
        }
    };
    texts.map(with_time).collect()
}

fn name(text: &str) -> &str {
    text.split(|letter: char| !letter.is_alphanumeric())
        .next()
        .unwrap_or_default()
}

fn field(text: &str, name: &str) -> Option<u64> {
    let (_, rest) = text.split_once(&format!("{name}: "))?;
    let end = rest
        .find(|letter: char| !letter.is_ascii_digit())
        .unwrap_or(rest.len());
    rest[..end].parse().ok()
}

/// The token of a record, such as `4v1`.
fn token(text: &str) -> Option<&str> {
    let mut words = text.split(|letter: char| !letter.is_ascii_alphanumeric());
    words.find(|word| {
        let halves = word.split_once('v');
        let is_number =
            |half: &str| !half.is_empty() && half.bytes().all(|byte| byte.is_ascii_digit());
        halves.is_some_and(|(index, generation)| is_number(index) && is_number(generation))
    })
}

#[derive(Debug, Default)]
struct Drawing {
    timeline: Timeline,
    /// The first moment of the unfinished bar on each lane.
    open: BTreeMap<usize, usize>,
    /// The row of each process and token, and the facts that the row shows.
    rows: BTreeMap<String, (usize, Facts)>,
}

/// The state of a connection or of a worker, as three records. For a connection, these are its
/// registration, its timer, and its last record of another kind. For a worker, these are its plan
/// (whether it accepts clients), the accept lock, and its last record of another kind.
#[derive(Debug, Default)]
struct Facts([String; 3]);

impl Facts {
    fn update(&mut self, text: &str) {
        let place = match name(text) {
            "Closed" => return *self = Self::default(),
            "Disarmed" => return self.0[1].clear(),
            "Registered" => {
                *self = Self::default();
                0
            }
            "Planned" => 0,
            "Armed" | "LockTaken" | "LockReleased" => 1,
            _ => 2,
        };
        text.clone_into(&mut self.0[place]);
    }
}

impl Drawing {
    fn follow(&mut self, record: &Record<'_>) {
        let process = format!("worker {}", record.process);
        let worker = self.timeline.lane(Group::Process, &process);
        let token = token(record.text).map(|token| format!("{process}, {token}"));
        let lane = match &token {
            Some(token) => self.timeline.lane(Group::Token, token),
            None => worker,
        };
        let text = format!("{process}: {}", record.text);
        self.timeline
            .add(record.at_ns, lane, kind_of(name(record.text)), &text);
        match name(record.text) {
            "TurnBegan" | "Registered" => {
                self.finish(lane);
                self.open
                    .extend(self.timeline.last().map(|last| (lane, last)));
            }
            "TurnEnded" | "Closed" => self.finish(lane),
            _ => {}
        }
        self.update_row(token.unwrap_or(process), record.text);
    }

    fn finish(&mut self, lane: usize) {
        let (Some(first), Some(last)) = (self.open.remove(&lane), self.timeline.last()) else {
            return;
        };
        let kind = match self.timeline.lanes[lane].group {
            Group::Token => SpanKind::Open,
            _ => SpanKind::Turn,
        };
        self.timeline.spans.push(Span {
            lane,
            ends: [first, last],
            kind,
        });
    }

    fn update_row(&mut self, name_of_row: String, text: &str) {
        let timeline = &mut self.timeline;
        let new_row = || (timeline.add_row(&name_of_row), Facts::default());
        let (row, facts) = self.rows.entry(name_of_row.clone()).or_insert_with(new_row);
        facts.update(text);
        let facts: Vec<_> = facts.0.iter().map(String::as_str).collect();
        let facts: Vec<_> = facts.into_iter().filter(|fact| !fact.is_empty()).collect();
        self.timeline.set(*row, &facts.join("\n"));
    }

    fn end(mut self) -> Timeline {
        let open: Vec<_> = self.open.keys().copied().collect();
        open.into_iter().for_each(|lane| self.finish(lane));
        self.timeline.sort_lanes();
        self.timeline
    }
}

fn kind_of(name: &str) -> Kind {
    match name {
        "Stale" => Kind::Fault,
        "Ready" | "Expired" | "Woken" | "ShuttingDown" | "Evict" => Kind::Step,
        "TurnBegan" | "TurnEnded" => Kind::Report,
        "Accepted" | "Registered" | "Closed" => Kind::Move,
        _ => Kind::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
2026/11/23 20:00:00 [alert] 7: turn 9 took 21ms, with 1 steps
2026/11/23 20:00:00 [alert] 7: record -0: Ready(9v9, Ready(READABLE))
2026/11/23 20:00:01 [notice] 7: something else
2026/11/23 20:00:02 [alert] 7: turn 10 took 22ms, with 1 steps
2026/11/23 20:00:02 [alert] 7: record -0: TurnEnded { took_ns: 22000000 }
2026/11/23 20:00:02 [alert] 8: record -0: TurnBegan { turn: 3, at_ns: 2000, events: 0 }
2026/11/23 20:00:02 [alert] 7: record -1: Ready(4v1, Ready(READABLE | WRITABLE))
2026/11/23 20:00:02 [alert] 7: record -2: TurnBegan { turn: 10, at_ns: 1000, events: 1 }
2026/11/23 20:00:02 [alert] 7: record -3: Armed { token: 4v1, timer: READ, deadline_ms: 60000 }
2026/11/23 20:00:02 [alert] 7: record -5: Woken
";

    #[test]
    fn the_last_records_of_each_process_are_drawn_up_to_a_gap() {
        let timeline = Timeline::of_flight_log(LOG).expect("it has records");
        let lanes: Vec<_> = timeline
            .lanes
            .iter()
            .map(|lane| lane.name.as_str())
            .collect();
        assert_eq!(lanes, ["worker 7", "worker 8", "worker 7, 4v1"]);
        let texts = timeline.moments.iter().map(|moment| {
            let text = &timeline.texts.texts[moment.text];
            let text = text.split_once(": ").unwrap().1;
            (moment.at_ns, name(text))
        });
        let expected = [
            (1000, "Armed"),
            (1000, "TurnBegan"),
            (1000, "Ready"),
            (1000, "TurnEnded"),
            (2000, "TurnBegan"),
        ];
        assert!(texts.eq(expected));
        assert_eq!(timeline.spans[0].ends, [1, 3]);
    }

    #[test]
    fn a_log_without_records_has_no_picture() {
        assert!(Timeline::of_flight_log("2026/11/23 20:00:00 [alert] 7: it stops\n").is_none());
    }

    #[test]
    fn a_token_is_two_numbers_with_a_v() {
        assert_eq!(token("Armed { token: 14v3, timer: READ }"), Some("14v3"));
        assert_eq!(token("Planned { v: v1, accepts_at_most: None }"), None);
    }
}
