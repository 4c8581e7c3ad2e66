//! may_minihttp with one worker thread: `may-hello ADDRESS`.

use std::io;

use may_minihttp::{HttpServer, HttpService, Request, Response};

#[derive(Clone)]
struct Hello;

impl HttpService for Hello {
    fn call(&mut self, _: Request<'_, '_, '_>, response: &mut Response<'_>) -> io::Result<()> {
        response.header("Content-Type: text/plain");
        response.body("Hello, World!");
        Ok(())
    }
}

fn main() -> io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_default();
    may::config().set_workers(1);
    let server = HttpServer(Hello).start(address)?;
    server
        .join()
        .map_err(|_| io::Error::other("the acceptor panicked"))
}
