//! The lines of a server's log. It is a test program of its own, because a process can have one
//! worker without a supervisor.

use std::{
    net::TcpStream,
    sync::{Arc, Mutex},
    time::Duration,
};

use evcore::{
    Connections, Step,
    clock::{Clock, ManualTimeSource},
};
use evcore_serve::{Event, Server, Worker};

#[test]
fn a_shortage_is_a_line_when_it_begins_and_when_it_is_over() {
    let (time, lines) = (ManualTimeSource::new(), Arc::new(Mutex::new(Vec::new())));
    let (source, log) = (time.clone(), Arc::clone(&lines));
    let server = Server::new(0)
        .bind("127.0.0.1:0")
        .unwrap()
        .event_loop(move |builder| {
            let clock = Clock::with_source(source.clone());
            builder.connections(1).clock(clock)
        })
        .on_event(move |event| {
            if let Event::Shortage(..) = event {
                log.lock().unwrap().push(event.to_string());
            }
        });
    let address = server.listeners()[0].local_addr().tcp().unwrap();
    let client = TcpStream::connect(address).unwrap();

    let work = |mut worker: Worker| {
        let mut clients = Connections::new();
        let client = loop {
            assert!(worker.next_turn()?);
            if let Some(Step::Accepted(new)) = worker.ev.next_step() {
                break clients.add(&mut worker.ev, new.stream, ())?;
            }
        };
        for _ in 0..2 {
            next_turn(&mut worker)?;
        }
        clients.close(&mut worker.ev, client);
        time.advance(Duration::from_secs(10));
        for _ in 0..2 {
            next_turn(&mut worker)?;
        }
        Ok::<_, evcore::Error>(())
    };
    server.run_here(work).unwrap();
    drop(client);
    let expected = [
        "worker 0: full at its limit of 1 connections; new clients wait, or idle ones are closed for them",
        "worker 0: nothing has been short for 10 seconds",
    ];
    assert_eq!(*lines.lock().unwrap(), expected);
}

/// Takes a turn that does not wait. When the turn begins, the worker reports the shortages at the
/// end of the previous turn.
fn next_turn(worker: &mut Worker) -> evcore::Result<()> {
    worker.ev.handle().wake();
    assert!(worker.next_turn()?);
    while worker.ev.next_step().is_some() {}
    Ok(())
}
