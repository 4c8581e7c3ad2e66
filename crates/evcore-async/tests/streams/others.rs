//! Blocking work, other descriptors, and loops that the test itself drives by steps.

use std::cell::{Cell, RefCell};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use evcore::{Budgets, EventLoop, Ready};
use evcore_async::{
    BlockingPool, Executor, JoinError, JoinHandle, Runtime, TcpStream, Watched, handle,
    shutting_down, sleep_until, spawn_local, timeout, yield_now,
};
use futures_lite::AsyncReadExt;

use crate::{block_on, poll_once, unix_pair};

#[test]
fn blocking_jobs_run_beside_the_tasks() {
    block_on(async {
        let pool = BlockingPool::new(2, 100)?;
        let (sender, receiver) = std::sync::mpsc::channel();
        let blocked = pool.clone();
        let job = spawn_local(async move { blocked.run(move || receiver.recv()).await });
        for _ in 0..3 {
            yield_now().await; // the loop is not blocked
        }
        sender.send(42).unwrap();
        assert_eq!(job.await.unwrap().unwrap(), Ok(42));
        Ok(())
    });
}

#[test]
fn the_panic_of_a_job_is_its_error() {
    block_on(async {
        let pool = BlockingPool::new(1, 1)?;
        let error = pool.run(|| panic!("a bug")).await.unwrap_err();
        assert!(matches!(error, JoinError::Panicked(_)));
        assert_eq!(pool.run(|| 42).await.unwrap(), 42);
        Ok(())
    });
}

#[test]
fn jobs_beyond_the_limit_wait_for_room() {
    block_on(async {
        let pool = BlockingPool::new(1, 2)?;
        let jobs: Vec<_> = (0..20)
            .map(|number| {
                let pool = pool.clone();
                spawn_local(async move { pool.run(move || number).await })
            })
            .collect();
        for (number, job) in jobs.into_iter().enumerate() {
            assert_eq!(job.await.unwrap().unwrap(), number);
        }
        Ok(())
    });
}

#[test]
fn a_job_that_waits_for_room_gets_it() {
    block_on(async {
        let pool = BlockingPool::new(1, 1)?;
        let greedy = pool.clone();
        let greedy = spawn_local(async move {
            loop {
                greedy.run(|| ()).await.unwrap();
            }
        });
        yield_now().await; // its first job is submitted
        let ended = timeout(Duration::from_secs(60), pool.run(|| 42)).await;
        greedy.abort();
        assert_eq!(ended.unwrap().unwrap(), 42);
        Ok(())
    });
}

#[test]
fn jobs_get_room_in_the_order_in_which_they_began_to_wait() {
    block_on(async {
        let pool = BlockingPool::new(1, 1)?;
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        let mut blocking = pin!(pool.run(move || receiver.recv().is_err()));
        assert!(poll_once(blocking.as_mut()).await.is_pending());
        let order = Rc::new(RefCell::new(Vec::new()));
        let jobs: Vec<_> = (0..5)
            .map(|number| {
                let (pool, order) = (pool.clone(), Rc::clone(&order));
                spawn_local(async move {
                    pool.run(|| ()).await.unwrap();
                    order.borrow_mut().push(number);
                })
            })
            .collect();
        yield_now().await; // the jobs wait
        jobs[0].abort();
        jobs[2].abort();
        drop(sender);
        assert!(blocking.await.unwrap());
        // This job gets room last, so the other jobs end before it.
        pool.run(|| ()).await.unwrap();
        assert_eq!(*order.borrow(), [1, 3, 4]);
        Ok(())
    });
}

#[test]
fn a_shutdown_waits_for_the_jobs_that_tasks_await() {
    block_on(async {
        let pool = BlockingPool::new(1, 1)?;
        let (sender, receiver) = std::sync::mpsc::channel();
        let other = pool.clone();
        let waiting = spawn_local(async move { other.run(move || receiver.recv()).await });
        yield_now().await;
        handle().shutdown(Duration::from_secs(60));
        shutting_down().await;
        let last = spawn_local(async move { pool.run(|| 43).await }); // waits for room
        yield_now().await;
        sender.send(42).unwrap();
        assert_eq!(waiting.await.unwrap().unwrap(), Ok(42));
        assert_eq!(last.await.unwrap().unwrap(), 43);
        Ok(())
    });
}

#[test]
#[should_panic(expected = "this BlockingPool belongs to another runtime or executor")]
fn a_pool_of_another_runtime_is_refused() {
    let mut runtime = Runtime::new().unwrap();
    let pool = runtime.block_on(async { BlockingPool::new(1, 1).unwrap() });
    let pool = pool.unwrap();
    let mut other = Runtime::new().unwrap();
    let _ = other.block_on(async { pool.run(|| 1).await });
}

