//! A future that is dropped after any of its polls leaves nothing in the loop.

use std::cell::Cell;
use std::future::{Future, pending, poll_fn, ready};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::process::Command;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use evcore::net::{Accept, Error, Resource};
use evcore::poller::{Source, Target};
use evcore::{Acceptor, Address, EventLoop};
use evcore_async::{
    BlockingPool, Child, Listener, Runtime, Signals, TcpListener, TcpStream, UdpSocket, Watched,
    copy_bidirectional, handle, interval, now, shutting_down, sleep, sleep_until, spawn_local,
    timeout, yield_now,
};
use futures_lite::future::zip;

const MS: Duration = Duration::from_millis(1);
const LONG: Duration = Duration::from_secs(3600);

/// Limit of connections of each loop, listeners included.
const CONNECTIONS: u32 = 3;

/// The things that a future could change: the numbers of descriptors, timers and tasks, the next
/// free index of a token, and the timeout of the next wait.
fn left(runtime: &mut Runtime) -> (u32, usize, usize, u32, Option<Duration>) {
    // This removes the tokens of futures that were dropped outside the runtime, and takes the step
    // that they caused.
    runtime.block_on(yield_now()).unwrap();
    // The executor keeps the token of one sleep for the next sleep.
    let one_sleep = async { poll_until(pin!(sleep(LONG)), 1).await };
    runtime.block_on(one_sleep).unwrap();
    let tasks = runtime.executor().tasks();
    let ev = runtime.event_loop();
    let token = ev.add_unwatched().unwrap();
    ev.remove(token);
    let stats = ev.stats();
    let timeout = ev.prepare().unwrap().timeout;
    (
        stats.active,
        stats.timers_armed,
        tasks,
        token.index(),
        timeout,
    )
}

/// Makes the same future again and again. The first is dropped after one poll, the next after two,
/// and so on, until one ends before it is dropped. For each number of polls, one future is dropped
/// within its runtime and another one outside. Returns the number of polls after which a future has
/// ended. The futures use the value that `hold` returns.
fn cancel_after_each_poll<H: 'static, F: Future<Output: 'static> + 'static>(
    hold: impl AsyncFnOnce() -> H,
    make: impl Fn(&'static H) -> F,
) -> usize {
    let ev = EventLoop::builder().connections(CONNECTIONS).build();
    let mut runtime = Runtime::from(ev.unwrap());
    // The value is leaked, so that a future may be a task, which is `'static`.
    let held: &'static H = Box::leak(Box::new(runtime.block_on(hold()).unwrap()));
    let before = left(&mut runtime);
    for limit in 1..1_000 {
        let mut is_over = false;
        for is_dropped_within in [true, false] {
            let dropped = runtime.block_on(async {
                let mut future = Box::pin(make(held));
                is_over |= poll_until(future.as_mut(), limit).await;
                (!is_dropped_within).then_some(future)
            });
            drop(dropped);
            assert_eq!(left(&mut runtime), before, "after {limit} polls");
        }
        if is_over {
            return limit;
        }
    }
    panic!("the future does not end");
}

