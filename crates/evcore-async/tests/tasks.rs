//! Tasks: their outputs, ends, wake-ups and limits.

use std::cell::{Cell, RefCell};
use std::future::{Future, pending, poll_fn};
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::mpsc;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use evcore::{EventLoop, InstrumentOptions, Record, Step};
use evcore_async::{
    Error, Executor, JoinError, Runtime, handle, shutting_down, sleep, sleep_until, spawn_local,
    try_spawn_local, yield_now,
};

fn block_on<F: Future>(future: F) -> F::Output {
    Runtime::new().unwrap().block_on(future).unwrap()
}

#[test]
fn a_task_has_its_output() {
    assert_eq!(
        block_on(async { spawn_local(async { 42 }).await.unwrap() }),
        42
    );
}

#[test]
fn tasks_run_in_the_order_in_which_they_were_spawned() {
    block_on(async {
        let order = Rc::new(RefCell::new(Vec::new()));
        let tasks = [1, 2, 3].map(|number| {
            let order = Rc::clone(&order);
            spawn_local(async move {
                order.borrow_mut().push(number);
                yield_now().await;
                order.borrow_mut().push(number * 10);
            })
        });
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(*order.borrow(), [1, 2, 3, 10, 20, 30]);
    });
}

#[test]
fn a_task_without_a_handle_runs_on() {
    block_on(async {
        let (sender, receiver) = mpsc::channel();
        drop(spawn_local(async move {
            yield_now().await;
            sender.send(42).unwrap();
        }));
        let mut received = None;
        while received.is_none() {
            yield_now().await;
            received = receiver.try_recv().ok();
        }
        assert_eq!(received, Some(42));
    });
}

#[test]
fn tasks_go_on_in_the_next_block_on() {
    let mut runtime = Runtime::new().unwrap();
    let task = async {
        yield_now().await;
        42
    };
    let task = runtime.spawn_local(task).unwrap();
    runtime.block_on(async {}).unwrap();
    assert!(!task.is_finished());
    assert_eq!(runtime.block_on(task).unwrap().unwrap(), 42);
    assert_eq!(runtime.executor().tasks(), 0);
}

#[test]
fn a_panic_is_the_error_of_its_task() {
    block_on(async {
        let other = spawn_local(async {
            yield_now().await;
            7
        });
        let error = spawn_local(async { panic!("a bug") }).await.unwrap_err();
        let JoinError::Panicked(value) = error else {
            panic!("{error}")
        };
        assert_eq!(value.downcast_ref(), Some(&"a bug"));
        assert_eq!(other.await.unwrap(), 7);
    });
}

struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("a bug");
    }
}

#[test]
fn a_panic_of_a_destructor_is_the_error_of_its_task() {
    let mut runtime = Runtime::new().unwrap();
    let ended = runtime.block_on(async {
        let is_bug = |error| matches!(error, JoinError::Panicked(value) if value.is::<&str>());
        let bomb = Bomb;
        let aborted = spawn_local(async move {
            let _bomb = bomb;
            pending::<()>().await;
        });
        yield_now().await;
        aborted.abort();
        assert!(is_bug(aborted.await.unwrap_err()));

        let bomb = Bomb;
        let ends_itself = spawn_local(poll_fn(move |_| {
            let _held = &bomb;
            Poll::Ready(())
        }));
        assert!(is_bug(ends_itself.await.unwrap_err()));
        spawn_local(async { 7 }).await.unwrap()
    });
    assert_eq!(ended.unwrap(), 7);
    assert_eq!(runtime.executor().tasks(), 0);
}

#[test]
fn a_panic_in_the_destructor_of_an_unclaimed_output_ends_only_its_task() {
    let mut runtime = Runtime::new().unwrap();
    let ended = runtime.block_on(async {
        drop(spawn_local(async { Bomb }));
        yield_now().await;
        spawn_local(async { 7 }).await.unwrap()
    });
    assert_eq!(ended.unwrap(), 7);
    assert_eq!(runtime.executor().tasks(), 0);
}

