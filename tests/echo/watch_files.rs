//! The example `watch_files`, in which changes of files are steps of the event loop.

use std::{
    fs,
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
};

use evcore_tests::{PATIENCE, Scratch, example};

#[test]
fn changes_of_files_are_steps() {
    let directory = Scratch::new("watched");
    let file = |name: &str| directory.path().join(name);
    fs::write(file("old"), "1").expect("it is writable");
    let mut command = Command::new(example("evcore", "watch_files"));
    command.arg(directory.path()).stdout(Stdio::piped());
    let mut child = Killed(command.spawn().expect("it starts"));
    let output = BufReader::new(child.0.stdout.take().expect("a pipe"));
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        for line in output.lines() {
            let _ = sender.send(line.expect("text"));
        }
    });
    let line = || lines.recv_timeout(PATIENCE).expect("a line");
    assert!(line().starts_with("watching "));
    fs::write(file("new"), "2").expect("it is writable");
    assert_eq!(line(), "EventMask(CLOSE_WRITE) new");
    fs::rename(file("new"), file("old")).expect("it is writable");
    assert_eq!(line(), "EventMask(MOVED_TO) old");
    fs::remove_file(file("old")).expect("it is writable");
    assert_eq!(line(), "EventMask(DELETE) old");
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
