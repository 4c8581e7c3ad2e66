//! Tests of signals and child processes, like tokio's `signal_*.rs` and `process_*.rs`.
//!
//! A signal reaches all tests of the process, so tests that raise signals use different ones.

use std::io::{ErrorKind, Write};
use std::pin::pin;
use std::process::{Command, Stdio};
use std::time::Duration;

use evcore::EventLoop;
use evcore_async::{Child, Runtime, Signals, handle, shutting_down, spawn_local, yield_now};
use signal_hook::consts::{SIGALRM, SIGHUP, SIGIO, SIGKILL, SIGUSR1, SIGUSR2, SIGWINCH};
use signal_hook::low_level::raise;

use crate::{block_on, poll_once};

/// tokio: `signal_usr1`, `signal_twice`.
#[test]
fn a_signal_is_received_again_and_again() {
    block_on(async {
        let signals = Signals::new(SIGUSR1)?;
        for _ in 0..2 {
            let mut received = pin!(signals.recv());
            assert!(poll_once(received.as_mut()).await.is_pending());
            raise(SIGUSR1)?;
            received.await;
        }
        Ok(())
    });
}

/// tokio: `notify_both`.
#[test]
fn a_signal_reaches_all_that_receive_it() {
    block_on(async {
        let both = [Signals::new(SIGUSR2)?, Signals::new(SIGUSR2)?];
        raise(SIGUSR2)?;
        for signals in both {
            signals.recv().await;
        }
        Ok(())
    });
}

/// tokio: `dropping_signal_does_not_deregister_any_other_instances`, `drop_then_get_a_signal`.
#[test]
fn a_receiver_that_is_dropped_takes_nothing_from_others() {
    block_on(async {
        let [first, second] = [Signals::new(SIGHUP)?, Signals::new(SIGHUP)?];
        drop(first);
        raise(SIGHUP)?;
        second.recv().await;
        drop(second);
        raise(SIGHUP)?; // does not end the process
        let third = Signals::new(SIGHUP)?;
        raise(SIGHUP)?;
        third.recv().await;
        Ok(())
    });
}

/// tokio: `multi_loop`.
#[test]
fn a_signal_reaches_each_runtime() {
    let runtimes = [(); 2].map(|()| {
        let mut runtime = Runtime::new().unwrap();
        let signals = runtime.block_on(async { Signals::new(SIGIO) });
        (signals.unwrap().unwrap(), runtime)
    });
    raise(SIGIO).unwrap();
    for (signals, mut runtime) in runtimes {
        runtime.block_on(signals.recv()).unwrap();
    }
}

#[test]
fn signals_that_came_while_nobody_waited_are_one() {
    block_on(async {
        let signals = Signals::new(SIGALRM)?;
        for _ in 0..3 {
            raise(SIGALRM)?;
        }
        signals.recv().await;
        for _ in 0..3 {
            yield_now().await;
        }
        assert!(poll_once(pin!(signals.recv())).await.is_pending());
        Ok(())
    });
}

/// tokio refuses a forbidden signal, too, with another kind of error.
#[test]
fn a_signal_that_cannot_be_handled_is_an_error() {
    block_on(async {
        let error = Signals::new(SIGKILL).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        Ok(())
    });
}

/// tokio: `no_runtime_panics_creating_signals`.
#[test]
#[should_panic(expected = "there is no runtime here")]
fn a_signal_outside_a_runtime_panics_with_a_sentence() {
    let _ = Signals::new(SIGWINCH);
}

#[test]
fn signals_do_not_count_as_connections() {
    let ev = EventLoop::builder().connections(0).build().unwrap();
    let mut runtime = Runtime::from(ev);
    let signals = runtime.block_on(async { Signals::new(SIGWINCH) });
    let signals = signals.unwrap().unwrap();
    assert_eq!(runtime.event_loop().stats().active, 0);
    drop(signals); // outside its runtime
    runtime.block_on(async {}).unwrap();
}

/// tokio: `process_smoke`.
#[test]
fn the_end_of_a_child_is_its_status() {
    block_on(async {
        let mut child = Child::spawn(Command::new("sh").args(["-c", "exit 2"]))?;
        let id = child.get_mut().id();
        assert!(id > 0);
        let status = child.wait().await?;
        assert!(!status.success());
        assert_eq!(status.code(), Some(2));
        assert_eq!(child.wait().await?.code(), Some(2), "again");
        Ok(())
    });
}

/// tokio: `process_kill_after_wait`. Here the child certainly runs when it is killed.
#[test]
fn a_child_that_is_killed_has_ended() {
    use std::os::unix::process::ExitStatusExt;
    block_on(async {
        let mut child = Child::spawn(Command::new("sleep").arg("3600"))?;
        {
            let mut waiting = pin!(child.wait());
            assert!(poll_once(waiting.as_mut()).await.is_pending());
        }
        child.get_mut().kill()?;
        assert_eq!(child.wait().await?.signal(), Some(SIGKILL));
        child.get_mut().kill()?; // has no effect
        Ok(())
    });
}

/// tokio: `process_issue_42` (two children at once), extended to ten children and their statuses.
#[test]
fn many_children_end_in_any_order() {
    block_on(async {
        let tasks: Vec<_> = (0..10)
            .map(|code| {
                spawn_local(async move {
                    let exit = format!("exit {code}");
                    let mut child = Child::spawn(Command::new("sh").args(["-c", &exit]))?;
                    child.wait().await
                })
            })
            .collect();
        for (code, task) in (0..).zip(tasks) {
            assert_eq!(task.await.unwrap()?.code(), Some(code));
        }
        Ok(())
    });
}

/// The wait closes the standard input, as tokio documents `Child::wait`.
#[test]
fn a_wait_ends_the_input_of_the_child() {
    block_on(async {
        let mut command = Command::new("cat");
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        let mut child = Child::spawn(&mut command)?;
        child
            .get_mut()
            .stdin
            .as_mut()
            .unwrap()
            .write_all(b"hello")?;
        assert!(child.wait().await?.success());
        Ok(())
    });
}

#[test]
fn a_shutdown_waits_for_a_child_that_a_task_awaits() {
    block_on(async {
        let mut command = Command::new("cat");
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        let mut child = Child::spawn(&mut command)?;
        let input = child.get_mut().stdin.take();
        let waiting = spawn_local(async move { child.wait().await });
        yield_now().await;
        handle().shutdown(Duration::from_secs(60));
        shutting_down().await;
        drop(input);
        assert!(waiting.await.unwrap()?.success());
        Ok(())
    });
}
