//! Servers under test: started, pinned to CPU 0, and ended.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::Result;
use crate::workspace::Workspace;

/// A master process, and the address that it serves. Ends with this value.
#[derive(Debug)]
pub(super) struct Serving {
    master: Child,
    pub(super) address: String,
}

impl Serving {
    /// The example server.
    pub(super) fn httpd(program: &Path, options: &[&str], pinned: bool) -> Result<Serving> {
        let mut command = if pinned {
            on_cpu_0(program)
        } else {
            Command::new(program)
        };
        command.args(["--listen", "127.0.0.1:0"]).args(options);
        let mut master = command.stderr(Stdio::piped()).spawn()?;
        let stderr = master.stderr.take().expect("it was asked for");
        let line = BufReader::new(stderr).lines().next().transpose()?;
        let address = line
            .as_deref()
            .and_then(|line| line.strip_prefix("listening on "));
        let address = address.ok_or("httpd does not listen")?.to_owned();
        Ok(Serving { master, address })
    }

    /// nginx with one worker, which answers like the example server: `return 200`, no access log.
    pub(super) fn nginx(dir: &Path) -> Result<Serving> {
        fs::create_dir_all(dir)?;
        let port = free_port()?;
        let config = dir.join("nginx.conf");
        fs::write(&config, nginx_config(dir, port))?;
        let mut command = on_cpu_0(Path::new("nginx"));
        let master = command
            .arg("-c")
            .arg(&config)
            .stderr(Stdio::null())
            .spawn()?;
        let address = format!("127.0.0.1:{port}");
        let serving = Serving { master, address };
        serving.wait_until_it_listens()?;
        Ok(serving)
    }

    /// The worker, where there is one.
    pub(super) fn worker(&self) -> Result<u32> {
        let pid = self.master.id();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
        let first = children
            .split_whitespace()
            .next()
            .ok_or("it has no worker")?;
        Ok(first.parse()?)
    }

    fn wait_until_it_listens(&self) -> Result {
        let deadline = Instant::now() + Duration::from_secs(10);
        while std::net::TcpStream::connect(&self.address).is_err() {
            if Instant::now() > deadline {
                return Err(format!("nothing listens on {}", self.address).into());
            }
            std::thread::yield_now();
        }
        Ok(())
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let term = Command::new("kill")
            .arg(self.master.id().to_string())
            .status();
        if term.is_ok() {
            let _ = self.master.wait();
        }
    }
}

/// The release build of the example server.
pub(crate) fn build(workspace: &Workspace) -> Result<PathBuf> {
    let words = ["build", "--release", "-p", "evcore-httpd", "--bin", "httpd"];
    let status = Command::new("cargo")
        .args(words)
        .current_dir(&workspace.root)
        .status()?;
    if !status.success() {
        return Err("httpd does not build".into());
    }
    Ok(workspace.target_dir.join("release/httpd"))
}

fn on_cpu_0(program: &Path) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", "0"]).arg(program);
    command
}

fn free_port() -> Result<u16> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?
        .local_addr()?
        .port())
}

fn nginx_config(dir: &Path, port: u16) -> String {
    let dir = dir.display();
    format!(
        "worker_processes 1; daemon off; pid {dir}/pid; error_log {dir}/error.log;\n\
         events {{ worker_connections 4096; }}\n\
         http {{ access_log off; keepalive_requests 1000000000;\n\
         client_body_temp_path {dir}; proxy_temp_path {dir}; fastcgi_temp_path {dir};\n\
         uwsgi_temp_path {dir}; scgi_temp_path {dir};\n\
         server {{ listen 127.0.0.1:{port}; location / {{ return 200 \"Hello, World!\"; }} }} }}\n"
    )
}
