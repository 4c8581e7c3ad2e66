//! hyper on tokio's current-thread runtime: `hyper-hello ADDRESS`.

use std::{convert::Infallible, error::Error};

use http_body_util::Full;
use hyper::{
    Request, Response, body::Bytes, body::Incoming, header, server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpSocket, runtime};

async fn hello(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let mut response = Response::new(Full::new(Bytes::from_static(b"Hello, World!")));
    let headers = response.headers_mut();
    headers.insert(header::SERVER, header::HeaderValue::from_static("hyper"));
    let plain = header::HeaderValue::from_static("text/plain");
    headers.insert(header::CONTENT_TYPE, plain);
    Ok(response)
}

async fn serve(address: String) -> Result<(), Box<dyn Error>> {
    // tokio's default backlog of 128 is too short for a thousand clients at once.
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(address.parse()?)?;
    let listener = socket.listen(1024)?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let mut http = http1::Builder::new();
        http.pipeline_flush(true);
        tokio::spawn(http.serve_connection(TokioIo::new(stream), service_fn(hello)));
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).ok_or("an address is missing")?;
    let runtime = runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(serve(address))
}
