//! Work for other threads, whose results come back into the loop as posted steps.
//!
//!     cargo run --release --example wake -- 1000 1000000 1000000000
//!
//! counts the primes below each number, in a thread each, with a deadline for all of them that the
//! loop keeps. Nobody asks whether a result is there: the thread posts its token, and that ends the
//! loop's wait. A job that is out of time is closed, and when its thread posts all the same, the
//! loop knows the token for stale: nothing has to be taken back from anybody.

use std::{
    env,
    error::Error,
    sync::{Arc, OnceLock},
    thread,
    time::Duration,
};

use evcore::{Connections, EventLoop, Handle, Ready, Step, Timer, Token};

const PATIENCE: Duration = Duration::from_secs(2);

/// What a thread works on, and where it leaves the result.
struct Job {
    below: u64,
    primes: Arc<OnceLock<u64>>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let numbers = env::args().skip(1).map(|number| number.parse());
    let numbers = numbers.collect::<Result<Vec<u64>, _>>()?;
    let mut jobs = Connections::new();
    let mut ev = EventLoop::builder().build()?;
    for below in numbers {
        begin(below, &mut ev, &mut jobs)?;
    }
    while !jobs.is_empty() {
        ev.wait()?;
        while let Some(step) = ev.next_step() {
            let (Step::Ready(token, _) | Step::Expired(token, _)) = step else {
                continue; // nobody wakes it for nothing, and it has no listeners
            };
            if let Some(job) = jobs.remove(&mut ev, token) {
                tell(&job);
            }
        }
    }
    Ok(())
}

/// Gives a job to a thread, and the loop a token for it.
fn begin(below: u64, ev: &mut EventLoop, jobs: &mut Connections<Job>) -> evcore::Result<()> {
    let primes = Arc::new(OnceLock::new());
    let (handle, result) = (ev.handle(), Arc::clone(&primes));
    let token = ev.add_unwatched()?;
    ev.arm(token, Timer::READ, PATIENCE);
    jobs.insert(token, Job { below, primes });
    thread::spawn(move || work(below, &result, token, &handle));
    Ok(())
}

/// What the thread does: first the result, then the post, which makes it visible.
fn work(below: u64, primes: &OnceLock<u64>, token: Token, handle: &Handle) {
    let _ = primes.set(count_primes(below));
    if let Err(gone) = handle.post(token, Ready::READABLE) {
        eprintln!("{gone}"); // for instance because `main` has ended
    }
}

fn tell(Job { below, primes }: &Job) {
    match primes.get() {
        Some(primes) => println!("{primes} primes below {below}"),
        None => println!("the primes below {below} took longer than {PATIENCE:?}"),
    }
}

/// Slow on purpose.
fn count_primes(below: u64) -> u64 {
    let is_prime = |n: &u64| (2..).take_while(|d| d * d <= *n).all(|d| n % d != 0);
    (2..below).filter(is_prime).map(|_| 1).sum()
}
