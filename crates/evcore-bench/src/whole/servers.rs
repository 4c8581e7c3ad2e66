//! The servers: how each is built and started, with one worker.

use std::error::Error;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::{fs, io};

use crate::accept::launch::Launch;
use crate::accept::{nginx, pace};
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
#[derive(Debug)]
pub(super) struct Program {
    pub(super) name: &'static str,
    path: PathBuf,
    /// Where it may have a configuration file.
    folder: PathBuf,
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
    let folder = run.folder.join("whole");
    // nginx resolves a relative path from a directory of its own.
    let folder = std::path::absolute(&folder).unwrap_or(folder);
    let mut programs = Vec::new();
    let mut add = |name, built: Result<PathBuf, Box<dyn Error>>| match built {
        Ok(path) => programs.push(Program {
            name,
            path,
            folder: folder.clone(),
        }),
        Err(error) => report.absent(name, &error.to_string()),
    };
    add(BARE, bare(&folder));
    add(HTTPD, Ok(run.httpd.clone()));
    let installed = nginx::version().ok_or("it is not installed");
    add(NGINX, installed.map(|_| "nginx".into()).map_err(Into::into));
    let peers = folder.join("peers");
    let built = build_peers(&peers).map_err(|error| error.to_string());
    for (name, program) in PEERS {
        let path = || peers.join("release").join(program);
        add(name, built.clone().map(|()| path()).map_err(Into::into));
    }
    if let Some(version) = nginx::version() {
        report.versions.insert(NGINX.to_owned(), version);
    }
    programs
}

fn bare(folder: &Path) -> Result<PathBuf, Box<dyn Error>> {
    fs::create_dir_all(folder)?;
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

fn finish(command: &mut Command) -> Result<(), Box<dyn Error>> {
    let status = command.status()?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{:?}: {status}", command.get_program()).into())
    }
}

impl Program {
    /// Starts it, and waits until it serves.
    pub(super) fn start(&self, launch: Launch) -> io::Result<Server> {
        // nginx cannot print a port that the kernel has chosen, so none of them is asked for that.
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let mut command = launch.command(&self.path);
        match self.name {
            BARE => command.arg(address.port().to_string()),
            HTTPD => command.args(["--workers", "0", "--listen", &address.to_string()]),
            NGINX => command.arg("-c").arg(nginx_config(&self.folder, address)?),
            _ => command.arg(address.to_string()),
        };
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

fn nginx_config(folder: &Path, address: SocketAddr) -> io::Result<PathBuf> {
    let config = folder.join("nginx.conf");
    let folder = folder.display();
    let text = format!(
        "master_process off; daemon off; pid {folder}/pid; error_log {folder}/error.log;\n\
         events {{ worker_connections 10240; }}\n\
         http {{ access_log off; keepalive_requests 1000000000;\n\
         client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};\n\
         uwsgi_temp_path {folder}; scgi_temp_path {folder};\n\
         server {{ listen {address} backlog=1024; default_type text/plain;\n\
         location / {{ return 200 \"Hello, World!\"; }} }} }}\n"
    );
    fs::write(&config, text)?;
    Ok(config)
}

impl Server {
    pub(super) fn pid(&self) -> u32 {
        self.process.id()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
