//! The servers: how each is built, configured and started, with its worker processes.

use std::fs::{self, File};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command};

use rustix::process::Signal;

use crate::cpus::{cpus, on_cpu};
use crate::report::Report;
use crate::run::{self, Run};
use crate::{pace, process};

/// A server that can be started.
pub(crate) struct Program {
    pub(crate) name: &'static str,
    path: PathBuf,
    /// Its arguments, between spaces. In each, and in the text of its configuration, `ADDRESS`,
    /// `PORT`, `WORKERS`, `FOLDER` and `CONFIG` (a file) stand for their values.
    words: String,
    config: String,
    /// Where its files are.
    folder: PathBuf,
}

/// A server that serves. All of it ends with its value.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) name: &'static str,
    pub(crate) address: SocketAddr,
    /// How many workers it was asked for; 0 if it has one worker in any case, or does all by itself.
    pub(crate) workers: usize,
    process: Child,
}

/// An address that nothing uses. Not every server can print the port that the kernel has chosen.
pub(crate) fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind("127.0.0.1:0")?.local_addr()
}

/// The example server with more words.
pub(crate) fn httpd(run: &Run, name: &'static str, words: &str) -> Program {
    let words = format!("--listen ADDRESS --workers WORKERS {words}");
    Program::new(run, name, &run.httpd, words)
}

/// nginx with more lines in its blocks. Its version is recorded, or its absence.
pub(crate) fn nginx(
    (run, report): (&Run, &mut Report),
    name: &'static str,
    [events, http, server, location]: [&str; 4],
) -> Program {
    run::program_version(report, "nginx", "nginx");
    let config = format!(
        "daemon off; pid \"FOLDER/pid\"; error_log \"FOLDER/error.log\";\n\
         master_process MASTER; worker_processes WORKERS;\n\
         events {{ worker_connections 10240; {events} }}\n\
         http {{ access_log off; keepalive_requests 1000000000; {http}\n\
         client_body_temp_path \"FOLDER\"; proxy_temp_path \"FOLDER\";\n\
         fastcgi_temp_path \"FOLDER\"; uwsgi_temp_path \"FOLDER\"; scgi_temp_path \"FOLDER\";\n\
         server {{ listen ADDRESS {server}; location / {{ {location} }} }} }}\n"
    );
    Program::new(run, name, "nginx", "-c CONFIG").with_config(config)
}

/// The bare epoll loop in C, with one more word.
///
/// # Errors
///
/// The reason why it cannot be built.
pub(crate) fn bare(run: &Run, name: &'static str, word: &str) -> Result<Program, String> {
    let program = folder(run).join("bare");
    let source = run::root().join("crates/evcore-bench/c/bare.c");
    let mut compiler = Command::new("cc");
    finish(compiler.arg("-O2").arg("-o").arg(&program).arg(source))?;
    Ok(Program::new(
        run,
        name,
        program,
        format!("PORT WORKERS {word}"),
    ))
}

/// A program of the workspace `peers`, whose argument is the address.
pub(crate) fn peer(run: &Run, name: &'static str, program: &str) -> Result<Program, String> {
    let target = folder(run).join("peers");
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--release", "--locked", "--bin", program]);
    cargo.current_dir(run::root().join("crates/evcore-bench/peers"));
    finish(cargo.arg("--target-dir").arg(&target))?;
    let path = target.join("release").join(program);
    Ok(Program::new(run, name, path, "ADDRESS"))
}

