//! Gives work to other threads, and gets each result back in the loop as a posted step. This
//! command counts the primes below each of the numbers:
//!
//!     cargo run --release --example wake -- 1000 1000000 1000000000
//!
//! Each number has a thread and a timeout of two seconds. A thread posts the token of its job when
//! the result is there, and the post ends the loop's wait. A job whose timeout has passed is
//! removed. If its thread posts later, the token is stale, and the loop drops the post.

use std::{
    env,
    error::Error,
    sync::{Arc, OnceLock},
    thread,
    time::Duration,
};

use evcore::{EventLoop, Handle, Ready, Step, Timer, Token, TokenMap};

/// The timer that limits a job.
const DEADLINE: Timer = Timer::new(0);
const TIMEOUT: Duration = Duration::from_secs(2);

/// The input of a thread, and the result that it stores.
struct Job {
    below: u64,
    primes: Arc<OnceLock<u64>>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let numbers = env::args().skip(1).map(|number| number.parse());
    let numbers = numbers.collect::<Result<Vec<u64>, _>>()?;
    let mut jobs = TokenMap::new();
    let mut ev = EventLoop::builder().build()?;
    for below in numbers {
        begin(below, &mut ev, &mut jobs)?;
    }
    while !jobs.is_empty() {
        ev.wait()?;
        while let Some(step) = ev.next_step() {
            let (Step::Ready(token, _) | Step::Expired(token, _)) = step else {
                continue; // no other step can come: there is no listener
            };
            if let Some(job) = jobs.remove(&mut ev, token) {
                report(&job);
            }
        }
    }
    Ok(())
}

/// Starts a thread for a job, and adds a token for it to the loop.
fn begin(below: u64, ev: &mut EventLoop, jobs: &mut TokenMap<Job>) -> evcore::Result<()> {
    let primes = Arc::new(OnceLock::new());
    let (handle, result) = (ev.handle(), Arc::clone(&primes));
    let token = ev.add_unwatched()?;
    ev.arm(token, DEADLINE, TIMEOUT);
    jobs.insert(token, Job { below, primes });
    thread::spawn(move || work(below, &result, token, &handle));
    Ok(())
}

/// Runs in the thread. Stores the result, and then posts the token, which makes the result visible
/// to the loop's thread.
fn work(below: u64, primes: &OnceLock<u64>, token: Token, handle: &Handle) {
    let _ = primes.set(count_primes(below));
    handle.post(token, Ready::READABLE); // false if `main` has ended
}

fn report(Job { below, primes }: &Job) {
    match primes.get() {
        Some(primes) => println!("{primes} primes below {below}"),
        None => println!("the primes below {below} took longer than {TIMEOUT:?}"),
    }
}

/// Counts primes in a slow way, on purpose.
fn count_primes(below: u64) -> u64 {
    let is_prime = |n: &u64| (2..).take_while(|d| d * d <= *n).all(|d| n % d != 0);
    (2..below).filter(is_prime).map(|_| 1).sum()
}