#[test]
fn a_panic_that_ends_the_worker_ends_its_task_too() {
    let mut runtime = Runtime::new().unwrap();
    runtime.executor().set_resumes_panics(true);
    // If a token were left in the loop, the highest index of the next ten tokens would be greater.
    let highest_index = |runtime: &mut Runtime| {
        let ev = runtime.event_loop();
        let tokens = [(); 10].map(|()| ev.add_unwatched().unwrap());
        tokens.iter().for_each(|token| _ = ev.remove(*token));
        tokens.map(evcore::Token::index).into_iter().max()
    };
    let before = highest_index(&mut runtime);
    let panics: [fn() -> (); 2] = [|| panic!("a bug"), || drop(spawn_local(async { Bomb }))];
    for panics in panics {
        let waker = Rc::new(Cell::new(None));
        let kept = Rc::clone(&waker);
        let task = runtime.spawn_local(poll_fn(move |cx| {
            kept.set(Some(cx.waker().clone()));
            panics();
            Poll::Ready(())
        }));
        let task = task.unwrap();
        let ended = catch_unwind(AssertUnwindSafe(|| runtime.block_on(pending::<()>())));
        assert!(ended.is_err());
        assert_eq!(runtime.executor().tasks(), 0);
        waker.take().into_iter().for_each(Waker::wake);
        drop(runtime.block_on(task).unwrap());
        assert_eq!(highest_index(&mut runtime), before);
    }
    let ended = catch_unwind(AssertUnwindSafe(|| {
        runtime.block_on(async { panic!("a bug") })
    }));
    assert!(ended.is_err());
    assert_eq!(highest_index(&mut runtime), before);
}

#[test]
#[should_panic(expected = "a bug")]
fn a_panic_ends_the_worker_if_the_option_is_on() {
    let mut runtime = Runtime::new().unwrap();
    runtime.executor().set_resumes_panics(true);
    let _ = runtime.block_on(async {
        drop(spawn_local(async { panic!("a bug") }));
        pending::<()>().await;
    });
}

#[test]
fn tasks_go_on_after_a_panic_that_ended_a_block_on() {
    let mut runtime = Runtime::new().unwrap();
    runtime.executor().set_resumes_panics(true);
    let panics = runtime.spawn_local(async { panic!("a bug") }).unwrap();
    let goes_on = runtime.spawn_local(async { 42 }).unwrap();
    let ended = catch_unwind(AssertUnwindSafe(|| runtime.block_on(panics)));
    assert!(ended.is_err());
    assert_eq!(runtime.block_on(goes_on).unwrap().unwrap(), 42);
}

#[test]
fn a_task_that_yields_forever_starves_no_other() {
    block_on(async {
        let polls = Rc::new(Cell::new(0));
        let count = Rc::clone(&polls);
        let endless = spawn_local(async move {
            loop {
                count.set(count.get() + 1);
                yield_now().await;
            }
        });
        sleep(Duration::from_millis(1)).await;
        let before = polls.get();
        yield_now().await;
        assert!(
            before > 0 && polls.get() - before <= 1,
            "the endless task was not polled, or more than once before main"
        );
        endless.abort();
    });
}

struct OnDrop(Rc<Cell<bool>>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.set(true);
    }
}

#[test]
fn an_abort_drops_the_future_at_once() {
    block_on(async {
        let dropped = Rc::new(Cell::new(false));
        let guard = OnDrop(Rc::clone(&dropped));
        let task = spawn_local(async move {
            let _guard = guard;
            pending::<()>().await;
        });
        yield_now().await;
        task.abort();
        assert!(dropped.get() && task.is_finished());
        assert!(matches!(task.await, Err(JoinError::Aborted)));
    });
}

#[test]
fn an_abort_after_the_end_changes_nothing() {
    block_on(async {
        let task = spawn_local(async { 42 });
        yield_now().await;
        assert!(task.is_finished());
        task.abort();
        assert_eq!(task.await.unwrap(), 42);
    });
}

