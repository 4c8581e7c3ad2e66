//! The server that is reloaded, and its log.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};

use crate::Result;

/// A master process. Ends with this value.
#[derive(Debug)]
pub(super) struct Server {
    master: Child,
    log: BufReader<ChildStderr>,
    pub(super) address: String,
}

impl Server {
    /// Starts it, and waits until it listens.
    pub(super) fn start(program: &Path, options: &[&str]) -> Result<Server> {
        let mut command = Command::new(program);
        command.args(["--listen", "127.0.0.1:0"]).args(options);
        let mut master = command.stderr(Stdio::piped()).spawn()?;
        let log = BufReader::new(master.stderr.take().expect("it is piped"));
        let mut server = Server {
            master,
            log,
            address: String::new(),
        };
        server.address = server.wait_for("listening on ")?;
        Ok(server)
    }

    pub(super) fn pid(&self) -> u32 {
        self.master.id()
    }

    /// Reads the log up to a line with these words, and returns what follows them.
    pub(super) fn wait_for(&mut self, words: &str) -> Result<String> {
        let mut line = String::new();
        loop {
            line.clear();
            if self.log.read_line(&mut line)? == 0 {
                return Err(format!("the server ended before `{words}`").into());
            }
            match line.split_once(words) {
                Some((_, rest)) => return Ok(rest.trim_end().to_owned()),
                None if line.contains("reload: ") => {}
                None => print!("  log: {line}"),
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let term = Command::new("kill").arg(self.pid().to_string()).status();
        if term.is_ok() {
            let _ = self.master.wait();
        }
    }
}
