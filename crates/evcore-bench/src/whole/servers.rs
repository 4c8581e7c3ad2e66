//! The servers: how each is built and started, with one worker.

use std::error::Error;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::{fs, io};

use crate::accept::launch::Launch;
use crate::accept::{nginx, pace, process};
use crate::report::Report;
use crate::run::{self, Run};

/// In C.
pub(super) const BARE: &str = "bare epoll";
pub(super) const HTTPD: &str = "httpd";
pub(super) const NGINX: &str = "nginx";

/// The servers of the workspace `peers`, with their programs.
const PEERS: [(&str, &str); 3] = [
    ("hyper", "hyper-hello"),
    ("actix-web", "actix-hello"),
    ("may_minihttp", "may-hello"),
];

/// A server that can be started.
pub(super) struct Program {
    pub(super) name: &'static str,
    path: PathBuf,
    /// The words after the path, for the address on which it serves.
    args: Box<dyn Fn(SocketAddr) -> io::Result<Vec<String>>>,
}

/// A server that serves. It ends with this value.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) name: &'static str,
    pub(super) address: SocketAddr,
    process: Child,
}

/// Builds the servers. Those that cannot be built are absent.
pub(super) fn programs(run: &Run, report: &mut Report) -> Vec<Program> {
    let folder = folder(run);
    let mut programs = Vec::new();
    match bare(&folder) {
        Ok(path) => programs.push(Program::new(BARE, path, |it| {
            Ok(vec![it.port().to_string()])
        })),
        Err(error) => report.absent(BARE, &error.to_string()),
    }
    programs.push(httpd(run));
    let peers = folder.join("peers");
    let location = "default_type text/plain; location / { return 200 \"Hello, World!\"; }";
    programs.extend(nginx(&folder, String::new(), location, report));
    let built = build_peers(&peers);
    for (name, program) in PEERS {
        match &built {
            Ok(()) => {
                let path = peers.join("release").join(program);
                programs.push(Program::new(name, path, |it| Ok(vec![it.to_string()])));
            }
            Err(error) => report.absent(name, &error.to_string()),
        }
    }
    programs
}

/// Where servers have files.
pub(super) fn folder(run: &Run) -> PathBuf {
    let folder = run.folder.join("whole");
    // If it cannot be made, a server does not start.
    let _ = fs::create_dir_all(&folder);
    // nginx resolves a relative path from a directory of its own.
    std::path::absolute(&folder).unwrap_or(folder)
}

pub(super) fn httpd(run: &Run) -> Program {
    let args = |it: SocketAddr| ["--workers", "0", "--listen", &it.to_string()].map(str::to_owned);
    Program::new(HTTPD, run.httpd.clone(), move |it| Ok(args(it).into()))
}

fn bare(folder: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let program = folder.join("bare");
    let source = run::root().join("crates/evcore-bench/c/whole/bare.c");
    let mut command = Command::new("cc");
    command.arg("-O2").arg("-o").arg(&program).arg(source);
    finish(&mut command)?;
    Ok(program)
}

fn build_peers(target: &Path) -> Result<(), Box<dyn Error>> {
    let manifest = run::root().join("crates/evcore-bench/peers/Cargo.toml");
    let mut command = Command::new("cargo");
    command
        .args(["build", "--release", "--locked", "--manifest-path"])
        .arg(manifest)
        .arg("--target-dir")
        .arg(target);
    finish(&mut command)
}

/// Builds an example of a crate, and returns its path.
pub(super) fn example(run: &Run, package: &str, name: &str) -> Result<PathBuf, Box<dyn Error>> {
    let mut command = Command::new("cargo");
    command.args(["build", "--release", "-p", package, "--example", name]);
    finish(command.current_dir(run::root()))?;
    Ok(run.httpd.with_file_name("examples").join(name))
}

fn finish(command: &mut Command) -> Result<(), Box<dyn Error>> {
    let status = command.status()?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{:?}: {status}", command.get_program()).into())
    }
}

impl Program {
    pub(super) fn new(
        name: &'static str,
        path: PathBuf,
        args: impl Fn(SocketAddr) -> io::Result<Vec<String>> + 'static,
    ) -> Program {
        let args = Box::new(args);
        Program { name, path, args }
    }

    /// Starts it, and waits until it serves.
    pub(super) fn start(&self, launch: Launch) -> io::Result<Server> {
        // nginx cannot print a port that the kernel has chosen, so none of them is asked for that.
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let mut command = launch.command(&self.path);
        command.args((self.args)(address)?);
        command.stdin(Stdio::null()).stderr(Stdio::null());
        let server = Server {
            name: self.name,
            address,
            process: command.spawn()?,
        };
        if pace::until(|| TcpStream::connect(address).is_ok()) {
            Ok(server)
        } else {
            Err(io::Error::other("it does not serve"))
        }
    }
}

/// nginx with a location, and what else the configuration of HTTP has. `None` if it is not installed.
pub(super) fn nginx(
    folder: &Path,
    http: String,
    location: &'static str,
    report: &mut Report,
) -> Option<Program> {
    let Some(version) = nginx::version() else {
        report.absent(NGINX, "it is not installed");
        return None;
    };
    report.versions.insert(NGINX.to_owned(), version);
    let folder = folder.to_owned();
    Some(Program::new(NGINX, "nginx".into(), move |address| {
        let main = "master_process off; daemon off;";
        let server = format!("listen {address} backlog=1024; {location}");
        let config = nginx::configure(&folder, main, "", &http, &server)?;
        Ok(vec!["-c".to_owned(), config])
    }))
}

impl Server {
    /// The process that serves: a worker, or the only one.
    pub(super) fn pid(&self) -> u32 {
        let workers = process::children(self.process.id());
        workers.first().copied().unwrap_or(self.process.id())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