#[test]
fn a_task_that_aborts_itself_ends_after_its_poll() {
    block_on(async {
        let handle = Rc::new(RefCell::new(None::<evcore_async::JoinHandle<()>>));
        let (own, polls) = (Rc::clone(&handle), Rc::new(Cell::new(0)));
        let count = Rc::clone(&polls);
        *handle.borrow_mut() = Some(spawn_local(poll_fn(move |cx| {
            own.borrow().as_ref().unwrap().abort();
            count.set(count.get() + 1);
            cx.waker().wake_by_ref();
            Poll::Pending
        })));
        for _ in 0..3 {
            yield_now().await;
        }
        let task = handle.borrow_mut().take().unwrap();
        assert!(matches!(task.await, Err(JoinError::Aborted)));
        assert_eq!(polls.get(), 1);
    });
}

#[test]
fn no_task_is_polled_after_its_end() {
    block_on(async {
        let waker = Rc::new(RefCell::new(None::<Waker>));
        let (kept, is_over) = (Rc::clone(&waker), Rc::new(Cell::new(false)));
        let over = Rc::clone(&is_over);
        let task = spawn_local(poll_fn(move |cx| {
            assert!(!over.replace(true), "polled after its end");
            *kept.borrow_mut() = Some(cx.waker().clone());
            Poll::Ready(())
        }));
        yield_now().await;
        let waker = waker.borrow_mut().take().unwrap();
        waker.wake_by_ref(); // the handle still has the output
        yield_now().await;
        task.await.unwrap();
        waker.wake_by_ref(); // the output is taken, too
        // A later task in the same slot is not woken by the waker of the earlier task.
        let polls = Rc::new(Cell::new(0));
        let count = Rc::clone(&polls);
        let _later = spawn_local(poll_fn(move |_| {
            count.set(count.get() + 1);
            Poll::<()>::Pending
        }));
        yield_now().await;
        waker.wake();
        yield_now().await;
        assert_eq!(polls.get(), 1);
    });
}

#[test]
fn several_wakes_in_a_poll_cause_one_further_poll() {
    block_on(async {
        let polls = Rc::new(Cell::new(0));
        let count = Rc::clone(&polls);
        let _task = spawn_local(poll_fn(move |cx| {
            count.set(count.get() + 1);
            if count.get() == 1 {
                (0..10).for_each(|_| cx.waker().wake_by_ref());
            }
            Poll::<()>::Pending
        }));
        for _ in 0..5 {
            yield_now().await;
        }
        assert_eq!(polls.get(), 2);
    });
}

#[test]
fn threads_wake_a_task_and_no_wake_is_lost() {
    const THREADS: usize = 4;
    const WAKES: usize = 1_000;
    block_on(async {
        let (sender, receiver) = mpsc::channel::<usize>();
        let (wakers, wanted) = mpsc::channel::<Waker>();
        let wanted = std::sync::Arc::new(std::sync::Mutex::new(wanted));
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                let (sender, wanted) = (sender.clone(), std::sync::Arc::clone(&wanted));
                thread::spawn(move || {
                    for number in 0..WAKES {
                        let Ok(waker) = wanted.lock().unwrap().recv() else {
                            return;
                        };
                        sender.send(number).unwrap();
                        waker.wake();
                    }
                })
            })
            .collect();
        // In each round, one thread sends and wakes. Without the wake-up, the task would wait
        // forever.
        for _ in 0..THREADS * WAKES {
            let mut has_asked = false;
            poll_fn(|cx| {
                if !has_asked {
                    has_asked = true;
                    wakers.send(cx.waker().clone()).unwrap();
                }
                match receiver.try_recv() {
                    Ok(_) => Poll::Ready(()),
                    Err(_) => Poll::Pending,
                }
            })
            .await;
        }
        for thread in threads {
            thread.join().unwrap();
        }
    });
}

#[test]
fn a_waker_that_outlives_its_runtime_does_nothing() {
    let waker = block_on(poll_fn(|cx| Poll::Ready(cx.waker().clone())));
    waker.wake_by_ref();
    thread::spawn(move || waker.wake()).join().unwrap();
}

