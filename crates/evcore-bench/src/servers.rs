//! The servers: how each is built and configured.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::report::Report;
use crate::run::{self, Run};
use crate::server::Program;

/// The example server with more words.
pub(crate) fn httpd(run: &Run, name: &'static str, words: &[&str]) -> Program {
    let words: Vec<String> = words.iter().map(|it| (*it).to_owned()).collect();
    Program::new(name, &run.httpd, &folder(run), move |address, workers| {
        let (address, workers) = (address.to_string(), workers.to_string());
        let args = ["--listen", &address, "--workers", &workers];
        Ok(args
            .into_iter()
            .map(str::to_owned)
            .chain(words.clone())
            .collect())
    })
}

/// The lines of nginx's configuration that differ.
#[derive(Clone, Debug, Default)]
pub(crate) struct Nginx {
    pub(crate) events: &'static str,
    pub(crate) http: String,
    /// What follows the address in `listen`.
    pub(crate) listen: &'static str,
    pub(crate) location: String,
}

impl Nginx {
    /// The program. Its version is recorded, or its absence.
    pub(crate) fn program(self, run: &Run, name: &'static str, report: &mut Report) -> Program {
        run::program_version(report, "nginx", "nginx");
        // nginx resolves a relative path from a directory of its own.
        let folder = folder(run).join(name);
        let log = folder.parent().expect("it was just joined").to_owned();
        Program::new(name, "nginx", &log, move |address, workers| {
            fs::create_dir_all(&folder)?;
            let path = folder.join("nginx.conf");
            fs::write(&path, self.text(&folder, address, workers))?;
            Ok(vec!["-c".to_owned(), path.display().to_string()])
        })
    }

    fn text(&self, folder: &Path, address: SocketAddr, workers: usize) -> String {
        let Nginx {
            events,
            http,
            listen,
            location,
        } = self;
        let processes = match workers {
            0 => "master_process off;".to_owned(),
            _ => format!("worker_processes {workers};"),
        };
        let folder = folder.display();
        format!(
            "{processes} daemon off; pid \"{folder}/pid\"; error_log \"{folder}/error.log\";\n\
             events {{ worker_connections 10240; {events} }}\n\
             http {{ access_log off; keepalive_requests 1000000000; {http}\n\
             client_body_temp_path \"{folder}\"; proxy_temp_path \"{folder}\";\n\
             fastcgi_temp_path \"{folder}\"; uwsgi_temp_path \"{folder}\";\n\
             scgi_temp_path \"{folder}\";\n\
             server {{ listen {address} {listen}; location / {{ {location} }} }} }}\n"
        )
    }
}

/// The bare epoll loop in C, with one more word.
///
/// # Errors
///
/// The reason why it cannot be built.
pub(crate) fn bare(run: &Run, name: &'static str, word: &'static str) -> Result<Program, String> {
    let program = folder(run).join("bare");
    let source = run::root().join("crates/evcore-bench/c/bare.c");
    let mut compiler = Command::new("cc");
    finish(compiler.arg("-O2").arg("-o").arg(&program).arg(source))?;
    Ok(Program::new(
        name,
        program,
        &folder(run),
        move |address, workers| {
            let [port, workers] = [address.port().to_string(), workers.to_string()];
            Ok(vec![port, workers, word.to_owned()])
        },
    ))
}

/// A program of the workspace `peers`, whose argument is the address.
pub(crate) fn peer(run: &Run, name: &'static str, program: &str) -> Result<Program, String> {
    let target = folder(run).join("peers");
    let mut cargo = Command::new("cargo");
    cargo.args([
        "build",
        "--release",
        "--locked",
        "--bin",
        program,
        "--manifest-path",
    ]);
    cargo.arg(run::root().join("crates/evcore-bench/peers/Cargo.toml"));
    finish(cargo.arg("--target-dir").arg(&target))?;
    let path = target.join("release").join(program);
    Ok(Program::new(name, path, &folder(run), |address, _| {
        Ok(vec![address.to_string()])
    }))
}

/// An example of a crate, whose arguments are made from the address.
pub(crate) fn example(
    run: &Run,
    package: &str,
    name: &'static str,
    args: impl Fn(SocketAddr) -> Vec<String> + 'static,
) -> Result<Program, String> {
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--release", "-p", package, "--example", name]);
    finish(cargo.current_dir(run::root()))?;
    let path = run.httpd.with_file_name("examples").join(name);
    Ok(Program::new(name, path, &folder(run), move |address, _| {
        Ok(args(address))
    }))
}

/// Where servers have files.
pub(crate) fn folder(run: &Run) -> PathBuf {
    let folder = run.folder.join("servers");
    // If it cannot be made, a server does not start.
    let _ = fs::create_dir_all(&folder);
    std::path::absolute(&folder).unwrap_or(folder)
}

fn finish(command: &mut Command) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{:?}: {status}", command.get_program())),
        Err(error) => Err(format!("{:?}: {error}", command.get_program())),
    }
}
