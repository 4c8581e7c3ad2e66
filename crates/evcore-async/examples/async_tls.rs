//! An echo server over TLS, by futures-rustls:
//!
//!     cargo run --example async_tls -- 127.0.0.1:7007 certificate.pem key.pem
//!     openssl s_client -connect 127.0.0.1:7007
//!
//! A client that does not finish its handshake, or is silent, is disconnected after 10 or 60 seconds.
use std::{env, error::Error, io, sync::Arc, time::Duration};

use evcore_async::{Runtime, TcpListener, TcpStream, spawn_local, timeout};
use futures_lite::{AsyncReadExt, AsyncWriteExt};
use futures_rustls::TlsAcceptor;
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};

const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
const IDLE_MAX: Duration = Duration::from_secs(60);

async fn echo(stream: TcpStream, acceptor: TlsAcceptor) -> io::Result<()> {
    let mut stream = timeout(HANDSHAKE_MAX, acceptor.accept(stream)).await??;
    let mut buffer = [0; 16 * 1024];
    loop {
        match timeout(IDLE_MAX, stream.read(&mut buffer)).await?? {
            0 => return stream.close().await,
            length => stream.write_all(&buffer[..length]).await?,
        }
        stream.flush().await?;
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let [address, certificate, key] = &env::args().skip(1).collect::<Vec<_>>()[..] else {
        return Err("listen where, and with which files of a certificate and its key?".into());
    };
    let certificates = CertificateDer::pem_file_iter(certificate)?.collect::<Result<_, _>>()?;
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(certificates, PrivateKeyDer::from_pem_file(key)?)?;
    let acceptor = TlsAcceptor::from(Arc::new(config));
    Runtime::new()?.block_on(async {
        let listener = TcpListener::bind(address.as_str())?;
        eprintln!("listening on {}", listener.local_addr());
        loop {
            let (stream, peer) = listener.accept().await?;
            let acceptor = acceptor.clone();
            drop(spawn_local(async move {
                if let Err(error) = echo(stream, acceptor).await {
                    eprintln!("{peer}: {error}"); // of this client alone
                }
            }));
        }
    })?
}
