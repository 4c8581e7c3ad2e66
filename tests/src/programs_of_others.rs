//! Programs of other projects that tests run if they are installed.

use std::{
    fs,
    process::{Child, Command, Stdio},
};

use rustix::process::Signal;

use crate::{eventually, httpd_process::try_signal_to, not_run};

/// Returns whether a program is installed. If it is not, the calling test is reported as not run.
#[must_use]
pub fn is_installed(program: &str) -> bool {
    let mut version = Command::new(program);
    version.arg("--version");
    version.stdout(Stdio::null()).stderr(Stdio::null());
    let is_installed = version.status().is_ok();
    if !is_installed {
        not_run(&format!("{program} is not installed"));
    }
    is_installed
}

/// A running program, which ends at SIGTERM. Dropping it sends SIGTERM, and waits for the end.
#[derive(Debug)]
pub struct Running(Child);

impl Running {
    /// Starts a program.
    ///
    /// # Panics
    ///
    /// If it does not start.
    #[must_use]
    pub fn start(command: &mut Command) -> Self {
        Self(command.spawn().expect("it starts"))
    }

    /// The process id of the program.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Waits until the program listens on a TCP port, and returns the port, which `/proc` shows.
    ///
    /// # Panics
    ///
    /// After [`PATIENCE`](crate::PATIENCE), and if the program ends.
    pub fn listening_port(&mut self) -> u16 {
        let mut port = None;
        eventually("it listens", || {
            let ended = self.0.try_wait().expect("it is our child");
            assert!(ended.is_none(), "it ended: {ended:?}");
            port = listening_port(self.0.id());
            port.is_some()
        });
        port.expect("just waited for")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // At SIGTERM, unlike SIGKILL, a program can first end processes of its own.
        let _ = try_signal_to(self.0.id(), Signal::TERM);
        let _ = self.0.wait();
    }
}

fn listening_port(pid: u32) -> Option<u16> {
    let fds = fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten();
    let links = fds.filter_map(|fd| fs::read_link(fd.path()).ok());
    let sockets: Vec<String> = links
        .filter_map(|link| {
            let number = link.to_str()?.strip_prefix("socket:[")?;
            Some(number.strip_suffix(']')?.to_owned())
        })
        .collect();
    ["tcp", "tcp6"].into_iter().find_map(|table| {
        let table = fs::read_to_string(format!("/proc/{pid}/net/{table}")).ok()?;
        table.lines().find_map(|line| {
            let words: Vec<_> = line.split_whitespace().collect();
            // The local address, the state (0A is LISTEN), and the number of the socket.
            let (address, state, number) = (words.get(1)?, words.get(3)?, words.get(9)?);
            let is_its = *state == "0A" && sockets.iter().any(|socket| socket == number);
            let (_, port) = address.rsplit_once(':')?;
            is_its.then(|| u16::from_str_radix(port, 16).ok())?
        })
    })
}
