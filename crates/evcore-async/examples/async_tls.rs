//! An echo server over TLS, by futures-rustls:
//!
//!     cargo run --example async_tls --features serve -- 127.0.0.1:7007 certificate.pem key.pem 4
//!     openssl s_client -connect 127.0.0.1:7007
//!
//! The last argument is the number of worker processes, 1 if it is left out. A client is
//! disconnected if its handshake takes longer than 10 seconds, or if it is silent for 60 seconds
//! (for one second while its worker stops). `kill -HUP` replaces the workers. A TLS session cannot
//! move to another process, so a client that goes on sending keeps its old worker, for up to 30
//! seconds.
use std::{env, error::Error, io, sync::Arc, time::Duration};

use evcore::Address;
use evcore_async::{Executor, TcpStream, shutting_down, sleep, timeout};
use evcore_serve::Server;
use futures_lite::{AsyncReadExt, AsyncWriteExt, future};
use futures_rustls::TlsAcceptor;
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};

const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
const IDLE_MAX: Duration = Duration::from_secs(60);

/// The time for which a stopping worker waits for the next bytes of a client.
const GRACE: Duration = Duration::from_secs(1);

/// Waits until a stop has begun, and after that for `GRACE`. Returns 0, like a read at the end of
/// the stream.
async fn stops() -> io::Result<usize> {
    shutting_down().await;
    sleep(GRACE).await;
    Ok(0)
}

async fn echo(stream: TcpStream, acceptor: TlsAcceptor) -> io::Result<()> {
    let mut stream = timeout(HANDSHAKE_MAX, acceptor.accept(stream)).await??;
    let mut buffer = [0; 16 * 1024];
    loop {
        let read = future::or(stream.read(&mut buffer), stops());
        match timeout(IDLE_MAX, read).await?? {
            0 => return stream.close().await,
            length => stream.write_all(&buffer[..length]).await?,
        }
        stream.flush().await?;
    }
}

async fn serve(stream: TcpStream, peer: Address, acceptor: TlsAcceptor) {
    if let Err(error) = echo(stream, acceptor).await {
        eprintln!("{peer}: {error}"); // the error concerns only this client
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let [address, certificate, key, rest @ ..] = &arguments[..] else {
        return Err("usage: async_tls ADDRESS CERTIFICATE KEY [WORKERS]".into());
    };
    let certificates = CertificateDer::pem_file_iter(certificate)?.collect::<Result<_, _>>()?;
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(certificates, PrivateKeyDer::from_pem_file(key)?)?;
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let workers = rest.first().map_or(Ok(1), |workers| workers.parse())?;
    let server = Server::new(workers).bind(address.as_str())?;
    for listener in server.listeners() {
        eprintln!("listening on {}", listener.local_addr());
    }
    let server = server.on_event(|event| eprintln!("{event}"));
    server.run(move |mut worker| {
        let executor = Executor::new(&mut worker.ev);
        executor.serve(&mut worker, |stream, peer| {
            serve(stream, peer, acceptor.clone())
        })
    })?;
    Ok(())
}
