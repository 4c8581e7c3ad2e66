use std::cell::RefCell;
use std::future::{pending, poll_fn, ready};
use std::pin::{Pin, pin};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use evcore_async::{
    Sleep, TimedOut, UdpSocket, interval, now, sleep, sleep_until, spawn_local, timeout, yield_now,
};

use crate::{LONG, MS, block_on, poll_once};

/// tokio `time_sleep.rs`: `immediate_sleep`, `short_sleeps`.
#[test]
fn sleeps_of_no_time_end() {
    block_on(async {
        sleep_until(now()).await;
        for _ in 0..1000 {
            sleep(Duration::ZERO).await;
        }
        Ok(())
    });
}

/// tokio `time_sleep.rs`: `delayed_sleep_level_0`, `delayed_sleep_wrapping_level_0`; async-io
/// `timer.rs`: `smoke`.
#[test]
fn sleeps_of_several_lengths_do_not_end_early() {
    block_on(async {
        for ms in [1, 10, 60, 70] {
            let deadline = now() + ms * MS;
            sleep_until(deadline).await;
            assert!(now() >= deadline);
        }
        Ok(())
    });
}

/// tokio `time_sleep.rs`: `sub_ms_delayed_sleep`.
#[test]
fn a_part_of_a_millisecond_counts() {
    block_on(async {
        for _ in 0..5 {
            let deadline = now() + MS + Duration::from_nanos(1);
            sleep_until(deadline).await;
            assert!(now() >= deadline);
        }
        Ok(())
    });
}

/// Polls a sleep of `first` ms once, waits, moves the sleep's end to `second` ms after its
/// beginning, and awaits the sleep.
async fn reset(first: u32, waited: u32, second: u32) {
    let began = now();
    let mut sleeping = sleep_until(began + first * MS);
    assert!(poll_once(Pin::new(&mut sleeping)).await.is_pending());
    sleep(waited * MS).await;
    sleeping.reset(began + second * MS);
    sleeping.await;
    assert!(now() >= began + second * MS);
}

/// tokio `time_sleep.rs`: `reset_future_sleep_before_fire`, `reset_past_sleep_before_turn`,
/// `reset_past_sleep_before_fire`, `reset_sleep_to_past`.
#[test]
fn a_reset_before_the_end_counts() {
    block_on(async {
        reset(10, 0, 20).await;
        reset(3_600_000, 0, 8).await;
        reset(3_600_000, 1, 8).await;
        reset(3_600_000, 5, 4).await; // to the past
        Ok(())
    });
}

/// tokio `time_sleep.rs`: `reset_future_sleep_after_fire`, `reset_after_firing`.
#[test]
fn a_reset_after_the_end_counts() {
    block_on(async {
        let mut sleeping = sleep(MS);
        let deadline = sleeping.deadline();
        (&mut sleeping).await;
        assert!(poll_once(Pin::new(&mut sleeping)).await.is_ready(), "again");
        sleeping.reset(now() + LONG);
        assert_ne!(sleeping.deadline(), deadline);
        for _ in 0..2 {
            assert!(poll_once(Pin::new(&mut sleeping)).await.is_pending());
        }
        Ok(())
    });
}

/// tokio `time_sleep.rs`: `creating_sleep_outside_of_context`.
#[test]
#[should_panic(expected = "there is no runtime here")]
fn a_sleep_outside_a_runtime_panics_with_a_sentence() {
    drop(sleep(MS));
}

/// tokio `time_sleep.rs`: `greater_than_max`, `exactly_max`, `no_out_of_bounds_close_to_max`,
/// `issue_5183`.
#[test]
fn very_long_sleeps_wait() {
    block_on(async {
        let years = Duration::from_secs(5 * 365 * 24 * 3600);
        let tenth = Duration::from_secs(u64::MAX / 10);
        for time in [years, tenth, Duration::MAX - MS, Duration::MAX] {
            let mut long = pin!(sleep(time));
            assert!(poll_once(long.as_mut()).await.is_pending());
            sleep(Duration::from_nanos(1)).await;
            assert!(poll_once(long.as_mut()).await.is_pending());
        }
        Ok(())
    });
}

/// tokio `time_sleep.rs`: `drop_after_reschedule_at_new_scheduled_time`.
#[test]
fn a_sleep_is_dropped_after_a_reset_to_the_time_of_another() {
    block_on(async {
        let began = now();
        let [mut a, mut b, mut c] = [5, 5, 10].map(|ms| sleep_until(began + ms * MS));
        for sleeping in [&mut a, &mut b, &mut c] {
            assert!(poll_once(Pin::new(sleeping)).await.is_pending());
        }
        b.reset(began + 10 * MS);
        a.await;
        drop(b);
        c.await;
        Ok(())
    });
}

/// tokio `time_sleep.rs`: `drop_from_wake`.
#[test]
fn a_waker_that_drops_the_sleeps_is_called() {
    thread_local! {
        static SLEEPS: RefCell<Vec<Sleep>> = const { RefCell::new(Vec::new()) };
    }
    struct Dropping(Mutex<usize>);
    impl Wake for Dropping {
        fn wake(self: Arc<Self>) {
            *self.0.lock().unwrap() += 1;
            drop(SLEEPS.take());
        }
    }
    block_on(async {
        let dropping = Arc::new(Dropping(Mutex::new(0)));
        let waker = Waker::from(Arc::clone(&dropping));
        let deadline = now() + 2 * MS;
        for _ in 0..100 {
            let mut sleeping = sleep_until(deadline);
            let cx = &mut Context::from_waker(&waker);
            assert!(Future::poll(Pin::new(&mut sleeping), cx).is_pending());
            SLEEPS.with_borrow_mut(|sleeps| sleeps.push(sleeping));
        }
        sleep(5 * MS).await;
        assert_eq!(*dropping.0.lock().unwrap(), 1, "the others are dropped");
        Ok(())
    });
}

