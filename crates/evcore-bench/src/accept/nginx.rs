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
) -> io::Result<(SocketAddr, String)> {
    // It cannot be asked which port it took. That another takes this one meanwhile is unlikely, and
    // then nothing is measured.
    let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let (mutex, options) = match accepting {
        Accepting::Default => ("off", ""),
        Accepting::Mutex => ("on", ""),
        Accepting::ReusePort => ("off", " reuseport"),
    };
    let main = format!("worker_processes {workers}; daemon off;");
    let events = format!("accept_mutex {mutex}; accept_mutex_delay 500ms;");
    let server = format!("listen {address}{options}; location / {{ return 200 \"$pid\"; }}");
    let config = configure(folder, &main, &events, "", &server)?;
    Ok((address, config))
}

/// Writes its configuration, whose parts have these lines, into a folder. Returns the path.
pub(crate) fn configure(
    folder: &Path,
    main: &str,
    events: &str,
    http: &str,
    server: &str,
) -> io::Result<String> {
    fs::create_dir_all(folder)?;
    let folder = folder.display();
    let path = format!("{folder}/nginx.conf");
    let text = format!(
        "{main} pid {folder}/pid; error_log {folder}/error.log;\n\
         events {{ worker_connections 10240; {events} }}\n\
         http {{ access_log off; keepalive_requests 1000000000; {http}\n\
         client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};\n\
         uwsgi_temp_path {folder}; scgi_temp_path {folder};\n\
         server {{ {server} }} }}\n"
    );
    fs::write(&path, text)?;
    Ok(path)
}