#[test]
fn the_output_of_a_child_is_read_to_its_end() {
    block_on(async {
        let mut child = std::process::Command::new("sh")
            .args(["-c", "echo hello; exit 3"])
            .stdout(std::process::Stdio::piped())
            .spawn()?;
        let output = OwnedFd::from(child.stdout.take().unwrap());
        rustix::io::ioctl_fionbio(&output, true)?;
        let output = Watched::new(std::fs::File::from(output))?;
        let mut buffer = [0; 16];
        let mut read = async || output.read_with(|mut file| file.read(&mut buffer)).await;
        assert_eq!(read().await?, 6);
        assert_eq!(read().await?, 0);
        assert_eq!(child.wait()?.code(), Some(3));
        Ok(())
    });
}

#[test]
fn a_server_of_steps_uses_a_client_of_futures() {
    use evcore::{Listener, Step, Stream};
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().clone();
    let mut ev = EventLoop::builder().listener(listener).build().unwrap();
    let executor = Executor::new(&mut ev);
    let client = executor.spawn(&mut ev, async move {
        let stream = TcpStream::connect(&address).await?;
        let mut greeting = [0; 5];
        (&stream).read_exact(&mut greeting).await?;
        Ok::<_, io::Error>(greeting)
    });
    let client = client.unwrap();
    let mut accepted: Vec<Stream> = Vec::new();
    while !client.is_finished() {
        ev.wait().unwrap();
        while let Some(step) = ev.next_step() {
            if let Some(Step::Accepted(new)) = executor.on_step(&mut ev, step) {
                new.stream.send(b"hello").unwrap();
                accepted.push(new.stream);
            }
        }
    }
    assert_eq!(accepted.len(), 1);
    let greeting = Runtime::new().unwrap().block_on(client).unwrap().unwrap();
    assert_eq!(&greeting.unwrap(), b"hello");
}

#[test]
fn a_writer_that_was_put_off_goes_on_with_any_report() {
    use evcore::Step;
    const BYTES: usize = 100;
    let mut ev = EventLoop::builder().build().unwrap();
    let executor = Executor::new(&mut ev);
    let writing = executor.spawn(&mut ev, async {
        let (near, far) = unix_pair()?;
        // After 32 calls in a turn (an iteration of the loop), a call is put off to the next turn.
        for _ in 0..BYTES {
            near.write_all(&[0]).await?;
        }
        Ok::<_, io::Error>(far)
    });
    let writing = writing.unwrap();
    for _ in 0..20 {
        ev.wait_at_most(Duration::ZERO).unwrap();
        while let Some(step) = ev.next_step() {
            let of = match step {
                Step::Ready(token, _) => Some(token),
                _ => None,
            };
            executor.on_step(&mut ev, step);
            // This post merges with the post for which the writer waits.
            of.into_iter()
                .for_each(|token| _ = ev.post_next(token, Ready::READABLE));
        }
    }
    assert!(writing.is_finished());
}

fn turn(ev: &mut EventLoop, executor: &Executor) {
    ev.wait_at_most(Duration::ZERO).unwrap();
    while let Some(step) = ev.next_step() {
        executor.on_step(ev, step);
    }
}

#[test]
fn a_request_that_was_reported_is_not_evicted() {
    let budgets = Budgets {
        posted: 1,
        ..Budgets::default()
    };
    let ev = EventLoop::builder()
        .budgets(budgets)
        .idle_grace(Duration::ZERO);
    let mut ev = ev.build().unwrap();
    let executor = Executor::new(&mut ev);
    let own = ev.add_unwatched().unwrap();
    let (near, mut far) = executor.enter(&mut ev, unix_pair).unwrap();
    let reading = executor.spawn(&mut ev, async move {
        let request = near.read_idle(&mut [0; 16]).await?;
        near.write_all(b"answer").await?;
        let end = near.read_idle(&mut [0; 16]).await.unwrap_err();
        Ok::<_, io::Error>((request, end.kind()))
    });
    let reading = reading.unwrap();
    while ev.stats().idle == 0 {
        turn(&mut ev, &executor);
    }
    (0..2).for_each(|_| turn(&mut ev, &executor));
    far.write_all(b"request").unwrap();
    ev.shutdown(Duration::from_secs(60));
    // This post uses up the budget of posted steps. So the step that polls the tasks comes a turn
    // later.
    ev.post(own, Ready::NONE);
    while !reading.is_finished() {
        turn(&mut ev, &executor);
    }
    let read = Runtime::new().unwrap().block_on(reading).unwrap().unwrap();
    assert_eq!(read.unwrap(), (7, ErrorKind::ConnectionAborted));
}

#[test]
fn an_idle_read_that_is_aborted_between_two_steps_leaves_its_connection_busy() {
    let ev = EventLoop::builder().idle_grace(Duration::ZERO);
    let mut ev = ev.build().unwrap();
    let executor = Executor::new(&mut ev);
    let (near, mut far) = executor.enter(&mut ev, unix_pair).unwrap();
    let near = Rc::new(near);
    let reader = Rc::clone(&near);
    let idle = executor.spawn(&mut ev, async move { reader.read_idle(&mut [0]).await });
    let idle = idle.unwrap();
    (0..3).for_each(|_| turn(&mut ev, &executor));
    assert_eq!(ev.stats().idle, 1);
    idle.abort(); // between two steps
    let busy = executor.spawn(&mut ev, async move { near.read(&mut [0]).await });
    let busy = busy.unwrap();
    ev.shutdown(Duration::from_secs(60));
    (0..3).for_each(|_| turn(&mut ev, &executor));
    far.write_all(b"x").unwrap();
    while !busy.is_finished() {
        turn(&mut ev, &executor);
    }
    let read = Runtime::new().unwrap().block_on(busy).unwrap().unwrap();
    assert_eq!(read.unwrap(), 1);
}