/// async-io `timer.rs`: `poll_across_tasks`.
#[test]
fn the_last_task_that_polls_a_sleep_is_woken() {
    block_on(async {
        let deadline = now() + 5 * MS;
        let mut sleeping = sleep_until(deadline);
        assert!(poll_once(Pin::new(&mut sleeping)).await.is_pending());
        let task = spawn_local(async move {
            sleeping.await;
            now()
        });
        assert!(task.await.unwrap() >= deadline);
        Ok(())
    });
}

/// async-io `timer.rs`: `set`.
#[test]
fn a_sleep_is_moved_while_a_task_waits() {
    block_on(async {
        let mut sleeping = sleep(LONG);
        let mut polls = 0;
        poll_fn(|cx| {
            polls += 1;
            let polled = Future::poll(Pin::new(&mut sleeping), cx);
            if polls == 1 {
                sleeping.reset(now() + 2 * MS);
            }
            polled
        })
        .await;
        assert_eq!(polls, 2);
        Ok(())
    });
}

/// tokio `time_timeout.rs`: `simultaneous_deadline_future_completion`,
/// `completed_future_past_deadline`.
#[test]
fn a_future_that_is_ready_wins_against_its_deadline() {
    block_on(async {
        assert_eq!(timeout(Duration::ZERO, ready(1)).await, Ok(1));
        Ok(())
    });
}

/// tokio `time_timeout.rs`: `future_and_deadline_in_future`, `future_and_timeout_in_future`,
/// `very_large_timeout`.
#[test]
fn a_future_that_ends_before_its_deadline_has_its_output() {
    block_on(async {
        for time in [LONG, Duration::MAX] {
            let (sender, receiver) = async_channel::bounded(1);
            let mut limited = pin!(timeout(time, receiver.recv()));
            assert!(poll_once(limited.as_mut()).await.is_pending());
            yield_now().await;
            assert!(poll_once(limited.as_mut()).await.is_pending());
            sender.send(()).await.unwrap();
            assert_eq!(limited.await, Ok(Ok(())));
        }
        Ok(())
    });
}

/// tokio `time_timeout.rs`: `deadline_now_elapses`, `deadline_future_elapses`.
#[test]
fn a_future_that_does_not_end_is_over_at_its_deadline() {
    block_on(async {
        for time in [Duration::ZERO, 3 * MS] {
            assert_eq!(timeout(time, pending::<()>()).await, Err(TimedOut));
        }
        Ok(())
    });
}

/// tokio `time_timeout.rs`: `timeout_is_not_exhausted_by_future`.
#[test]
fn a_timeout_ends_a_future_that_never_waits() {
    block_on(async {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        let address = socket.local_addr()?;
        let endless = async {
            loop {
                let _ = socket.send_to(b"", address).await;
            }
        };
        let over: Result<(), _> = timeout(MS, endless).await;
        assert_eq!(over, Err(TimedOut));
        Ok(())
    });
}

/// tokio `time_interval.rs`: `skip`.
#[test]
fn a_tick_that_is_late_leaves_out_those_that_were_missed() {
    block_on(async {
        let began = now();
        let mut ticks = interval(2 * MS);
        sleep(9 * MS).await;
        let first = ticks.tick().await;
        assert!(first >= began + 2 * MS, "the first is due after a period");
        let next = ticks.tick().await;
        assert!(next - first >= 6 * MS && now() >= next);
        let nanos = (next - first).as_nanos();
        assert_eq!(nanos % 2_000_000, 0, "the rate is kept");
        Ok(())
    });
}

/// tokio `time_interval.rs`: `stream_with_interval_poll_tick_no_waking`: only a pending tick wakes.
#[test]
fn a_tick_that_is_ready_wakes_nobody() {
    block_on(async {
        let mut ticks = interval(2 * MS);
        let mut polls = 0;
        let stalled = poll_fn(|cx| {
            polls += 1;
            let _ = ticks.poll_tick(cx);
            Poll::<()>::Pending
        });
        assert_eq!(timeout(50 * MS, stalled).await, Err(TimedOut));
        // One poll is pending, one returns the tick, and the timeout polls once more.
        assert!(polls <= 3, "{polls}");
        Ok(())
    });
}

/// tokio `time_interval.rs`: `interval_doesnt_panic_max_duration_when_polling`.
#[test]
fn an_interval_of_the_longest_time_waits() {
    block_on(async {
        let mut ticks = interval(Duration::MAX);
        assert!(poll_once(pin!(ticks.tick())).await.is_pending());
        Ok(())
    });
}

/// async-io `block_on.rs`: a wake-up by another thread reaches a loop that waits.
#[test]
fn a_thread_wakes_a_loop_that_waits() {
    block_on(async {
        let (sender, receiver) = mpsc::channel();
        let mut is_asked = false;
        let thread = thread::spawn(move || {
            let waker: Waker = receiver.recv().unwrap();
            waker.wake();
        });
        poll_fn(|cx| {
            if is_asked {
                return Poll::Ready(());
            }
            is_asked = true;
            sender.send(cx.waker().clone()).unwrap();
            Poll::Pending
        })
        .await;
        thread.join().unwrap();
        Ok(())
    });
}
