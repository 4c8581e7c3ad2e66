//! Tests that a request to a hyper server on this crate's loop allocates no more than hyper itself
//! does, once the buffers have grown.
//!
//! The same client and server run twice: on this crate's loop, over a pair of sockets; and without
//! a loop, over two queues of bytes in memory.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use evcore_async::{Runtime, Stream, spawn_local};
use evcore_testing::{CountingAllocator, allocations, bytes_in_use};
use futures_lite::future;
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const REQUESTS: usize = 100;

async fn hello(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::from("Hello, world!")))
}

async fn serve(stream: impl Read + Write + Unpin + 'static) {
    let connection = http1::Builder::new().serve_connection(stream, service_fn(hello));
    connection.await.expect("the client ends orderly");
}

/// The allocations of a request, on both sides together, once the buffers have grown.
async fn allocations_of_a_request(mut sender: SendRequest<Empty<Bytes>>) -> f64 {
    let mut before = 0;
    for request in 0..2 * REQUESTS {
        if request == REQUESTS {
            before = allocations();
        }
        sender.ready().await.expect("it is open");
        let request = Request::get("/").header("host", "a").body(Empty::new());
        let response = sender.send_request(request.expect("it is valid")).await;
        let body = response.expect("an answer").into_body().collect().await;
        assert_eq!(body.expect("a body").to_bytes(), "Hello, world!");
    }
    (allocations() - before) as f64 / REQUESTS as f64
}

fn pair() -> [Stream; 2] {
    let (near, far) = UnixStream::pair().expect("descriptors are left");
    [near, far].map(|end| {
        end.set_nonblocking(true).expect("a socket can be that");
        let stream = evcore::Stream::from(OwnedFd::from(end));
        Stream::new(stream).expect("it can be watched")
    })
}

/// One direction of a connection in memory.
#[derive(Default)]
struct Queue {
    bytes: VecDeque<u8>,
    is_closed: bool,
    reader: Option<Waker>,
}

/// An end of a connection in memory.
struct Memory {
    input: Rc<RefCell<Queue>>,
    output: Rc<RefCell<Queue>>,
}

impl Read for Memory {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let mut input = self.input.borrow_mut();
        if input.bytes.is_empty() && !input.is_closed {
            input.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let count = input.bytes.len().min(buffer.remaining());
        buffer.put_slice(&input.bytes.make_contiguous()[..count]);
        input.bytes.drain(..count);
        Poll::Ready(Ok(()))
    }
}

impl Write for Memory {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut output = self.output.borrow_mut();
        output.bytes.extend(bytes);
        output.reader.take().into_iter().for_each(Waker::wake);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut output = self.output.borrow_mut();
        output.is_closed = true;
        output.reader.take().into_iter().for_each(Waker::wake);
        Poll::Ready(Ok(()))
    }
}

/// Runs `others` until `main` ends.
async fn beside<T>(main: impl Future<Output = T>, others: impl Future<Output = ()>) -> T {
    let mut others = pin!(others);
    let others = async {
        others.as_mut().await;
        future::pending().await
    };
    future::or(main, others).await
}

fn in_memory() -> f64 {
    let queues = [(), ()].map(|()| Rc::<RefCell<Queue>>::default());
    let end = |input: usize| Memory {
        input: Rc::clone(&queues[input]),
        output: Rc::clone(&queues[1 - input]),
    };
    future::block_on(async {
        let (sender, connection) = handshake(end(0)).await.expect("memory is open");
        let others = future::zip(async { drop(connection.await) }, serve(end(1)));
        beside(allocations_of_a_request(sender), async {
            others.await;
        })
        .await
    })
}

#[test]
fn a_request_allocates_no_more_than_hyper_does() {
    let served = Runtime::new().expect("a loop").block_on(async {
        let [near, far] = pair();
        drop(spawn_local(serve(far)));
        let (sender, connection) = handshake(near).await.expect("it is open");
        drop(spawn_local(connection));
        allocations_of_a_request(sender).await
    });
    let (here, in_memory) = (served.expect("it ends"), in_memory());
    println!("{here} allocations a request here, {in_memory} in memory");
    // The tolerance is for hyper's date, which is formatted again in each second.
    assert!(here < in_memory + 0.5, "{here}, {in_memory}");
}

#[test]
fn an_idle_connection_of_hyper_takes_few_bytes() {
    const CONNECTIONS: usize = 100;
    let bytes = Runtime::new().expect("a loop").block_on(async {
        let mut senders = Vec::with_capacity(2 * CONNECTIONS);
        let mut before = 0;
        for connection in 0..2 * CONNECTIONS {
            if connection == CONNECTIONS {
                before = bytes_in_use();
            }
            let [near, far] = pair();
            drop(spawn_local(serve(far)));
            let (mut sender, client) = handshake(near).await.expect("it is open");
            drop(spawn_local(client));
            let request = Request::get("/")
                .header("host", "a")
                .body(Empty::<Bytes>::new());
            let response = sender.send_request(request.expect("it is valid")).await;
            drop(response.expect("an answer").into_body().collect().await);
            senders.push(sender);
        }
        (bytes_in_use() - before) / CONNECTIONS
    });
    let bytes = bytes.expect("it ends");
    println!("an idle connection of hyper, both ends: {bytes} bytes");
    // hyper has buffers of its own for each connection.
    assert!(bytes <= 48_000, "{bytes}");
}
