//! The facts that a person needs about a failed run: the connections that are open, and the last
//! turns (iterations of the event loop) of the workers that hold them.

use std::{cmp::Reverse, collections::BTreeSet, fmt::Write};

use crate::{
    client_outcome::ClientOutcome,
    net::EndpointId,
    trace::{Activity, Holder, Recording, Situation, seconds, turns_of, with_time},
};

/// Maximum number of connections that the report shows, and of clients without a connection.
const CONNECTIONS: usize = 8;

/// Maximum number of turns of each worker that the report shows.
const TURNS: usize = 8;

/// Maximum number of lines of each turn, so that a large batch does not hide the rest.
const LINES: usize = 40;

pub(crate) fn describe(recording: &Recording) -> String {
    let situation = Situation::at_end(recording);
    let mut open: Vec<_> = situation.open_connections().collect();
    // A connection is likely to be stuck if no process has accepted it, or if its client waits. The
    // longest wait comes first.
    open.sort_by_key(|id| {
        let waits = situation.is_in_backlog(*id) || situation.has_waiting_client(*id);
        (!waits, situation.last_activity(*id))
    });
    let mut report = String::new();
    if open.is_empty() {
        open = last_ended(&situation, &mut report);
    } else {
        describe_connections(&situation, &open, &mut report);
    }
    describe_unconnected(&situation, &mut report);
    for process in shown_processes(&situation, &open) {
        describe_turns(&situation, process, &open, &mut report);
    }
    report
}

fn describe_connections(situation: &Situation<'_>, open: &[EndpointId], report: &mut String) {
    *report += "Open connections:\n";
    for id in open.iter().take(CONNECTIONS) {
        let (name, last) = (situation.connection_name(*id), situation.last_activity(*id));
        let _ = writeln!(report, "  {name}, last active at {} s", seconds(last));
        for end in [*id, id.other()] {
            let (holder, state) = (situation.name_at(end), situation.end_state(end));
            if !state.is_empty() {
                let _ = writeln!(report, "    {holder}: {state}");
            }
        }
    }
    if open.len() > CONNECTIONS {
        let _ = writeln!(report, "  and {} more", open.len() - CONNECTIONS);
    }
}

/// Describes the connections that ended last, and returns them. Connections whose client did not
/// complete come first.
fn last_ended(situation: &Situation<'_>, report: &mut String) -> Vec<EndpointId> {
    let mut ended: Vec<_> = situation.ended_connections().collect();
    ended.sort_by_key(|(id, outcome)| {
        let has_completed = *outcome == Some(ClientOutcome::Completed);
        (has_completed, Reverse(situation.last_activity(*id)))
    });
    ended.truncate(CONNECTIONS);
    *report += "No connection is open. The last that ended:\n";
    for (id, outcome) in &ended {
        let (name, last) = (
            situation.connection_name(*id),
            seconds(situation.last_activity(*id)),
        );
        let outcome =
            outcome.map_or_else(String::new, |outcome| format!(": the client {outcome:?}"));
        let _ = writeln!(report, "  {name}, last active at {last} s{outcome}");
    }
    ended.into_iter().map(|(id, _)| id).collect()
}

fn describe_unconnected(situation: &Situation<'_>, report: &mut String) {
    for number in situation.unconnected_clients().take(CONNECTIONS) {
        let wait = situation.wait_of(number);
        let state = wait.map_or_else(|| "has no connection".to_owned(), |wait| wait.to_string());
        let _ = writeln!(report, "  client {number}: {state}, without a connection");
    }
}

/// The processes that are in a turn now, and those that hold a connection that is shown.
fn shown_processes(situation: &Situation<'_>, open: &[EndpointId]) -> BTreeSet<u32> {
    let holds = |id: EndpointId| match situation.end(id)?.holder {
        Holder::Process(process) => Some(process),
        _ => None,
    };
    let ends = open
        .iter()
        .take(CONNECTIONS)
        .flat_map(|id| [*id, id.other()]);
    let running = situation.processes().filter(|process| {
        let process = situation.process(*process);
        process.is_some_and(|process| process.turns > 0 && process.activity == Activity::Runs)
    });
    ends.filter_map(holds).chain(running).collect()
}

/// Describes the last turn of a worker, and its last turns in which one of these connections
/// occurs.
fn describe_turns(
    situation: &Situation<'_>,
    process: u32,
    open: &[EndpointId],
    report: &mut String,
) {
    let (name, state) = (
        situation.process_name(process),
        situation.process_state(process),
    );
    let _ = writeln!(report, "The last turns of {name}, which {state}:");
    let turns = turns_of(situation.recording(), process);
    let concerns =
        |connections: &BTreeSet<u32>| open.iter().any(|id| connections.contains(&id.connection()));
    let last = turns.len().saturating_sub(1);
    let numbers = turns.iter().enumerate();
    let mut shown: Vec<_> = numbers
        .filter(|(index, turn)| *index == last || concerns(&turn.connections))
        .collect();
    shown.drain(..shown.len().saturating_sub(TURNS));
    let mut next = shown.first().map_or(0, |(index, _)| *index);
    for (index, turn) in shown {
        if index > next {
            let skipped = index - next;
            let plural = if skipped == 1 { "" } else { "s" };
            let _ = writeln!(
                report,
                "         ({skipped} turn{plural} without these connections)"
            );
        }
        next = index + 1;
        for (now_ns, line) in turn.lines.iter().take(LINES) {
            let _ = writeln!(report, "{}", with_time(*now_ns, line));
        }
        if turn.lines.len() > LINES {
            let _ = writeln!(report, "         (and {} lines)", turn.lines.len() - LINES);
        }
    }
}
