//! A full disk, which is a small file system in a mount namespace of the server.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use evcore_tests::{Scratch, Server, eventually, httpd, not_run};
use rustix::process::Signal;

/// The command of a server whose directory `disk` is a file system with these mount options. The
/// shell commands `before` run there first. `None` if this user may not mount a file system.
fn on_disk(disk: &Path, options: &str, before: &str) -> Option<Command> {
    let unshare = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--mount", "sh", "-ec", script]);
        command.arg(httpd()).env("DISK", disk);
        command
    };
    let mount = format!("mount -t tmpfs -o {options} none \"$DISK\"");
    let mut probe = unshare(&mount);
    probe.stdout(Stdio::null()).stderr(Stdio::null());
    if !probe.status().is_ok_and(|status| status.success()) {
        not_run("this user may not mount a file system");
        return None;
    }
    let script = format!("{mount}; cd \"$DISK\"; {before} exec \"$0\" \"$@\"");
    let mut command = unshare(&script);
    command.args(["--listen", "127.0.0.1:0"]);
    Some(command)
}

/// The path of a file on the disk, in the server's namespace.
fn seen_by(server: &Server, file: &Path) -> PathBuf {
    let root = PathBuf::from(format!("/proc/{}/root", server.pid()));
    root.join(file.strip_prefix("/").expect("an absolute path"))
}

fn assert_one_line(output: &Output, named: &[&str]) {
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(named.iter().all(|name| text.contains(name)), "{text}");
}

#[test]
fn a_full_disk_costs_lines_of_the_access_log_only() {
    let scratch = Scratch::new("full");
    let path = scratch.file("access.log");
    let Some(mut command) = on_disk(scratch.path(), "size=64k", "") else {
        return;
    };
    command.args(["--workers", "1", "--access-log"]).arg(&path);
    let server = Server::from_command(command, 1);
    let mut client = server.connect();
    let worker = client.worker();
    eventually("the disk is full", || {
        assert_eq!(client.get("/").status, 200);
        server.log().contains("are lost: No space left on device")
    });
    // After a reload, the new worker must open its log on the full disk.
    server.signal(rustix::process::Signal::HUP);
    let replaced = server.wait_for_workers(1, &[worker]);
    let log = fs::File::options()
        .write(true)
        .open(seen_by(&server, &path));
    log.and_then(|log| log.set_len(0))
        .expect("it can be emptied");
    let mut client = server.connect();
    eventually("it writes lines again", || {
        assert_eq!(client.get("/").status, 200);
        fs::metadata(seen_by(&server, &path)).is_ok_and(|metadata| metadata.len() > 0)
    });
    assert_eq!(server.worker_pids(), replaced);
    assert!(!server.log().contains("ended unexpectedly"));
}

#[test]
fn a_line_that_a_full_disk_cuts_is_not_continued_by_the_next() {
    let scratch = Scratch::new("full-cut");
    let [path, filler] = ["access.log", "filler"].map(|name| scratch.file(name));
    let fill = "head -c 32768 /dev/zero > filler;";
    let Some(mut command) = on_disk(scratch.path(), "size=64k", fill) else {
        return;
    };
    command.args(["--workers", "0", "--access-log"]).arg(&path);
    let server = Server::from_command(command, 1);
    let mut client = server.connect();
    eventually("the disk is full", || {
        assert_eq!(client.get("/").status, 200);
        server.log().contains("are lost: No space left on device")
    });
    let log = seen_by(&server, &path);
    let text = fs::read_to_string(&log).expect("it is there");
    assert!(!text.ends_with('\n'), "no line is cut");
    fs::remove_file(seen_by(&server, &filler)).expect("it is there");
    eventually("it writes lines again", || {
        assert_eq!(client.get("/bytes/1").status, 200);
        fs::read_to_string(&log).is_ok_and(|now| now.len() > text.len())
    });
    let now = fs::read_to_string(&log).expect("it is there");
    let next = now[text.len()..].lines().take(2).collect::<Vec<_>>();
    assert!(
        next[0].is_empty() && next[1].starts_with("127.0.0.1"),
        "{next:?}"
    );
}

#[test]
fn a_new_log_does_not_begin_with_the_end_of_a_cut_line() {
    let scratch = Scratch::new("full-rotated");
    let [path, old, filler] = ["access.log", "old.log", "filler"].map(|name| scratch.file(name));
    let fill = "head -c 32768 /dev/zero > filler;";
    let Some(mut command) = on_disk(scratch.path(), "size=64k", fill) else {
        return;
    };
    command.args(["--workers", "0", "--access-log"]).arg(&path);
    let server = Server::from_command(command, 1);
    let mut client = server.connect();
    eventually("the disk is full", || {
        assert_eq!(client.get("/").status, 200);
        server.log().contains("are lost: No space left on device")
    });
    let log = seen_by(&server, &path);
    let text = fs::read_to_string(&log).expect("it is there");
    assert!(!text.ends_with('\n'), "no line is cut");
    fs::rename(&log, seen_by(&server, &old)).expect("it is there");
    server.signal(Signal::USR1);
    eventually("the log is reopened", || log.exists());
    fs::remove_file(seen_by(&server, &filler)).expect("it is there");
    let mut text = String::new();
    eventually("it writes lines again", || {
        assert_eq!(client.get("/bytes/1").status, 200);
        text = fs::read_to_string(&log).unwrap_or_default();
        !text.is_empty()
    });
    let first = text.lines().next().expect("it is not empty");
    assert!(first.starts_with("127.0.0.1"), "{first:?}");
}

#[test]
fn a_pid_file_on_a_full_disk_is_an_error_of_one_line() {
    let scratch = Scratch::new("full-pid");
    let path = scratch.file("pid");
    let fill = "head -c 1000000 /dev/zero > filler 2> /dev/null ||:;";
    let Some(mut command) = on_disk(scratch.path(), "size=16k", fill) else {
        return;
    };
    let output = command.arg("--pid").arg(&path).output().expect("it runs");
    assert_one_line(&output, &["cannot write", "pid", "No space left on device"]);
}

#[test]
fn a_unix_socket_on_a_full_disk_is_an_error_of_one_line() {
    let scratch = Scratch::new("full-unix");
    let path = scratch.file("socket");
    // The limit allows the directory and one more file.
    let options = "nr_inodes=2";
    let Some(mut command) = on_disk(scratch.path(), options, "> filler;") else {
        return;
    };
    let listen = format!("unix:{}", path.display());
    let output = command.args(["--listen", &listen]).output();
    let output = output.expect("it runs");
    assert_one_line(
        &output,
        &["cannot listen on unix:", "No space left on device"],
    );
}
