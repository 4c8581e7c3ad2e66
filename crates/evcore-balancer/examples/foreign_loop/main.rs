//! An echo server in a loop of its own: std, and epoll by rustix. Its threads share a listener, and
//! the balancer decides which of them listen.
//!
//! `cargo run -p evcore-balancer --example foreign_loop -- 127.0.0.1:0`

#[cfg(target_os = "linux")]
mod worker;

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    use std::{env, net::TcpListener, thread};

    use evcore_balancer::{Balancer, Policy, WorkerGroup, WorkerId};

    let listener = TcpListener::bind(env::args().nth(1).ok_or("usage: foreign_loop ADDRESS")?)?;
    listener.set_nonblocking(true)?;
    let policy = Policy::least_loaded();
    let group = WorkerGroup::new(policy, 4)?;
    eprintln!("listening on {}", listener.local_addr()?);
    thread::scope(|scope| {
        for id in (0..group.workers()).map(WorkerId::from_slot) {
            let (listener, group) = (&listener, &group);
            scope.spawn(move || {
                let served = worker::work(listener, &group.join(id), Balancer::new(policy));
                eprintln!("{id} has ended: {served:?}"); // it has left the group, so another listens
            });
        }
    });
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("this example uses epoll, which only Linux has");
}
