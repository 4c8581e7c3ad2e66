//! An older binary's listeners that the new binary does not use. The test plays the older binary,
//! and starts itself again as the new one.

use std::{
    env,
    io::{BufRead, BufReader, ErrorKind},
    net::TcpListener,
    net::TcpStream,
    os::fd::AsRawFd,
    process::{Child, Command, Stdio},
};

use evcore::Listener;
use evcore_serve::{Event, Server, Worker, prefork::INHERITED};
use rustix::io::{FdFlags, fcntl_setfd};

/// The environment variable of the new binary: the address that it binds, or `own` for listeners
/// that its workers do not share.
const LISTENS_AT: &str = "EVCORE_TEST_LISTENS_AT";

#[test]
fn inherited_listeners_that_are_not_taken_are_closed() {
    if let Ok(address) = env::var(LISTENS_AT) {
        return serve(&address);
    }
    for binds in [true, false] {
        let [taken, left] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let [at_taken, at_left] = [&taken, &left].map(|one| one.local_addr().unwrap());
        let numbers = [&taken, &left].map(|listener| {
            fcntl_setfd(listener, FdFlags::empty()).unwrap();
            listener.as_raw_fd().to_string()
        });
        let listens_at = match binds {
            true => at_taken.to_string(),
            false => "own".to_owned(),
        };
        let _new = NewBinary::start(&numbers.join(","), &listens_at);
        drop((taken, left));
        let refused = TcpStream::connect(at_left).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        assert_eq!(TcpStream::connect(at_taken).is_ok(), binds);
    }
}

struct NewBinary(Child);

impl NewBinary {
    fn start(inherited: &str, listens_at: &str) -> Self {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args([
            "--exact",
            "inherited_listeners_that_are_not_taken_are_closed",
        ]);
        command.arg("--nocapture").stdout(Stdio::piped());
        command
            .env(INHERITED, inherited)
            .env(LISTENS_AT, listens_at);
        let mut new = Self(command.spawn().unwrap());
        let lines = BufReader::new(new.0.stdout.take().unwrap()).lines();
        let mut lines = lines.map_while(Result::ok);
        assert!(lines.any(|line| line.ends_with("serves")));
        new
    }
}

impl Drop for NewBinary {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn serve(listens_at: &str) {
    let server = Server::new(1);
    let server = match listens_at {
        "own" => server.own_listeners(vec![vec![Listener::bind("127.0.0.1:0").unwrap()]]),
        address => server.bind(address).unwrap(),
    };
    let server = server.on_event(|event| {
        if let Event::Ready(worker) = event {
            println!("\n{worker} serves");
        }
    });
    server.run_threads(work).unwrap();
}

fn work(mut worker: Worker) -> evcore::Result<()> {
    while worker.next_turn()? {
        while worker.next_step().is_some() {}
    }
    Ok(())
}
