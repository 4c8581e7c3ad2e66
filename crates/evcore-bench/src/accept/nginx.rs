//! nginx, which answers with the process id of its worker.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{fs, io};

use super::launch::Launch;
use super::server::Server;

/// How its workers accept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Accepting {
    /// Without a lock, as by default.
    Default,
    Mutex,
    ReusePort,
}

/// Its version, where it is installed.
pub(crate) fn version() -> Option<String> {
    let output = Command::new("nginx").arg("-v").output().ok()?;
    let text = String::from_utf8_lossy(&output.stderr);
    text.trim_end().rsplit('/').next().map(str::to_owned)
}

/// Starts it, and waits until it serves.
///
/// # Errors
///
/// What the system refuses, or that nothing serves.
pub(super) fn start(
    accepting: Accepting,
    launch: Launch,
    workers: usize,
) -> Result<Server, String> {
    let folder = folder();
    let started = configured(&folder, accepting, workers).and_then(|(address, config)| {
        let mut command = launch.command("nginx");
        command
            .arg("-c")
            .arg(config)
            .stdin(Stdio::null())
            .stderr(Stdio::null());
        Ok((command.spawn()?, address))
    });
    match started {
        Ok((master, address)) => {
            let mut server = Server::with_master(master, address, workers);
            server.folder = Some(folder);
            server.ready()
        }
        Err(error) => {
            let _ = fs::remove_dir_all(folder);
            Err(format!("nginx: {error}"))
        }
    }
}

/// One for each that is started by this process.
fn folder() -> PathBuf {
    static STARTED: AtomicU32 = AtomicU32::new(0);
    let (pid, n) = (std::process::id(), STARTED.fetch_add(1, Ordering::Relaxed));
    std::env::temp_dir().join(format!("evcore-bench-{pid}-nginx-{n}"))
}

fn configured(
    folder: &Path,
    accepting: Accepting,
    workers: usize,
) -> io::Result<(SocketAddr, PathBuf)> {
    fs::create_dir_all(folder)?;
    // It cannot be asked which port it took. That another takes this one meanwhile is unlikely, and
    // then nothing is measured.
    let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let config = folder.join("nginx.conf");
    fs::write(&config, text(folder, address, accepting, workers))?;
    Ok((address, config))
}

fn text(folder: &Path, address: SocketAddr, accepting: Accepting, workers: usize) -> String {
    let folder = folder.display();
    let mutex = if accepting == Accepting::Mutex {
        "on"
    } else {
        "off"
    };
    let options = if accepting == Accepting::ReusePort {
        " reuseport"
    } else {
        ""
    };
    format!(
        "worker_processes {workers}; daemon off; pid {folder}/pid; error_log {folder}/error.log;\n\
         events {{ worker_connections 10240; accept_mutex {mutex}; accept_mutex_delay 500ms; }}\n\
         http {{ access_log off; keepalive_requests 1000000000;\n\
         client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};\n\
         uwsgi_temp_path {folder}; scgi_temp_path {folder};\n\
         server {{ listen {address}{options}; location / {{ return 200 \"$pid\"; }} }} }}\n"
    )
}
