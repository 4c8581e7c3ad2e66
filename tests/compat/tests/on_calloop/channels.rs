//! Pings, channels and signals to stop, from other threads.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use calloop::{EventLoop, channel, ping};
use evcore_compat::on_each_backend;

use crate::turn;

on_each_backend!(
    every_ping_is_answered,
    messages_of_many_threads_arrive_in_the_order_of_each,
    a_loop_is_stopped_from_another_thread,
);

/// Each ping is answered before the next, so that each must end a wait of its own.
fn every_ping_is_answered() {
    const PINGS: usize = 2_000;
    let mut event_loop = EventLoop::try_new().expect("a loop");
    let (ping, source) = ping::make_ping().expect("a ping");
    let (answer, answered) = std::sync::mpsc::channel();
    let handle = event_loop.handle();
    handle
        .insert_source(source, move |(), &mut (), pings: &mut usize| {
            *pings += 1;
            answer.send(()).expect("it is expected");
        })
        .expect("the ping is watched");

    let pinging = thread::spawn(move || {
        for _ in 0..PINGS {
            ping.ping();
            answered.recv().expect("it is answered");
        }
    });
    let mut pings = 0;
    turn::until(&mut event_loop, &mut pings, |pings| *pings == PINGS);
    pinging.join().expect("it was answered each time");
}

fn messages_of_many_threads_arrive_in_the_order_of_each() {
    const THREADS: usize = 4;
    const MESSAGES: usize = 5_000;
    let mut event_loop = EventLoop::try_new().expect("a loop");
    let (sender, source) = channel::channel();
    let handle = event_loop.handle();
    handle
        .insert_source(source, |event, &mut (), next: &mut [usize; THREADS]| {
            if let channel::Event::Msg((thread, number)) = event {
                let next: &mut usize = &mut next[thread];
                assert_eq!(number, *next, "of thread {thread}");
                *next += 1;
            }
        })
        .expect("the channel is watched");

    for thread in 0..THREADS {
        let sender: channel::Sender<(usize, usize)> = sender.clone();
        thread::spawn(move || {
            for number in 0..MESSAGES {
                sender.send((thread, number)).expect("it is received");
            }
        });
    }
    let all = [MESSAGES; THREADS];
    turn::until(&mut event_loop, &mut [0; THREADS], |next| *next == all);
}

/// A loop that begins to run ignores earlier stops, so the stop is repeated.
fn a_loop_is_stopped_from_another_thread() {
    let mut event_loop = EventLoop::try_new().expect("a loop");
    let signal = event_loop.get_signal();
    let has_stopped = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !has_stopped.load(Ordering::SeqCst) {
                signal.stop();
                signal.wakeup();
                thread::yield_now();
            }
        });
        event_loop
            .run(None, &mut (), |()| ())
            .expect("the loop runs");
        has_stopped.store(true, Ordering::SeqCst);
    });
}
