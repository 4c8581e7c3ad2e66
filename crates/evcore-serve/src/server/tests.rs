use super::*;
use crate::loops::FAILED;

use std::sync::Mutex;

type Lines = Arc<Mutex<Vec<String>>>;

fn server(workers: usize) -> (Server, Lines) {
    let lines = Lines::default();
    let log = Arc::clone(&lines);
    let server = Server::new(workers)
        .event_loop(|builder| builder.connections(7))
        .on_event(move |event| log.lock().unwrap().push(event.to_string()));
    (server, lines)
}

#[test]
fn a_number_of_workers_out_of_range_is_named_with_the_range() {
    for workers in [0, 1025, 2000, usize::MAX] {
        let refused = server(workers).0.run_threads(|_| Ok::<_, String>(()));
        let expected = format!("cannot supervise {workers} workers: from 1 to 1024 are possible");
        assert_eq!(refused.unwrap_err().to_string(), expected);
    }
}

#[test]
fn a_single_worker_shares_its_listeners_by_no_policy() {
    for (workers, policy) in [(1, "policy: Off"), (2, "policy: LeastLoaded")] {
        let group = server(workers).0.setup(4).unwrap().loops.group;
        let group = format!("{group:?}");
        assert!(group.contains(policy), "{workers}: {group}");
    }
}

#[test]
fn an_error_is_a_failed_start_until_the_first_turn() {
    let (start, lines) = server(1);
    let outcome = start.run_threads(|_| Err("out of luck")).unwrap();
    assert_eq!(outcome, Outcome::AllRefused);
    assert_eq!(
        lines.lock().unwrap()[0],
        "worker 0 cannot start: out of luck"
    );

    // This comes last, because a process in which a solo worker was made can have no supervisor and
    // no second solo worker.
    let supervised = evcore_prefork::Worker::solo().unwrap();
    let (later, lines) = server(1);
    let loops = later.setup(2).unwrap().loops;
    let ended = loops.run(supervised, Ok(Vec::new()), |mut worker| {
        assert_eq!(worker.ev.stats().limit, 7);
        let mut turns = Vec::new();
        for _ in 0..2 {
            worker.ev.handle().wake();
            let goes_on = worker.next_turn_with(|ev| turns.push(ev.stats().turns));
            assert!(goes_on.unwrap());
        }
        assert_eq!(turns, [0, 1], "the turn before has ended");
        Err("out of luck")
    });
    assert_eq!(ended, FAILED);
    assert_eq!(*lines.lock().unwrap(), ["worker 0 ends: out of luck"]);
}
