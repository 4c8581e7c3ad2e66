//! Tests of sleeps, timeouts and intervals.

use std::cell::Cell;
use std::io::{self, ErrorKind, Write};
use std::pin::pin;
use std::rc::Rc;
use std::time::{Duration, Instant};

use evcore_async::{
    Sleep, TimedOut, interval, now, sleep, sleep_until, spawn_local, timeout, yield_now,
};

use crate::{LONG, MS, block_on, poll_once, unix_pair};

#[test]
fn a_sleep_is_never_early() {
    block_on(async {
        for ms in [0, 1, 5, 20] {
            let (time, began) = (Duration::from_millis(ms), Instant::now());
            sleep(time).await;
            assert!(began.elapsed() >= time);
        }
        Ok(())
    });
}

#[test]
fn a_sleep_counts_from_its_call_and_not_from_the_turn() {
    block_on(async {
        let began = Instant::now();
        while began.elapsed() < 5 * MS {} // the turn's time is older now
        let before = Instant::now();
        sleep(5 * MS).await;
        assert!(before.elapsed() >= 5 * MS);
        Ok(())
    });
}

#[test]
fn a_sleep_until_the_past_ends() {
    block_on(async {
        let deadline = now();
        yield_now().await;
        sleep_until(deadline).await;
        assert!(now() >= deadline);
        Ok(())
    });
}

#[test]
fn the_longest_sleep_does_not_end() {
    block_on(async {
        assert_eq!(timeout(MS, sleep(Duration::MAX)).await, Err(TimedOut));
        Ok(())
    });
}

#[test]
fn sleeps_end_in_the_order_of_their_deadlines() {
    block_on(async {
        let order = Rc::new(std::cell::RefCell::new(Vec::new()));
        let tasks = [30, 10, 20].map(|ms| {
            let order = Rc::clone(&order);
            spawn_local(async move {
                sleep(Duration::from_millis(ms)).await;
                order.borrow_mut().push(ms);
            })
        });
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(*order.borrow(), [10, 20, 30]);
        Ok(())
    });
}

#[test]
fn a_reset_moves_a_sleep_to_later() {
    block_on(async {
        let began = now();
        let mut sleeping = pin!(sleep(MS));
        assert!(poll_once(sleeping.as_mut()).await.is_pending());
        sleeping.as_mut().get_mut().reset(began + 10 * MS);
        sleeping.await;
        assert!(now() >= began + 10 * MS);
        Ok(())
    });
}

#[test]
fn a_reset_moves_a_sleep_to_earlier() {
    block_on(async {
        let mut sleeping = pin!(sleep(LONG));
        assert!(poll_once(sleeping.as_mut()).await.is_pending());
        sleeping.as_mut().get_mut().reset(now());
        sleeping.await;
        Ok(())
    });
}

#[test]
fn a_sleep_that_has_ended_can_be_reset() {
    block_on(async {
        let mut sleeping: Sleep = sleep(MS);
        (&mut sleeping).await;
        let deadline = now() + 2 * MS;
        sleeping.reset(deadline);
        (&mut sleeping).await;
        assert!(now() >= deadline && sleeping.deadline() == deadline);
        Ok(())
    });
}

#[test]
fn a_reset_before_the_first_poll_counts() {
    block_on(async {
        let mut sleeping = sleep(LONG);
        sleeping.reset(now() + MS);
        sleeping.await;
        Ok(())
    });
}

#[test]
fn a_timeout_returns_the_output_in_time() {
    block_on(async {
        assert_eq!(timeout(LONG, async { 42 }).await, Ok(42));
        let slow = async {
            sleep(MS).await;
            43
        };
        assert_eq!(timeout(LONG, slow).await, Ok(43));
        Ok(())
    });
}

#[test]
fn a_timeout_of_nothing_still_polls_its_future() {
    block_on(async {
        assert_eq!(timeout(Duration::ZERO, async { 42 }).await, Ok(42));
        Ok(())
    });
}

#[test]
fn a_timeout_ends_a_read() {
    block_on(async {
        let (stream, mut far) = unix_pair()?;
        let error: io::Error = timeout(MS, stream.read(&mut [0; 1]))
            .await
            .unwrap_err()
            .into();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        far.write_all(b"x")?; // nothing was lost
        assert_eq!(stream.read(&mut [0; 1]).await?, 1);
        Ok(())
    });
}

#[test]
fn an_interval_keeps_its_rate() {
    block_on(async {
        let began = now();
        let mut ticks = interval(3 * MS);
        let due = [ticks.tick().await, ticks.tick().await, ticks.tick().await];
        assert!(due[0] >= began + 3 * MS);
        for [before, after] in [[due[0], due[1]], [due[1], due[2]]] {
            let periods = (after - before).as_nanos() / 3_000_000;
            assert_eq!(after - before, u32::try_from(periods).unwrap() * 3 * MS);
        }
        Ok(())
    });
}

#[test]
fn an_interval_leaves_out_the_ticks_that_were_missed() {
    block_on(async {
        let mut ticks = interval(2 * MS);
        let began = Instant::now();
        while began.elapsed() < 15 * MS {} // blocks
        let first = ticks.tick().await;
        let second = ticks.tick().await;
        assert!(second - first >= 12 * MS, "{:?}", second - first);
        Ok(())
    });
}

#[test]
#[should_panic(expected = "an interval needs a period")]
fn an_interval_of_nothing_is_refused() {
    block_on(async {
        let _ = interval(Duration::ZERO);
        Ok(())
    });
}

/// A sleep may use the token of a sleep that was dropped before it.
#[test]
fn a_sleep_does_not_end_with_the_sleep_before_it() {
    block_on(async {
        let mut ended = Box::pin(sleep(MS));
        assert!(poll_once(ended.as_mut()).await.is_pending());
        let began = Instant::now();
        while began.elapsed() < 2 * MS {
            yield_now().await; // its timer expires, and nothing polls it
        }
        let mut armed = Box::pin(sleep(LONG));
        assert!(poll_once(armed.as_mut()).await.is_pending());
        for before in [ended, armed] {
            drop(before);
            let mut after = pin!(sleep(2 * MS));
            let began = Instant::now();
            assert!(poll_once(after.as_mut()).await.is_pending());
            after.await;
            assert!(began.elapsed() >= 2 * MS);
        }
        Ok(())
    });
}

/// The timers of two sleeps expire in one turn (iteration of the loop). When the first sleep ends,
/// the task drops the second one, and begins a third one.
#[test]
fn a_sleep_that_is_replaced_as_it_ends_does_not_end_its_successor() {
    block_on(async {
        let began = Instant::now();
        let mut first = pin!(sleep(MS));
        let mut second = Box::pin(sleep(MS));
        assert!(poll_once(first.as_mut()).await.is_pending());
        assert!(poll_once(second.as_mut()).await.is_pending());
        while began.elapsed() < 3 * MS {} // blocks, so that both expire
        first.await;
        drop(second);
        let began = Instant::now();
        sleep(5 * MS).await;
        assert!(began.elapsed() >= 5 * MS);
        Ok(())
    });
}

#[test]
fn many_sleeps_with_one_deadline_all_end() {
    block_on(async {
        let ended = Rc::new(Cell::new(0));
        let deadline = now() + 5 * MS;
        let tasks: Vec<_> = (0..10_000)
            .map(|_| {
                let ended = Rc::clone(&ended);
                spawn_local(async move {
                    sleep_until(deadline).await;
                    ended.set(ended.get() + 1);
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(ended.get(), 10_000);
        Ok(())
    });
}
