//! Sends back what it is sent, over TLS 1.3: `tls 127.0.0.1:7443 cert.pem key.pem 60`.
//!
//! A client may be idle for 60 seconds, and its handshake may take 60 seconds. QUIT stops the
//! server when its clients have been quiet for one or two seconds, or after 30 seconds. To make a
//! certificate for a trial:
//!
//!     openssl req -x509 -newkey ed25519 -nodes -subj /CN=localhost -keyout key.pem -out cert.pem
use evcore::{Connections, EdgeStream, EventLoop, Listener, Step, Stream};
use evcore::{Interest, Mode, Ready, Timer, Token};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use rustls::{ServerConfig, ServerConnection};
use signal_hook::{consts::SIGQUIT, low_level::pipe};
use std::io::{self, ErrorKind, Read, Write};
use std::{env, error::Error, os::unix::net::UnixStream, sync::Arc, time::Duration};

const IDLE: Timer = Timer::new(0);
const HANDSHAKE: Timer = Timer::new(1);
const QUIET: Timer = Timer::new(2);

/// Sends back the bytes that arrive, until a call would block. The end of the stream is returned as
/// an error, too.
fn echo(stream: &mut EdgeStream, tls: &mut ServerConnection, ev: &mut EventLoop) -> io::Result<()> {
    let mut buffer = [0; 16 * 1024];
    loop {
        flush(stream, tls, ev)?; // nothing is read from a client that does not read
        match rustls::Stream::new(tls, &mut stream.io(ev)).read(&mut buffer)? {
            0 => return close(stream, tls, ev),         // a close_notify
            n => tls.writer().write_all(&buffer[..n])?, // rustls has room for 64 KiB
        }
    }
}

/// Sends the bytes that rustls has written.
fn flush(
    stream: &mut EdgeStream,
    tls: &mut ServerConnection,
    ev: &mut EventLoop,
) -> io::Result<()> {
    while tls.wants_write() {
        tls.write_tls(&mut stream.io(ev))?;
    }
    Ok(())
}

/// Ends the session, if the socket has room for the last bytes.
fn close(
    stream: &mut EdgeStream,
    tls: &mut ServerConnection,
    ev: &mut EventLoop,
) -> io::Result<()> {
    tls.send_close_notify();
    flush(stream, tls, ev).and(Err(ErrorKind::UnexpectedEof.into()))
}

struct Server {
    config: Arc<ServerConfig>,
    idle: Duration,
    clients: Connections<ServerConnection>,
    quit: Token, // readable after a QUIT
}

impl Server {
    fn handle(&mut self, step: Step, ev: &mut EventLoop) {
        match step {
            // If this fails, the stream is dropped, which closes it.
            Step::Accepted(new) => _ = self.open(new.stream, ev),
            Step::Ready(token, _) if token == self.quit => {
                ev.remove(token); // the loop is not shut down while it watches a descriptor
                ev.shutdown(Duration::from_secs(30));
            }
            Step::Ready(token, ready) => {
                let (stream, tls) = self.clients.ready(token, ready).expect("it is open");
                let result = echo(stream, tls, ev).map_err(|error| error.kind());
                if !tls.is_handshaking() {
                    ev.disarm(token, HANDSHAKE);
                }
                ev.arm(token, IDLE, self.idle);
                ev.arm(token, QUIET, Duration::from_secs(1));
                ev.set_busy(token);
                if result != Err(ErrorKind::WouldBlock) {
                    self.clients.close(ev, token); // no step carries this token any more
                }
            }
            Step::Expired(token, QUIET) => {
                let (_, tls) = self.clients.get(token).expect("it is open");
                if !tls.wants_write() {
                    ev.set_idle(token); // a shutdown evicts it
                }
            }
            Step::Expired(token, _) | Step::Evict(token) => {
                // Something may have just arrived.
                let client = self.clients.ready(token, Ready::READABLE);
                let (stream, tls) = client.expect("it is open");
                let _ = echo(stream, tls, ev);
                let _ = close(stream, tls, ev);
                self.clients.close(ev, token);
            }
            Step::Woken | Step::ShuttingDown => {}
        }
    }

    fn open(&mut self, stream: Stream, ev: &mut EventLoop) -> Result<(), Box<dyn Error>> {
        let tls = ServerConnection::new(Arc::clone(&self.config))?;
        let token = self.clients.add(ev, stream, tls)?;
        ev.arm(token, IDLE, self.idle);
        ev.arm(token, HANDSHAKE, self.idle);
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = env::args().skip(1);
    let mut next = || {
        args.next()
            .ok_or("usage: tls ADDRESS CERTIFICATE KEY SECONDS")
    };
    let listener = Listener::bind(next()?)?;
    let certificates = CertificateDer::pem_file_iter(next()?)?;
    let key = PrivateKeyDer::from_pem_file(next()?)?;
    let config = ServerConfig::builder().with_no_client_auth();
    eprintln!("listening on {}", listener.local_addr());
    let builder = EventLoop::builder().listener(listener);
    let mut ev = builder.timers_per_token(3).build()?;
    let (quit, signals) = UnixStream::pair()?;
    pipe::register(SIGQUIT, signals)?; // the handler writes a byte
    let mut server = Server {
        config: Arc::new(config.with_single_cert(certificates.collect::<Result<_, _>>()?, key)?),
        idle: Duration::from_secs_f64(next()?.parse()?),
        clients: Connections::new(),
        quit: ev.add(&quit, Interest::READ, Mode::Level)?,
    };
    while ev.wait()? {
        while let Some(step) = ev.next_step() {
            server.handle(step, &mut ev);
        }
        while let Some(error) = ev.listeners().take_error() {
            eprintln!("{error}");
        }
    }
    Ok(())
}
