//! Tests the memory of a runtime whose tables have grown: the number of further allocations, and
//! the bytes that a waiting task takes.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use evcore::EventLoop;
use evcore::clock::{Clock, ManualTimeSource};
use evcore_async::{Runtime, TcpListener, TcpStream, now, sleep, spawn_local, timeout, yield_now};
use evcore_testing::{CountingAllocator, allocations, bytes_in_use};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const LONG: Duration = Duration::from_secs(3600);

/// Number of allocations in `rounds` rounds, after as many rounds in which tables grow.
async fn allocations_of(rounds: usize, mut round: impl AsyncFnMut()) -> usize {
    for _ in 0..rounds {
        round().await;
    }
    let before = allocations();
    for _ in 0..rounds {
        round().await;
    }
    allocations() - before
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    Runtime::new().unwrap().block_on(future).unwrap()
}

#[test]
fn yields_and_sleeps_allocate_nothing() {
    // The clock stands still. If time passed, the timers would use further slots of the timer
    // wheel, and the wheel may allocate memory for a slot.
    let clock = Clock::with_source(ManualTimeSource::new());
    let ev = EventLoop::builder().clock(clock).build().unwrap();
    let slept = Runtime::from(ev).block_on(async {
        assert_eq!(allocations_of(100, async || yield_now().await).await, 0);
        let slept = async || {
            let mut sleep = pin!(sleep(Duration::ZERO));
            poll_fn(|cx| {
                assert!(sleep.as_mut().poll(cx).is_pending());
                Poll::Ready(())
            })
            .await;
            sleep.as_mut().get_mut().reset(now());
            sleep.await;
        };
        assert_eq!(allocations_of(100, slept).await, 0);
        let limited = async || _ = timeout(LONG, yield_now()).await;
        assert_eq!(allocations_of(100, limited).await, 0);
    });
    slept.unwrap();
}

#[test]
fn a_task_is_one_allocation() {
    block_on(async {
        let spawned = async || spawn_local(yield_now()).await.unwrap();
        assert_eq!(allocations_of(100, spawned).await, 100);
    });
}

#[test]
fn an_echo_allocates_nothing() {
    block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(&listener.local_addr()).await.unwrap();
        let (server, _) = listener.accept().await.unwrap();
        drop(spawn_local(async move {
            let mut buffer = [0; 64];
            while let Ok(Ok(length @ 1..)) = timeout(LONG, server.read(&mut buffer)).await {
                server.write_all(&buffer[..length]).await.unwrap();
            }
        }));
        let echoed = async || {
            client.write_all(b"hello").await.unwrap();
            assert_eq!(client.read(&mut [0; 64]).await.unwrap(), 5);
        };
        assert_eq!(allocations_of(100, echoed).await, 0);
    });
}

/// The bytes that each of `count` waiting tasks takes. `make` returns the future of a task.
fn bytes_of_each<F: Future<Output = ()> + 'static>(count: usize, make: impl Fn() -> F) -> usize {
    let ev = EventLoop::builder().connections(100_000).build().unwrap();
    let mut runtime = Runtime::from(ev);
    let before = bytes_in_use();
    let executor_is_idle = async {
        for _ in 0..count {
            drop(spawn_local(make()));
        }
        for _ in 0..count {
            yield_now().await; // until each task was polled
        }
    };
    runtime.block_on(executor_is_idle).unwrap();
    (bytes_in_use() - before) / count
}

#[test]
fn a_sleeping_task_takes_few_bytes() {
    let bytes = bytes_of_each(100_000, || sleep(LONG));
    println!("a sleeping task: {bytes} bytes");
    assert!(bytes <= 410, "{bytes}");
}

#[test]
fn an_idle_connection_takes_few_bytes() {
    let bytes = bytes_of_each(100, || async {
        let (near, far) = std::os::unix::net::UnixStream::pair().unwrap();
        let near = evcore::Stream::from(std::os::fd::OwnedFd::from(near));
        let stream = TcpStream::new(near).unwrap();
        let mut buffer = [0; 1];
        assert_eq!(stream.read(&mut buffer).await.unwrap(), 0);
        drop(far);
    });
    println!("an idle connection with its task: {bytes} bytes");
    assert!(bytes <= 500, "{bytes}");
}