#[test]
fn an_abort_between_two_steps_closes_the_streams_of_the_task() {
    let mut ev = EventLoop::builder().build().unwrap();
    let executor = Executor::new(&mut ev);
    let (near, mut far) = executor.enter(&mut ev, unix_pair).unwrap();
    let task = executor.spawn(&mut ev, async move { near.read(&mut [0]).await });
    let task = task.unwrap();
    (0..5).for_each(|_| turn(&mut ev, &executor));
    task.abort();
    assert!(ev.wait_at_most(Duration::from_secs(60)).unwrap());
    while let Some(step) = ev.next_step() {
        let step = executor.on_step(&mut ev, step);
        assert!(step.is_none(), "{step:?}");
    }
    far.set_nonblocking(true).unwrap();
    assert_eq!(far.read(&mut [0]).unwrap(), 0);
    assert_eq!(ev.stats().active, 0);
}

#[test]
fn steps_of_tokens_that_have_ended_do_not_come_back() {
    use evcore::Step;
    let mut ev = EventLoop::builder().build().unwrap();
    let executor = Executor::new(&mut ev);
    let (near, mut far) = executor.enter(&mut ev, unix_pair).unwrap();
    let reading = async move { near.read(&mut [0]).await };
    let sleeping = sleep_until(std::time::Instant::now());
    let tasks = [
        executor
            .spawn(&mut ev, async { _ = reading.await })
            .unwrap(),
        executor.spawn(&mut ev, sleeping).unwrap(),
    ];
    // A turn handles events and timers first and polls tasks afterwards. So both tasks are still
    // waiting at the end of this turn.
    ev.wait_at_most(Duration::ZERO).unwrap();
    while let Some(step) = ev.next_step() {
        executor.on_step(&mut ev, step);
    }
    far.write_all(b"x").unwrap();
    tasks.iter().for_each(JoinHandle::abort);
    let mut steps = 0;
    for _ in 0..5 {
        ev.wait_at_most(Duration::from_millis(1)).unwrap();
        while let Some(step) = ev.next_step() {
            steps += 1;
            let step: Option<Step> = executor.on_step(&mut ev, step);
            assert!(step.is_none(), "{step:?}");
        }
    }
    assert!(steps > 0);
    assert_eq!((ev.stats().active, ev.stats().timers_armed), (0, 0));
}

#[test]
fn a_number_can_be_registered_again_after_into_inner_outside_a_step() {
    let mut ev = EventLoop::builder().build().unwrap();
    let executor = Executor::new(&mut ev);
    for _ in 0..10 {
        let (near, _far) = executor.enter(&mut ev, unix_pair).unwrap();
        // Outside a step, `into_inner` cannot remove the token. The next `enter` removes it, before
        // a new descriptor gets the same number.
        drop(near.into_inner());
        assert_eq!(ev.stats().active, 1, "the loop still watches it");
    }
    executor.clear(&mut ev);
    assert_eq!(ev.stats().active, 0);
}

#[test]
fn each_enter_begins_a_new_count_of_stream_calls() {
    const BYTES: usize = 1_000;
    let mut ev = EventLoop::builder().build().unwrap();
    let executor = Executor::new(&mut ev);
    let (near, mut far) = executor.enter(&mut ev, unix_pair).unwrap();
    far.write_all(&[0; BYTES]).unwrap();
    let mut received = 0;
    for _ in 0..BYTES {
        turn(&mut ev, &executor);
        executor.enter(&mut ev, || {
            let cx = &mut Context::from_waker(Waker::noop());
            while let Poll::Ready(Ok(1)) = near.poll_read(cx, &mut [0]) {
                received += 1;
            }
        });
    }
    assert_eq!(received, BYTES);
}

/// A main future (the one that `block_on` runs) that yields again and again divides the polls of a
/// turn into many steps.
#[test]
fn a_turn_polls_at_most_256_tasks_beside_a_main_future_that_yields() {
    let mut runtime = Runtime::new().unwrap();
    let polls = Rc::new(Cell::new(0));
    runtime
        .block_on(async {
            for _ in 0..200 {
                let polls = Rc::clone(&polls);
                drop(spawn_local(async move {
                    loop {
                        polls.set(polls.get() + 1);
                        yield_now().await;
                    }
                }));
            }
            for _ in 0..2_000 {
                yield_now().await;
            }
        })
        .unwrap();
    let turns = runtime.event_loop().stats().turns;
    assert!(
        polls.get() <= 256 * turns,
        "{} in {turns} turns",
        polls.get()
    );
}