#[test]
fn a_runtime_inside_a_runtime_is_an_error() {
    let error = block_on(async { Runtime::new().unwrap().block_on(async {}).unwrap_err() });
    assert!(matches!(error, Error::Nested));
    assert!(
        error.to_string().contains("runs on this thread already"),
        "{error}"
    );
}

#[test]
#[should_panic(expected = "there is no runtime here")]
fn a_spawn_outside_a_runtime_panics_with_a_sentence() {
    drop(spawn_local(async {}));
}

#[test]
fn a_spawn_beyond_the_limit_returns_the_future() {
    let mut runtime = Runtime::new().unwrap();
    runtime.executor().set_tasks_max(2);
    runtime
        .block_on(async {
            let tasks = [1, 2].map(|number| spawn_local(async move { number }));
            let refused = try_spawn_local(async { 3 }).unwrap_err();
            assert!(refused.to_string().contains("2 tasks"), "{refused}");
            assert_eq!(refused.future.await, 3);
            for task in tasks {
                task.await.unwrap();
            }
            assert_eq!(try_spawn_local(async { 4 }).unwrap().await.unwrap(), 4);
        })
        .unwrap();
}

#[test]
fn tasks_await_a_shutdown() {
    let mut runtime = Runtime::new().unwrap();
    let output = runtime.block_on(async {
        let tasks = [1, 2].map(|number| {
            spawn_local(async move {
                shutting_down().await;
                shutting_down().await; // it has begun
                number
            })
        });
        yield_now().await;
        let handle = handle();
        thread::spawn(move || handle.shutdown(Duration::from_secs(60)));
        let mut sum = 0;
        for task in tasks {
            sum += task.await.unwrap();
        }
        sum
    });
    assert_eq!(output.unwrap(), 3);
}

/// Runs turns of the loop until its shutdown is complete.
fn run_to_shutdown(ev: &mut EventLoop, executor: &Executor) {
    while ev.wait().unwrap() {
        while let Some(step) = ev.next_step() {
            executor.on_step(ev, step);
        }
    }
}

#[test]
fn a_task_of_an_idle_loop_is_woken_by_a_shutdown() {
    let mut ev = EventLoop::builder().build().unwrap();
    let executor = Executor::new(&mut ev);
    let task = executor.spawn(&mut ev, async {
        let mut stop = pin!(shutting_down());
        (&mut stop).await;
        pending::<()>().await; // the shutdown does not wait for this task
    });
    let task = task.unwrap();
    let other = executor.spawn(&mut ev, shutting_down()).unwrap();
    ev.wait_at_most(Duration::ZERO).unwrap();
    while let Some(step) = ev.next_step() {
        executor.on_step(&mut ev, step); // both tasks wait now
    }
    ev.shutdown(Duration::from_secs(60)); // as `Worker::next_turn` does
    run_to_shutdown(&mut ev, &executor);
    assert!(other.is_finished() && !task.is_finished());
}

#[test]
fn a_shutdown_that_is_complete_ends_block_on() {
    let mut runtime = Runtime::new().unwrap();
    runtime.event_loop().shutdown(Duration::ZERO);
    let dropped = Rc::new(Cell::new(false));
    let guard = OnDrop(Rc::clone(&dropped));
    let error = runtime.block_on(async move {
        let _guard = guard;
        pending::<()>().await;
    });
    assert!(matches!(error, Err(Error::ShutDown)) && dropped.get());
}

#[test]
fn the_end_of_a_runtime_drops_its_tasks() {
    let dropped = Rc::new(Cell::new(false));
    let guard = OnDrop(Rc::clone(&dropped));
    let mut runtime = Runtime::new().unwrap();
    let endless = async move {
        let _guard = guard;
        sleep(Duration::from_secs(3600)).await;
    };
    let task = runtime.spawn_local(endless).unwrap();
    runtime.block_on(yield_now()).unwrap();
    drop(runtime);
    assert!(dropped.get());
    let mut context = Context::from_waker(Waker::noop());
    let output = pin!(task).poll(&mut context);
    assert!(matches!(output, Poll::Ready(Err(JoinError::Aborted))));
}

