//! A worker whose turns (iterations of its event loop) are long gets few of the new clients.

use std::{
    sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
    thread,
};

use evcore_tests::{Server, SetOnDrop, eventually};

const CLIENTS: usize = 400;

#[test]
fn a_worker_that_blocks_gets_few_of_the_new_clients() {
    let server = Server::start(&["--workers", "4", "--poller", "epoll"]);
    let _ = server.wait_for_workers(4, &[]);
    let mut blocker = server.connect();
    let late = blocker.worker();
    let (is_over, blocks) = (AtomicBool::new(false), AtomicU32::new(0));
    let at_late = thread::scope(|scope| {
        let _end = SetOnDrop(&is_over);
        scope.spawn(|| {
            while !is_over.load(Relaxed) {
                blocker.get("/block/50");
                blocks.fetch_add(1, Relaxed);
            }
        });
        // A single long turn does not count.
        eventually("it is late", || blocks.load(Relaxed) > 3);
        (0..CLIENTS)
            .filter(|_| server.connect().worker() == late)
            .count()
    });
    println!("{at_late} of {CLIENTS} clients came to the late worker");
    // Its fair share is a quarter. On a busy machine the other workers are late at times, too.
    assert!(at_late < CLIENTS / 10, "{at_late}");
}