/// An example of a crate.
pub(crate) fn example(
    run: &Run,
    package: &str,
    name: &'static str,
    words: impl Into<String>,
) -> Result<Program, String> {
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--release", "-p", package, "--example", name]);
    finish(cargo.current_dir(run::root()))?;
    let path = run.httpd.with_file_name("examples").join(name);
    Ok(Program::new(run, name, path, words))
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

impl Program {
    pub(crate) fn new(
        run: &Run,
        name: &'static str,
        path: impl Into<PathBuf>,
        words: impl Into<String>,
    ) -> Program {
        Program {
            name,
            path: path.into(),
            words: words.into(),
            config: String::new(),
            folder: folder(run),
        }
    }

    pub(crate) fn with_config(self, config: String) -> Program {
        Program { config, ..self }
    }

    /// Starts it on the CPU of the servers, and waits until it serves.
    ///
    /// # Errors
    ///
    /// The reason why it does not serve.
    pub(crate) fn start(&self, workers: usize) -> Result<Server, String> {
        self.start_on(cpus()[0], workers)
    }

    pub(crate) fn start_on(&self, cpu: usize, workers: usize) -> Result<Server, String> {
        let mut server = self.launch(cpu, workers).map_err(|it| it.to_string())?;
        let mut is_alive = true;
        pace::until(|| {
            is_alive = matches!(server.process.try_wait(), Ok(None));
            !is_alive || (server.is_whole() && TcpStream::connect(server.address).is_ok())
        });
        if !is_alive || !server.is_whole() {
            return Err(format!(
                "it does not serve; see its log in {:?}",
                self.folder
            ));
        }
        server.wait_until_idle();
        Ok(server)
    }

    /// Starts it, without waiting.
    pub(crate) fn launch(&self, cpu: usize, workers: usize) -> io::Result<Server> {
        let address = free_address()?;
        let file = |end: &str| self.folder.join(format!("{}.{end}", self.name));
        let (config, log) = (file("conf"), File::create(file("log"))?);
        let fill = |text: &str| {
            text.replace("ADDRESS", &address.to_string())
                .replace("PORT", &address.port().to_string())
                .replace("WORKERS", &workers.to_string())
                .replace("MASTER", if workers == 0 { "off" } else { "on" })
                .replace("FOLDER", &self.folder.display().to_string())
                .replace("CONFIG", &config.display().to_string())
        };
        fs::write(&config, fill(&self.config))?;
        let mut command = on_cpu(cpu, &self.path);
        command.args(self.words.split_whitespace().map(fill));
        command.stdout(log.try_clone()?).stderr(log);
        Ok(Server {
            name: self.name,
            address,
            workers,
            process: command.spawn()?,
        })
    }
}

impl Server {
    /// The process ids of the workers that there are now, or of the only process.
    pub(crate) fn pids(&self) -> Vec<u32> {
        let workers = process::children(self.process.id());
        if self.workers == 0 && workers.is_empty() {
            return vec![self.process.id()];
        }
        workers
    }

    /// Whether it has all its workers.
    pub(crate) fn is_whole(&self) -> bool {
        self.pids().len() == self.workers.max(1)
    }

    /// Waits until every worker is asleep.
    ///
    /// Over loopback, a worker that is woken by a connection or by bytes is awake by the time that
    /// sending them returns. So when all are asleep again, all that followed from it is done.
    ///
    /// # Panics
    ///
    /// If one never sleeps: it spins.
    pub(crate) fn wait_until_idle(&self) {
        let pids = self.pids();
        let are_asleep = || pids.iter().all(|pid| process::is_asleep(*pid));
        // Twice: one may have woken another that was looked at before.
        let rests = pace::soon(|| are_asleep() && are_asleep());
        assert!(rests, "{}: workers {pids:?} never sleep", self.name);
    }

    /// How often its workers have gone to sleep, together.
    pub(crate) fn sleeps(&self) -> u64 {
        self.pids().into_iter().map(process::sleeps).sum()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let master = self.process.id();
        let pids = process::children(master);
        for pid in pids.iter().chain([&master]) {
            process::signal(*pid, Signal::CONT);
        }
        process::signal(master, Signal::TERM);
        if !pace::until(|| !matches!(self.process.try_wait(), Ok(None))) {
            for pid in pids.iter().chain([&master]) {
                process::signal(*pid, Signal::KILL);
            }
        }
        let _ = self.process.wait();
    }
}
