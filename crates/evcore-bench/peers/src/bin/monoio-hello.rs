//! hyper on monoio, with monoio's timers and choice of a driver: `monoio-hello ADDRESS`.

use std::{convert::Infallible, error::Error};

use http_body_util::Full;
use hyper::{
    Request, Response, body::Bytes, body::Incoming, server::conn::http1, service::service_fn,
};
use monoio::{
    FusionDriver, RuntimeBuilder,
    io::IntoPollIo,
    net::{ListenerOpts, TcpListener},
};
use monoio_compat::hyper::{MonoioIo, MonoioTimer};

async fn hello(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::from("Hello, World!")))
}

async fn serve(address: String) -> Result<(), Box<dyn Error>> {
    let options = ListenerOpts::new().backlog(1024);
    let listener = TcpListener::bind_with_config(address, &options)?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let mut builder = http1::Builder::new();
        let connection = builder.timer(MonoioTimer);
        let stream = MonoioIo::new(stream.into_poll_io()?);
        let connection = connection.serve_connection(stream, service_fn(hello));
        monoio::spawn(async move { drop(connection.await) });
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).ok_or("an address is missing")?;
    let mut runtime = RuntimeBuilder::<FusionDriver>::new()
        .enable_timer()
        .build()?;
    runtime.block_on(serve(address))
}