#[test]
fn a_slow_task_is_reported_with_its_spawn_location() {
    let instruments = InstrumentOptions::new().watchdog(Duration::from_millis(1));
    let ev = EventLoop::builder()
        .instruments(instruments)
        .build()
        .unwrap();
    let mut runtime = Runtime::from(ev);
    let line = line!() + 1;
    let task = runtime.spawn_local(async move {
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(2) {} // never yields
    });
    runtime.block_on(task.unwrap()).unwrap().unwrap();
    runtime.block_on(async {}).unwrap(); // the turn of the task ends
    let slow = runtime.event_loop().instruments().take_slow_turn().unwrap();
    let Some(Record::Ready(token, _)) = slow.longest.as_ref().map(|step| step.kind) else {
        panic!("{slow:?}");
    };
    let at = runtime.executor().spawned_at(token).unwrap();
    assert_eq!((at.file(), at.line()), (file!(), line));
}

#[test]
fn a_future_that_does_not_return_is_reported_with_its_place() {
    let mut runtime = Runtime::new().unwrap();
    let (sender, reports) = mpsc::channel();
    let report = move |at: &Location<'_>| sender.send((at.file() == file!(), at.line())).unwrap();
    let limit = Duration::from_millis(1);
    runtime.executor().report_stuck(limit, report).unwrap();
    // Each `recv` blocks its poll until that poll is reported as stuck.
    let line = line!() + 1;
    let stuck = runtime.block_on(async {
        let task = spawn_local(async move { (reports.recv(), reports) });
        let (at, reports) = task.await.unwrap();
        assert_eq!(at, Ok((true, line + 1)));
        reports.recv()
    });
    assert_eq!(stuck.unwrap(), Ok((true, line)));
}

#[test]
fn foreign_steps_pass_through_an_executor() {
    let mut ev = EventLoop::builder().build().unwrap();
    let [first, second] = [Executor::new(&mut ev), Executor::new(&mut ev)];
    let own = ev.add_unwatched().unwrap();
    ev.arm(own, evcore::Timer::READ, Duration::ZERO);
    let tasks = [&first, &second].map(|executor| {
        let task = async {
            sleep(Duration::from_millis(1)).await;
            42
        };
        executor.spawn(&mut ev, task).unwrap()
    });
    let mut steps = Vec::new();
    while steps.is_empty() || !tasks.iter().all(|task| task.is_finished()) {
        ev.wait().unwrap();
        while let Some(step) = ev.next_step() {
            let step = first.on_step(&mut ev, step);
            let step = step.and_then(|step| second.on_step(&mut ev, step));
            steps.extend(step);
        }
    }
    assert!(matches!(steps[..], [Step::Expired(token, _)] if token == own));
    assert_eq!([first.tasks(), second.tasks()], [0, 0]);
    assert_eq!(ev.stats().timers_armed, 0);
}

#[test]
fn a_sleep_dropped_outside_its_runtime_ends_its_token() {
    let mut runtime = Runtime::new().unwrap();
    let mut slept: Pin<Box<dyn Future<Output = ()>>> = Box::pin(async {});
    runtime
        .block_on(async {
            slept = Box::pin(sleep(Duration::from_secs(3600)));
            poll_fn(|cx| {
                assert!(slept.as_mut().poll(cx).is_pending());
                Poll::Ready(())
            })
            .await;
        })
        .unwrap();
    assert_eq!(runtime.event_loop().stats().timers_armed, 1);
    drop(slept);
    runtime.block_on(async {}).unwrap();
    assert_eq!(runtime.event_loop().stats().timers_armed, 0);
}

#[test]
#[should_panic(expected = "belongs to another runtime")]
fn a_sleep_polled_in_another_runtime_panics_with_a_reason() {
    let (mut first, mut second) = (Runtime::new().unwrap(), Runtime::new().unwrap());
    let mut slept = Box::pin(sleep_until(Instant::now()));
    first
        .block_on(poll_fn(|cx| {
            assert!(slept.as_mut().poll(cx).is_pending());
            Poll::Ready(())
        }))
        .unwrap();
    // Without the panic, the sleep would wait forever for the timer of the first loop.
    let _ = second.block_on(slept);
}