/// Polls a future to its end, but at most `limit` times. Returns whether it has ended.
async fn poll_until<F: Future + ?Sized>(mut future: Pin<&mut F>, limit: usize) -> bool {
    let mut polls = 0;
    poll_fn(|cx| {
        polls += 1;
        match future.as_mut().poll(cx) {
            Poll::Ready(_) => Poll::Ready(true),
            Poll::Pending if polls == limit => Poll::Ready(false),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

async fn nothing() {}

#[test]
fn sleeps_leave_nothing() {
    let polls = cancel_after_each_poll(nothing, |()| sleep(MS));
    assert_eq!(polls, 2);
    cancel_after_each_poll(nothing, |()| zip(sleep(MS), sleep(2 * MS)));
    cancel_after_each_poll(nothing, |()| async { sleep_until(now() + MS).await });
    cancel_after_each_poll(nothing, |()| async {
        let mut ticks = interval(MS);
        ticks.tick().await;
        ticks.tick().await;
    });
}

#[test]
fn timeouts_leave_nothing() {
    cancel_after_each_poll(nothing, |()| timeout(MS, pending::<()>()));
    cancel_after_each_poll(nothing, |()| timeout(LONG, sleep(MS)));
    cancel_after_each_poll(nothing, |()| timeout(LONG, ready(1)));
}

#[test]
fn yields_and_joins_leave_nothing() {
    cancel_after_each_poll(nothing, |()| yield_now());
    // Dropping a handle does not cancel its task, so `left` runs the task to its end before it
    // counts the tasks.
    let polls = cancel_after_each_poll(nothing, |()| async {
        spawn_local(async { 1 }).await.unwrap();
    });
    assert_eq!(polls, 2);
}

#[test]
fn waits_for_a_shutdown_leave_nothing() {
    let mut runtime = Runtime::new().unwrap();
    let before = left(&mut runtime);
    runtime
        .block_on(async {
            let mut future = pin!(shutting_down());
            poll_fn(|cx| {
                assert!(future.as_mut().poll(cx).is_pending());
                Poll::Ready(())
            })
            .await;
        })
        .unwrap();
    assert_eq!(left(&mut runtime), before);
    runtime
        .block_on(async {
            handle().shutdown(LONG);
            shutting_down().await;
        })
        .unwrap();
}

#[test]
fn connects_leave_nothing() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    cancel_after_each_poll(nothing, |()| TcpStream::connect(address));
    // The backlog has room for one client, and the kernel drops the packets of the others.
    let full = evcore::Listener::builder().backlog(0).bind("127.0.0.1:0");
    let full = full.unwrap();
    let address = tcp_address(&full);
    let _waiting = std::net::TcpStream::connect(address).unwrap();
    let polls = cancel_after_each_poll(nothing, |()| timeout(MS, TcpStream::connect(address)));
    assert_eq!(polls, 2);
}

fn tcp_address(listener: &evcore::Listener) -> SocketAddr {
    match listener.local_addr() {
        Address::Tcp(address) => *address,
        other => panic!("{other} is not of TCP"),
    }
}

/// Accepts a client, which connects after the first poll, and after `connect` is called.
async fn accept_later<L: Acceptor<Stream = evcore::Stream>>(
    (listener, address): &(Listener<L>, SocketAddr),
    connect: impl FnOnce(),
) {
    let connected = async {
        yield_now().await;
        connect();
        std::net::TcpStream::connect(*address).unwrap()
    };
    let (accepted, _client) = zip(listener.accept(), connected).await;
    drop(accepted.unwrap());
}

/// A listener of this runtime, with its address.
fn listen<L: Acceptor<Stream = evcore::Stream>>(
    wrap: impl FnOnce(evcore::Listener) -> L,
) -> (Listener<L>, SocketAddr) {
    let listener = evcore::Listener::bind("127.0.0.1:0").unwrap();
    let address = tcp_address(&listener);
    (Listener::new(wrap(listener)).unwrap(), address)
}

#[test]
fn accepts_leave_nothing() {
    let hold = async || listen(|listener| listener);
    let polls = cancel_after_each_poll(hold, |listener| accept_later(listener, || {}));
    assert!(polls >= 2, "{polls}");
}

#[test]
fn accepts_that_wait_for_room_leave_nothing() {
    let hold = async || listen(|listener| listener);
    let polls = cancel_after_each_poll(hold, |listener| async {
        let (first, second) = (pair(), pair());
        assert!(UdpSocket::bind("127.0.0.1:0").is_err(), "there is no room");
        accept_later(listener, || drop(first)).await;
        drop(second);
    });
    assert!(polls >= 3, "{polls}");
}

/// A listener whose next `accept` reports a lack of descriptors if the flag is set.
#[derive(Debug)]
struct Exhausting(evcore::Listener, Cell<bool>);

impl Source for Exhausting {
    fn target(&self) -> Target<'_> {
        self.0.target()
    }
}

impl Acceptor for Exhausting {
    type Stream = evcore::Stream;

    fn accept(&self) -> Result<Accept, Error> {
        if self.1.replace(false) {
            return Ok(Accept::Exhausted(Resource::Process));
        }
        self.0.accept()
    }
}

#[test]
fn accepts_that_pause_leave_nothing() {
    let hold = async || listen(|listener| Exhausting(listener, Cell::new(false)));
    let polls = cancel_after_each_poll(hold, |listener| async {
        listener
            .0
            .watched()
            .with(|exhausting| exhausting.1.set(true));
        accept_later(listener, || {}).await;
    });
    assert!(polls >= 3, "{polls}");
}

fn pair() -> (TcpStream, std::os::unix::net::UnixStream) {
    let (near, far) = std::os::unix::net::UnixStream::pair().unwrap();
    let near = evcore::Stream::from(std::os::fd::OwnedFd::from(near));
    (TcpStream::new(near).unwrap(), far)
}

#[test]
fn reads_and_writes_leave_nothing() {
    let hold = async || pair();
    cancel_after_each_poll(hold, |(stream, far)| {
        let far = far.try_clone().unwrap();
        let thread = thread::spawn(move || (&far).write_all(b"x").unwrap());
        async move {
            assert!(stream.read(&mut [0; 16]).await.unwrap() > 0);
            thread.join().unwrap();
            while timeout(MS, stream.read_idle(&mut [0; 16])).await.is_ok() {}
        }
    });
    cancel_after_each_poll(
        async || pair(),
        |(stream, far)| {
            let far = far.try_clone().unwrap();
            far.set_nonblocking(true).unwrap();
            async move {
                let mut writing = pin!(stream.write_all(&[0; 1 << 20]));
                poll_fn(|cx| {
                    let result = writing.as_mut().poll(cx);
                    while (&far).read(&mut [0; 1 << 16]).is_ok() {} // until it would block
                    result
                })
                .await
                .unwrap();
            }
        },
    );
}

#[test]
fn datagrams_leave_nothing() {
    let hold = async || UdpSocket::bind("127.0.0.1:0").unwrap();
    let polls = cancel_after_each_poll(hold, |socket| async {
        let address = socket.local_addr().unwrap();
        let other = UdpSocket::bind("127.0.0.1:0").unwrap();
        let send = async {
            yield_now().await;
            other.send_to(b"hello", address).await
        };
        let both = zip(socket.recv_from(&mut [0; 16]), send).await;
        assert_eq!((both.0.unwrap().0, both.1.unwrap()), (5, 5));
        other.connect(address).unwrap();
        let send = async {
            yield_now().await;
            other.send(b"hello").await
        };
        let both = zip(socket.recv(&mut [0; 16]), send).await;
        assert_eq!((both.0.unwrap(), both.1.unwrap()), (5, 5));
    });
    assert!(polls >= 3, "{polls}");
}

#[test]
fn watched_descriptors_leave_nothing() {
    cancel_after_each_poll(nothing, |()| async {
        let (near, mut far) = std::os::unix::net::UnixStream::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        let watched = Watched::new(near).unwrap();
        let thread = thread::spawn(move || far.write_all(b"x").unwrap());
        watched
            .read_with(|mut near| near.read(&mut [0; 1]))
            .await
            .unwrap();
        let _ = watched.write_with(|mut near| near.write(b"x")).await;
        thread.join().unwrap();
        drop(watched.into_inner());
    });
}

#[test]
fn copies_leave_nothing() {
    cancel_after_each_poll(nothing, |()| async {
        let [(mut a, mut near), (mut b, mut far)] = [pair(), pair()];
        let thread = thread::spawn(move || {
            // The other ends may be closed.
            for end in [&mut near, &mut far] {
                let _ = end.write_all(b"ping");
                let _ = end.shutdown(std::net::Shutdown::Write);
            }
            // The ends read everything, because closing one with unread data would reset its
            // stream.
            for end in [&mut near, &mut far] {
                let _ = end.read_to_end(&mut Vec::new());
            }
        });
        let copied = copy_bidirectional(&mut a, &mut b).await;
        thread.join().unwrap();
        assert_eq!(copied.unwrap().1, 4);
    });
}

#[test]
fn blocking_jobs_leave_nothing() {
    let hold = async || BlockingPool::new(1, 1).unwrap();
    let polls = cancel_after_each_poll(hold, |pool| async {
        assert_eq!(pool.run(|| 1).await.unwrap(), 1);
        // One of the two jobs waits for room.
        let both = zip(pool.run(|| 2), pool.run(|| 3)).await;
        assert_eq!((both.0.unwrap(), both.1.unwrap()), (2, 3));
        assert!(pool.run(|| panic!("a bug")).await.is_err());
    });
    assert!(polls >= 3, "{polls}");
}

/// Polls a future a hundred times while it waits for room, and then drops the future. Returns the
/// numbers of wakers that were kept before and after the drop.
async fn kept_wakers(future: impl Future) -> [usize; 2] {
    struct Nothing;
    impl Wake for Nothing {
        fn wake(self: Arc<Self>) {}
    }
    let nothing = Arc::new(Nothing);
    let waker = Waker::from(Arc::clone(&nothing));
    let kept = || Arc::strong_count(&nothing) - 2;
    let mut future = Box::pin(future);
    for _ in 0..100 {
        let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());
    }
    let meanwhile = kept();
    drop(future);
    [meanwhile, kept()]
}

#[test]
fn polling_a_wait_for_room_again_keeps_no_further_waker() {
    let ev = EventLoop::builder().connections(1).build();
    let mut runtime = Runtime::from(ev.unwrap());
    let kept = runtime.block_on(async {
        let pool = BlockingPool::new(1, 1).unwrap();
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        let mut blocks = Box::pin(pool.run(move || receiver.recv().is_err()));
        assert!(!poll_until(blocks.as_mut(), 1).await);
        assert_eq!(kept_wakers(pool.run(|| 1)).await, [1, 0]);
        drop(sender);
        assert!(blocks.await.unwrap());

        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        kept_wakers(listener.accept()).await
    });
    // A sleep within `accept` keeps one waker, and the queue of tasks that wait for room keeps the
    // other one.
    assert_eq!(kept.unwrap(), [2, 0]);
}

#[test]
fn signals_and_children_leave_nothing() {
    use signal_hook::consts::SIGUSR1;
    let polls = cancel_after_each_poll(nothing, |()| async {
        let signals = Signals::new(SIGUSR1).unwrap();
        let raised = async {
            yield_now().await;
            signal_hook::low_level::raise(SIGUSR1).unwrap();
        };
        zip(signals.recv(), raised).await;
        let mut child = Child::spawn(&mut Command::new("true")).unwrap();
        assert!(child.wait().await.unwrap().success());
    });
    assert!(polls >= 3, "{polls}");
}

#[cfg(feature = "hyper")]
#[test]
fn sleeps_and_tasks_of_hyper_leave_nothing() {
    use evcore_async::hyper::{LocalExecutor, LoopTimer};
    use hyper::rt::{Executor, Timer};

    let polls = cancel_after_each_poll(nothing, |()| async {
        LocalExecutor.execute(ready(()));
        yield_now().await; // the task has ended
        let mut sleep = LoopTimer.sleep(LONG);
        assert!(!poll_until(sleep.as_mut(), 1).await);
        LoopTimer.reset(&mut sleep, LoopTimer.now() + MS);
        sleep.await;
    });
    assert!(polls >= 3, "{polls}");
}
