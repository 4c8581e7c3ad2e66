//! A reverse proxy by hyper, which keeps connections to its server for later requests:
//!
//!     cargo run --release --example hyper_proxy --features hyper -- 127.0.0.1:8081 127.0.0.1:8080
//!
//! A request gets 502 if the server cannot be reached, and
//! 504 if that takes 5 seconds or its answer 60. At most 64 idle connections are kept, each for as long as the server keeps it.
use std::{cell::RefCell, env, error::Error, rc::Rc, time::Duration};

use evcore::{Address, EventLoop};
use evcore_async::{Runtime, TcpListener, TcpStream, hyper::LoopTimer, spawn_local, timeout};
use http_body_util::{Either, Empty};
use hyper::{
    Request, Response, StatusCode,
    body::{Bytes, Incoming},
    client::conn::http1::{SendRequest, handshake},
    header::{CONNECTION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE},
    server::conn::http1,
    service::service_fn,
};

const CONNECT_MAX: Duration = Duration::from_secs(5);
const ANSWER_MAX: Duration = Duration::from_secs(60);
const IDLE_MAX: usize = 64;

type Body = Either<Incoming, Empty<Bytes>>;

/// The server, and the connections to it that no request uses.
struct Upstream {
    address: Address,
    idle: RefCell<Vec<SendRequest<Incoming>>>,
}

impl Upstream {
    /// A connection that was used before, or a new one.
    async fn sender(&self) -> Result<SendRequest<Incoming>, Box<dyn Error>> {
        loop {
            let idle = self.idle.borrow_mut().pop();
            match idle {
                Some(sender) if sender.is_ready() => return Ok(sender),
                Some(_) => {} // the server has closed it
                None => break,
            }
        }
        let stream = timeout(CONNECT_MAX, TcpStream::connect(&self.address)).await??;
        let (sender, connection) = handshake(stream).await?;
        drop(spawn_local(connection));
        Ok(sender)
    }

    /// Keeps a connection once the response has been taken from it.
    fn keep(self: &Rc<Self>, mut sender: SendRequest<Incoming>) {
        let upstream = Rc::clone(self);
        drop(spawn_local(async move {
            if sender.ready().await.is_ok() && upstream.idle.borrow().len() < IDLE_MAX {
                upstream.idle.borrow_mut().push(sender);
            }
        }));
    }

    async fn forward(
        self: &Rc<Self>,
        mut request: Request<Incoming>,
    ) -> Result<Response<Incoming>, Box<dyn Error>> {
        // These headers concern one connection only.
        for header in [CONNECTION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE] {
            request.headers_mut().remove(header);
        }
        let mut sender = self.sender().await?;
        let response = timeout(ANSWER_MAX, sender.send_request(request)).await??;
        self.keep(sender);
        Ok(response)
    }
}

async fn answer(
    upstream: Rc<Upstream>,
    request: Request<Incoming>,
) -> Result<Response<Body>, hyper::Error> {
    let error = match upstream.forward(request).await {
        Ok(mut response) => {
            response.headers_mut().remove(CONNECTION);
            return Ok(response.map(Either::Left));
        }
        Err(error) => error,
    };
    eprintln!("{}: {error}", upstream.address);
    let mut response = Response::new(Either::Right(Empty::new()));
    *response.status_mut() = match error.downcast_ref() {
        Some(evcore_async::TimedOut) => StatusCode::GATEWAY_TIMEOUT,
        None => StatusCode::BAD_GATEWAY,
    };
    Ok(response)
}

async fn serve(stream: TcpStream, upstream: Rc<Upstream>) {
    let service = service_fn(move |request| answer(Rc::clone(&upstream), request));
    let mut builder = http1::Builder::new();
    builder.timer(LoopTimer); // a head has 30 seconds
    if let Err(error) = builder.serve_connection(stream, service).await {
        eprintln!("{error}"); // of this client alone
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let [listen, server] = &env::args().skip(1).collect::<Vec<_>>()[..] else {
        return Err("listen where, and forward to which server?".into());
    };
    let upstream = Rc::new(Upstream {
        address: server.parse()?,
        idle: RefCell::default(),
    });
    // Each client needs two streams, two tasks and their timeouts.
    let ev = EventLoop::builder().connections(20_000).build()?;
    Runtime::from(ev).block_on(async {
        let listener = TcpListener::bind(listen.as_str())?;
        eprintln!("listening on {}", listener.local_addr());
        loop {
            let (stream, _peer) = listener.accept().await?;
            drop(spawn_local(serve(stream, Rc::clone(&upstream))));
        }
    })?
}
