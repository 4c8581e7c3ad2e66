//! The tables of the pollers.

use super::table::{head, nothing, row};
use crate::bench::count::TIMEOUTS;
use crate::bench::results::Results;
use crate::bench::strace::Calls;

/// After the tables of times.
pub(super) fn end(results: &Results) -> String {
    instructions(results) + &calls(results)
}

fn instructions(results: &Results) -> String {
    let heading = "### Instructions an event\n\n";
    if let Some(why) = &results.counted.no_events {
        return format!("{heading}Not counted: {why}.\n\n");
    }
    let columns = ["without timers", "with a timer re-armed"].map(str::to_owned);
    let mut text = format!(
        "{heading}In user mode, of libevent's benchmark with 200 pairs, 100 of them active: by \
         callgrind, as the difference of two run lengths. A read and a write of the C library are \
         in each, and a hundredth of a wait. The bare loop has no timers in either column. Two \
         things are not as they are outside callgrind: where valgrind does not know `epoll_pwait2`, ours waits by `epoll_wait`, as on an old \
         kernel; and `EventLoop` has its time from the C library, since valgrind cannot run \
         rustix's. There is no vDSO under valgrind, so reading a clock is a system call for all, \
         whose instructions are not in user mode.\n\n{}",
        head("", &columns)
    );
    let counted = |workload: &str, peer: &str| {
        let instructions = results.counted.instructions(workload, peer);
        instructions.map_or_else(nothing, |n| format!("{n:.0}"))
    };
    for (peer, _) in results.counted.events_of("pollers/pipes/100") {
        let workloads = ["pollers/pipes/100", "pollers/timers/100"];
        let cells = workloads.iter().map(|workload| counted(workload, peer));
        text.push_str(&row(peer, cells));
    }
    text + "\n"
}

fn calls(results: &Results) -> String {
    let heading = "### System calls\n\n";
    if let Some(why) = &results.counted.no_calls {
        return format!("{heading}Not counted: {why}.\n\n");
    }
    let columns = ["no timeout", "0", "1 ms + 1 ns"].map(str::to_owned);
    let mut text = format!(
        "{heading}By strace, as the difference of two run lengths. A wait without a timeout is \
         ended by a byte, the others end by themselves.\n\n{}",
        head("a wait", &columns)
    );
    let workloads = TIMEOUTS.map(|(workload, _)| workload);
    for peer in results.counted.callers(workloads[0]) {
        let calls = workloads.map(|workload| results.counted.calls(workload, peer));
        text.push_str(&row(peer, calls.into_iter().map(calls_or_nothing)));
    }
    let workload = "pollers/toggle";
    text.push('\n');
    text.push_str(&head("", &["a stop and start".to_owned()]));
    for peer in results.counted.callers(workload) {
        let calls = results.counted.calls(workload, peer);
        text.push_str(&row(peer, std::iter::once(calls_or_nothing(calls))));
    }
    text + "\n"
}

fn calls_or_nothing(calls: Option<&Calls>) -> String {
    calls.map_or_else(nothing, Calls::shown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::callgrind::Events;

    #[test]
    fn what_was_counted_is_told_and_what_was_not_has_a_dash() {
        let mut results = Results::default();
        let events = Events {
            instructions: 83.4,
            ..Events::default()
        };
        let counted = &mut results.counted;
        counted.add_events("pollers/pipes/100", "Poller", events);
        counted.add_calls("pollers/wait/none", "mio", Calls::once(&["epoll_wait"]));
        counted.add_calls("pollers/toggle", "Poller", Calls::default());
        let text = end(&results);
        assert!(text.contains("| `Poller` | 83 | – |"), "{text}");
        assert!(text.contains("| `mio` | **1** `epoll_wait` | – | – |"));
        assert!(text.contains("| `Poller` | **0** |"));
    }

    #[test]
    fn why_nothing_was_counted_is_said() {
        let mut results = Results::default();
        results.counted.no_events = Some("no valgrind".to_owned());
        results.counted.no_calls = Some("no strace".to_owned());
        let text = end(&results);
        assert!(text.contains("Not counted: no valgrind.") && text.contains("no strace."));
    }
}
