//! Many clients of one echo server, over TCP.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    sync::Arc,
};

use async_executor::Executor;
use async_io::Async;
use evcore_compat::{letter, on_each_backend};
use futures_lite::{AsyncReadExt, AsyncWriteExt, future};

use crate::executor_threads;

on_each_backend!(
    every_client_gets_back_what_it_sent,
    a_letter_larger_than_any_socket_comes_back_whole,
    descriptor_numbers_of_closed_sockets_are_used_again,
);

const CLIENTS: u64 = 100;

const LETTERS: u64 = 40;

fn every_client_gets_back_what_it_sent() {
    let executor = Arc::new(Executor::new());
    let clients = async {
        let address = serve(&executor);
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| executor.spawn(send_letters(address, client)))
            .collect();
        for client in clients {
            client.await.expect("the client is served to its end");
        }
    };
    executor_threads::run(&executor, clients);
}

async fn send_letters(address: SocketAddr, client: u64) -> io::Result<()> {
    let mut stream = Async::<TcpStream>::connect(address).await?;
    for number in 0..LETTERS {
        let seed = client * LETTERS + number;
        let sent = letter(
            seed,
            1 + usize::try_from(seed % 4_000).expect("it is small"),
        );
        stream.write_all(&sent).await?;
        let mut came = vec![0; sent.len()];
        stream.read_exact(&mut came).await?;
        assert!(came == sent, "client {client}, letter {number}");
    }
    end(stream).await
}

/// Both sides must repeatedly wait for room to write.
fn a_letter_larger_than_any_socket_comes_back_whole() {
    const LEN: usize = 16 << 20;
    let executor = Arc::new(Executor::new());
    let client = async {
        let stream = Async::<TcpStream>::connect(serve(&executor)).await?;
        let sent = letter(1, LEN);
        let mut came = vec![0; LEN];
        let (mut reader, mut writer) = (&stream, &stream);
        future::try_zip(writer.write_all(&sent), reader.read_exact(&mut came)).await?;
        assert!(came == sent);
        end(stream).await
    };
    executor_threads::run(&executor, client).expect("it is served to its end");
}

/// Clients come one after another, so that descriptor numbers are used again.
fn descriptor_numbers_of_closed_sockets_are_used_again() {
    const CLIENTS: u64 = 500;
    let executor = Arc::new(Executor::new());
    let clients = async {
        let address = serve(&executor);
        for client in 0..CLIENTS {
            let mut stream = Async::<TcpStream>::connect(address).await?;
            let sent = letter(client, 10);
            stream.write_all(&sent).await?;
            let mut came = [0; 10];
            stream.read_exact(&mut came).await?;
            assert_eq!(came, *sent, "client {client}");
        }
        io::Result::Ok(())
    };
    executor_threads::run(&executor, clients).expect("they are served");
}

/// Shuts down the write side, and asserts that nothing is left to read.
async fn end(mut stream: Async<TcpStream>) -> io::Result<()> {
    stream.get_ref().shutdown(std::net::Shutdown::Write)?;
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await?;
    assert_eq!(rest, []);
    Ok(())
}

fn serve(executor: &Arc<Executor<'static>>) -> SocketAddr {
    let listener = Async::<TcpListener>::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = listener.get_ref().local_addr().expect("it is bound");
    let spawner = Arc::clone(executor);
    let server = async move {
        loop {
            let (stream, _) = listener.accept().await.expect("a client");
            spawner.spawn(send_back(stream)).detach();
        }
    };
    executor.spawn(server).detach();
    address
}

/// Errors are ignored, because each client reports its own.
async fn send_back(stream: Async<TcpStream>) {
    let _ = futures_lite::io::copy(&stream, &stream).await;
}
