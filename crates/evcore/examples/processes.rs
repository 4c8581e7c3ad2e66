//! Runs commands of the shell, and prints how each ends:
//!
//!     cargo run --example processes -- 10 'sleep 5' 'exit 3'
//!
//! A HUP prints the number of commands that are running. A TERM or an INT stops the commands by
//! TERM, and 10 seconds later by KILL.
//!
//! Each signal is a step of the loop, and so is the end of a child process. On Linux, the child's
//! pidfd reports the end. Elsewhere, or if `--sigchld` is the first argument, SIGCHLD does.
use evcore::{EventLoop, Interest, Mode, Step, Token, TokenMap};
use rustix::process::{Pid, Signal, kill_process};
#[cfg(target_os = "linux")]
use rustix::process::{PidfdFlags, pidfd_open};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use std::process::{Child, Command};
use std::{env, error::Error, io, io::Read, os::fd::OwnedFd, os::unix::net::UnixStream};

/// Makes a signal a step of the loop, by a stream that becomes readable. Of these streams, only the
/// one of SIGCHLD keeps a shutdown waiting, because with `--sigchld` the loop must not end before
/// the children.
fn watch_signal(ev: &mut EventLoop, signal: i32) -> io::Result<(Token, UnixStream)> {
    let (stream, handler) = UnixStream::pair()?;
    signal_hook::low_level::pipe::register(signal, handler)?; // the handler writes a byte
    stream.set_nonblocking(true)?;
    let token = match signal {
        SIGCHLD => ev.add(&stream, Interest::READ, Mode::Level)?,
        _ => ev.add_background(&stream)?,
    };
    Ok((token, stream))
}

/// A child, its command, and its pidfd, which stays open as long as the loop watches it.
struct Job(Child, String, Option<OwnedFd>);

/// Makes the end of a child a step: the loop watches its pidfd, which becomes readable when the
/// child ends. Without a pidfd, SIGCHLD makes the step.
fn watch_end(ev: &mut EventLoop, job: &mut Job, by_sigchld: bool) -> io::Result<Token> {
    #[cfg(target_os = "linux")]
    if !by_sigchld {
        let pidfd = pidfd_open(Pid::from_child(&job.0), PidfdFlags::empty())?;
        return Ok(ev.add(job.2.insert(pidfd), Interest::READ, Mode::Level)?);
    }
    let _ = (job, by_sigchld);
    Ok(ev.add_unwatched()?)
}

impl Job {
    /// Returns whether the child still runs. If it has ended, prints its status.
    fn runs(&mut self) -> bool {
        let Self(child, command, _pidfd) = self;
        let ended = child.try_wait().expect("nothing else waits for it");
        if let Some(status) = ended {
            println!("{} ended, {status}: {command}", child.id());
        }
        ended.is_none()
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = env::args().skip(1).peekable();
    let by_sigchld = args.next_if_eq("--sigchld").is_some() || cfg!(not(target_os = "linux"));
    let timeout = args
        .next()
        .ok_or("usage: processes [--sigchld] SECONDS COMMAND...")?
        .parse()?;
    let mut ev = EventLoop::builder().build()?;
    let (mut signals, mut jobs) = (TokenMap::new(), TokenMap::<Job>::new());
    // The signals are watched before the first child starts, so that no SIGCHLD is lost.
    for signal in [SIGHUP, SIGTERM, SIGINT, SIGCHLD] {
        let (token, stream) = watch_signal(&mut ev, signal)?;
        signals.insert(token, (signal, stream));
    }
    for command in args {
        let child = Command::new("sh").args(["-c", &command]).spawn()?;
        println!("{} runs: {command}", child.id());
        let mut job = Job(child, command, None);
        jobs.insert(watch_end(&mut ev, &mut job, by_sigchld)?, job);
    }
    // A signal also interrupts the wait, which then returns true without a step.
    while !jobs.is_empty() && ev.wait()? {
        while let Some(step) = ev.next_step() {
            let Step::Ready(token, _) = step else {
                continue; // nothing else here makes steps
            };
            let signal = signals.get_mut(token).map(|(signal, stream)| {
                while stream.read(&mut [0; 64]).is_ok() {} // until it would block
                *signal // it was sent at least once
            });
            match signal {
                None if jobs.get_mut(token).is_some_and(Job::runs) => {}
                None => _ = jobs.close(&mut ev, token),
                Some(SIGCHLD) => jobs.retain(&mut ev, |_, job| !by_sigchld || job.runs()),
                Some(SIGHUP) => println!("{} commands run", jobs.len()),
                Some(_) => {
                    for (_, Job(child, ..)) in jobs.iter() {
                        kill_process(Pid::from_child(child), Signal::TERM)?;
                    }
                    ev.shutdown(std::time::Duration::from_secs_f64(timeout));
                }
            }
        }
    }
    for (_, job) in jobs.iter_mut() {
        job.0.kill()?;
        job.0.wait()?;
        job.runs();
    }
    Ok(())
}
