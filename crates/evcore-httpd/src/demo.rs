//! `--demo`: a load that is uneven on purpose, so that the dashboard can be seen at work without
//! any other program.
//!
//! A child process of the server, which runs the same program, makes the load. A thread cannot make
//! it, because a master that has threads cannot fork. The child ends soon after the server, however
//! the server ends.

mod client;
mod load;

use std::{
    env,
    ffi::OsStr,
    io,
    net::SocketAddr,
    process::{Child, Command, ExitCode, Stdio},
};

use evcore::net::Address;

use crate::log::log;
use load::Load;

/// The first argument of the child. An address follows.
const LOAD: &str = "--demo-load";

/// The process that makes the load. Dropping this value ends the load.
pub struct Demo(Child);

impl Demo {
    /// Starts the load on the first of these addresses that is TCP.
    ///
    /// # Errors
    ///
    /// If all addresses are Unix sockets, because no browser opens their pages, or if the child
    /// cannot be started.
    pub fn start<'a>(addresses: impl Iterator<Item = &'a Address>) -> io::Result<Self> {
        let mut addresses = addresses.filter(|address| !address.is_unix());
        let address = addresses.next().ok_or_else(|| {
            io::Error::other("--demo needs a TCP address; add --listen 127.0.0.1:8080")
        })?;
        let child = Command::new(env::current_exe()?)
            .args([LOAD, &address.to_string()])
            .stdin(Stdio::null())
            .spawn()?;
        log(format_args!(
            "open http://{address}/dashboard; every few seconds a worker is killed, clients leave, or \
             all workers are replaced"
        ));
        Ok(Self(child))
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        // The child may have ended by itself, because Ctrl-C reaches all processes of a terminal.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub fn run_load(mut arguments: impl Iterator<Item = impl AsRef<OsStr>>) -> Option<ExitCode> {
    arguments.next().filter(|first| first.as_ref() == LOAD)?;
    let address = arguments.next()?;
    let server: SocketAddr = address.as_ref().to_str()?.parse().ok()?;
    Load::new(server)?.run();
    Some(ExitCode::SUCCESS)
}
