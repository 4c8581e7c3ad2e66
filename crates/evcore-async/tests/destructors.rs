//! Tests of tasks and results whose destructors panic.

use std::cell::Cell;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::mpsc;
use std::time::Duration;

use evcore::EventLoop;
use evcore_async::{
    BlockingPool, Executor, JoinHandle, Runtime, sleep, spawn_local, timeout, yield_now,
};
use futures_lite::future::{poll_once, zip};

struct PanicsInDrop;

impl Drop for PanicsInDrop {
    fn drop(&mut self) {
        panic!("in a destructor");
    }
}

#[test]
fn clear_drops_all_tasks_even_if_a_destructor_panics() {
    let mut ev = EventLoop::builder().build().unwrap();
    let executor = Executor::new(&mut ev);
    executor.set_resumes_panics(true);
    let begin = |future| executor.spawn(&mut ev, future).unwrap();
    let panics: Pin<Box<dyn Future<Output = ()>>> = Box::pin(async {
        let _panics = PanicsInDrop;
        std::future::pending::<()>().await;
    });
    let waits = Box::pin(async { sleep(Duration::from_secs(3600)).await });
    let tasks = [panics, waits].map(begin);
    while ev.stats().timers_armed == 0 {
        ev.wait().unwrap();
        while let Some(step) = ev.next_step() {
            executor.on_step(&mut ev, step);
        }
    }
    let cleared = catch_unwind(AssertUnwindSafe(|| executor.clear(&mut ev)));
    assert!(cleared.is_err());
    assert_eq!((executor.tasks(), ev.stats().timers_armed), (0, 0));
    drop(tasks);
    // The limit of tasks is as before.
    assert!(executor.spawn(&mut ev, async {}).is_ok());
}

#[test]
fn a_result_whose_destructor_panics_ends_nothing_else() {
    let mut runtime = Runtime::new().unwrap();
    let result = runtime.block_on(async {
        let pool = BlockingPool::new(1, 8).unwrap();
        let (send, receive) = std::sync::mpsc::channel::<()>();
        // The job ends after its future was dropped, so no task takes its result.
        let abandoned = pool.run(move || {
            let _ = receive.recv();
            PanicsInDrop
        });
        assert!(timeout(Duration::from_millis(1), abandoned).await.is_err());
        drop(send);
        pool.run(|| 7).await
    });
    assert_eq!(result.unwrap().unwrap(), 7);
}

/// The results of both pools are there before the loop takes any. A pool of one thread begins its
/// second job after the result of the first one.
#[test]
fn a_result_that_panics_does_not_keep_the_results_of_another_pool() {
    let mut runtime = Runtime::new().unwrap();
    runtime.executor().set_resumes_panics(true);
    let kept = Rc::new(Cell::new(None));
    let keeps = Rc::clone(&kept);
    let panics = async move {
        let [first, second] = [(); 2].map(|()| BlockingPool::new(1, 8).unwrap());
        let (begun, both) = mpsc::channel();
        let begins = begun.clone();
        assert!(poll_once(first.run(|| PanicsInDrop)).await.is_none());
        assert!(
            poll_once(first.run(move || begins.send(())))
                .await
                .is_none()
        );
        keeps.set(Some(spawn_local(async move {
            let seven = second.run(|| 7);
            zip(seven, second.run(move || begun.send(()))).await.0
        })));
        yield_now().await;
        for _ in 0..2 {
            both.recv().unwrap();
        }
        std::future::pending::<()>().await;
    };
    let result = catch_unwind(AssertUnwindSafe(|| runtime.block_on(panics)));
    assert!(result.is_err());
    let handle = kept.take().expect("the task was spawned");
    let seven = runtime.block_on(async { timeout(Duration::from_secs(5), handle).await });
    assert_eq!(seven.unwrap().unwrap().unwrap().unwrap(), 7);
}

struct AbortsInDrop(JoinHandle<()>);

impl Drop for AbortsInDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A second panic during the first one would abort the process.
#[test]
fn a_task_that_panics_may_abort_a_task_whose_destructor_panics() {
    let mut runtime = Runtime::new().unwrap();
    runtime.executor().set_resumes_panics(true);
    let panics = async {
        let other = spawn_local(async {
            let _panics = PanicsInDrop;
            std::future::pending::<()>().await;
        });
        yield_now().await;
        let _aborts = AbortsInDrop(other);
        panic!("in a task");
    };
    let result = catch_unwind(AssertUnwindSafe(|| runtime.block_on(panics)));
    let panic = result.expect_err("the panic unwinds");
    assert_eq!(panic.downcast_ref(), Some(&"in a task"));
}
