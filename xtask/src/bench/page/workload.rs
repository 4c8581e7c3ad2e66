//! What was timed, in words: a table for each.

/// A table of times.
#[derive(Debug)]
pub(super) struct Workload {
    /// As `evcore-bench` calls it; its part comes before the first `/`.
    pub(super) name: &'static str,
    pub(super) heading: &'static str,
    /// What a figure is of.
    pub(super) what: &'static str,
    /// The name of a size's column.
    pub(super) column: fn(u64) -> String,
}

/// All, in the order of the page.
const WORKLOADS: &[Workload] = &[
    Workload {
        name: "timers/rearm",
        heading: "Re-arm",
        what: "A timer at random gets a deadline 60 s from then, 100 to a millisecond. No timer \
               fires.",
        column: armed,
    },
    Workload {
        name: "timers/replace",
        heading: "Arm and cancel",
        what: "Beside those that are armed, 64 come and go: the one that was armed longest ago is \
               cancelled, and armed to a random deadline within 60 s. One operation is both.",
        column: armed,
    },
    Workload {
        name: "timers/expire",
        heading: "Expire all",
        what: "Deadlines over 60 s, taken in the turns that the queue itself asks for; a timer's \
               share of the whole. `DelayQueue` makes a `Sleep` for each deadline. The C libraries \
               expire all in one turn, and call a function for each.",
        column: armed,
    },
    Workload {
        name: "timers/serve",
        heading: "A minute of serving",
        what: "60 s in which 20 timers a millisecond are re-armed at random to 60 s from then; as \
               each millisecond begins, what is due is taken and armed again. A re-arm's share of \
               all this: what a lazy queue puts off is in it. Only for queues that can be told the \
               time.",
        column: armed,
    },
    Workload {
        name: "clock/read",
        heading: "Read the time",
        what: "`SharedClock` while another thread updates it every millisecond; its snapshot has \
               all numbers and strings. `quanta recent` and `coarsetime recent` are cached like \
               ours, and not updated here.",
        column: alone,
    },
    Workload {
        name: "clock/date",
        heading: "Append the HTTP date",
        what: "29 bytes to a vector that has room. `Clock` and `SharedClock` have it ready; \
               `stamp::http_date` and `httpdate` make it from the seconds. `Instant::now` appends \
               nothing: it is there as the measure.",
        column: alone,
    },
    Workload {
        name: "clock/update",
        heading: "Update",
        what: "Once a turn of a loop. Ours reads the monotonic and the wall clock.",
        column: alone,
    },
    Workload {
        name: "pollers/pipes/1",
        heading: "libevent's benchmark, 1 active",
        what: "Bytes go round a ring of socket pairs, here one byte: an event is a byte that is \
               read and written on, by the C library's calls, and its share of the wait. The \
               kernel's part is in it, and is most of it. All are level-triggered but `mio`, which \
               can only be edge-triggered, and `Poller, edge`. poll and select go through all \
               descriptors in each wait, so they have only the small ring.",
        column: pairs,
    },
    Workload {
        name: "pollers/pipes/100",
        heading: "libevent's benchmark, 100 active",
        what: "A hundred bytes at the same time, so that a wait brings many events.",
        column: pairs,
    },
    Workload {
        name: "pollers/pipes/1000",
        heading: "libevent's benchmark, 1,000 active",
        what: "A thousand bytes.",
        column: pairs,
    },
    Workload {
        name: "pollers/timers/1",
        heading: "With a timer re-armed for each event, 1 active",
        what: "As above; each pair has a timer, which is armed to 10 to 11 s from then whenever the \
               pair is served. No timer fires. The bare loop has none, and is there as the measure; \
               `Poller`, `mio` and `polling` have none and are not.",
        column: pairs,
    },
    Workload {
        name: "pollers/timers/100",
        heading: "With a timer re-armed for each event, 100 active",
        what: "A hundred bytes at the same time.",
        column: pairs,
    },
    Workload {
        name: "pollers/timers/1000",
        heading: "With a timer re-armed for each event, 1,000 active",
        what: "A thousand bytes.",
        column: pairs,
    },
    Workload {
        name: "pollers/toggle",
        heading: "Stop and start",
        what: "One descriptor is removed and added again before a wait could report it. A poller \
               that makes no system call for that compares when the wait begins, which is not in \
               the figure. The bare loop and `mio` remove and add; `polling` modifies twice.",
        column: alone,
    },
    Workload {
        name: "pollers/watched",
        heading: "A wait among many",
        what: "One descriptor is ready in each wait, and stays so; the others are silent.",
        column: watched,
    },
    Workload {
        name: "posted/queue",
        heading: "Post and take",
        what: "Ids are posted, then taken until none is left; one operation is both. Our queues and \
               `VecDeque, each once` take an id that is queued already for one. `TurnQueue` keeps \
               two queues in one table.",
        column: at_a_time,
    },
    Workload {
        name: "posted/inbox",
        heading: "Send and receive",
        what: "Values are sent, then received until none is left, in one thread; one operation is \
               both, with its share of an eventfd that is written once for all that come to wait \
               together, and read. The peers have a flag for that, the inbox does it by itself.",
        column: at_a_time,
    },
    Workload {
        name: "budgets/batch",
        heading: "Events of a wait",
        what: "4,096 sockets have a byte each, which is read. An event's share of it all, by the \
               budget; the baseline is the default.",
        column: items,
    },
    Workload {
        name: "budgets/accepts",
        heading: "Clients of a turn",
        what: "1,024 clients wait in the backlog, and are accepted and closed. A client's share.",
        column: items,
    },
    Workload {
        name: "budgets/expired",
        heading: "Timers of a turn",
        what: "65,536 timers are due. A timer's share.",
        column: items,
    },
    Workload {
        name: "budgets/posted",
        heading: "Posted steps of a turn",
        what: "65,536 tokens are posted. A step's share.",
        column: items,
    },
];

/// Those of a part.
pub(super) fn of(part: &str) -> impl Iterator<Item = &'static Workload> {
    let is_of_part = move |w: &&Workload| w.name.split('/').next() == Some(part);
    WORKLOADS.iter().filter(is_of_part)
}

/// So many timers.
pub(super) fn armed(size: u64) -> String {
    format!("10^{} armed", size.ilog10())
}

fn alone(_: u64) -> String {
    "ns".to_owned()
}

fn pairs(size: u64) -> String {
    format!("{} pairs", thousands(size))
}

fn at_a_time(size: u64) -> String {
    format!("{} at a time", thousands(size))
}

fn items(_: u64) -> String {
    "ns an item".to_owned()
}

fn watched(size: u64) -> String {
    format!("{} watched", thousands(size))
}

/// A number as people write it, below a million.
fn thousands(number: u64) -> String {
    match number {
        0..1_000 => number.to_string(),
        _ => format!("{},{:03}", number / 1_000, number % 1_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_says_how_many_of_what() {
        assert_eq!(armed(100_000), "10^5 armed");
        assert_eq!(pairs(100), "100 pairs");
        assert_eq!(watched(19_050), "19,050 watched");
    }

    #[test]
    fn each_part_has_its_own() {
        assert!(of("timers").all(|w| w.name.starts_with("timers/")));
        assert_eq!(of("clock").count(), 3);
        assert_eq!(of("time").count(), 0);
    }
}
