//! A listener that a service manager has kept since the last run. The test plays the service
//! manager, and starts itself again as the server.

use std::env;
use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};

use evcore::Listener;
use evcore_serve::{Event, Server, Worker, prefork::STORED_LISTENER};

/// The name of an environment variable for the server. Its value is the address that the server
/// binds. The value `other` means any other address.
const LISTENS_AT: &str = "EVCORE_TEST_LISTENS_AT";

#[test]
fn a_stored_listener_is_taken_over_or_closed() {
    if let Ok(address) = env::var(LISTENS_AT) {
        return serve(&address);
    }
    for binds in [true, false] {
        let stored = TcpListener::bind("127.0.0.1:0").unwrap();
        let at_stored = stored.local_addr().unwrap();
        let address = match binds {
            true => at_stored.to_string(),
            false => "other".to_owned(),
        };
        let _server = Process::start(stored.into(), &address);
        assert_eq!(TcpStream::connect(at_stored).is_ok(), binds);
    }
}

struct Process(Child);

impl Process {
    fn start(stored: OwnedFd, address: &str) -> Self {
        let mut command = Command::new("sh");
        // The listener becomes descriptor 3, the first one that a service manager passes.
        let script = "export LISTEN_PID=$$; exec \"$0\" \"$@\" 3<&0 </dev/null";
        command
            .args(["-c", script])
            .arg(env::current_exe().unwrap());
        command.args(["--exact", "a_stored_listener_is_taken_over_or_closed"]);
        command
            .arg("--nocapture")
            .stdout(Stdio::piped())
            .stdin(stored);
        command.env("LISTEN_FDS", "1");
        command.env("LISTEN_FDNAMES", STORED_LISTENER);
        command.env(LISTENS_AT, address);
        let mut server = Self(command.spawn().unwrap());
        let lines = BufReader::new(server.0.stdout.take().unwrap()).lines();
        let mut lines = lines.map_while(Result::ok);
        assert!(lines.any(|line| line.ends_with("serves")));
        server
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn serve(address: &str) {
    let server = Server::new(1);
    let server = match address {
        "other" => server.listener(Listener::bind("127.0.0.1:0").unwrap()),
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
