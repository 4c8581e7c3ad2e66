//! The file size limit (`ulimit -f`): writes fail, and the server continues.

use std::{fs, process::Command};

use evcore_tests::{Scratch, Server, httpd};
use rustix::process::Signal;

use crate::command_line::assert_refusal;

/// The command of a server with a file size limit of 0.
fn limited() -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -f 0; exec \"$0\" \"$@\""]);
    command.arg(httpd()).args(["--listen", "127.0.0.1:0"]);
    command
}

#[test]
fn a_worker_that_cannot_write_its_access_log_still_serves() {
    let scratch = Scratch::new("file-size");
    let path = scratch.path().join("access.log");
    for workers in [["--workers", "0"], ["--workers", "1"], ["--threads", "1"]] {
        let mut command = limited();
        command.args(workers).arg("--access-log").arg(&path);
        let mut server = Server::from_command(command, 1);
        let worker = server.connect().worker();
        // The buffer is written when the log is reopened, if not before.
        server.signal(Signal::USR1);
        for _ in 0..3 {
            assert_eq!(server.connect().worker(), worker);
        }
        server.signal(Signal::QUIT);
        assert!(server.wait().success(), "{workers:?}");
        assert!(!server.log().contains("SIGXFSZ"), "{}", server.log());
    }
    assert_eq!(fs::read(&path).expect("it was opened"), b"");
}

#[test]
fn a_pid_file_that_cannot_be_written_is_an_error_of_one_line() {
    let scratch = Scratch::new("pid-size");
    let path = scratch.path().join("pid");
    let output = limited().arg("--pid").arg(&path).output().expect("it runs");
    let named = ["cannot write", path.to_str().expect("a text"), "ulimit -f"];
    assert_refusal(&output, &["--pid"], 1, &named);
    let left = fs::read_dir(scratch.path()).expect("a directory").count();
    assert_eq!(left, 0, "no file is left behind");
}

#[test]
fn an_error_log_that_cannot_be_written_does_not_end_the_server() {
    let scratch = Scratch::new("log-size");
    let log = fs::File::create(scratch.path().join("log")).expect("a file");
    let status = limited().arg("--nonsense").stderr(log).status();
    assert_eq!(status.expect("it runs").code(), Some(2));
}
