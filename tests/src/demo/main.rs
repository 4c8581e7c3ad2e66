//! Shows the dashboard: a server under an uneven load, of which a worker is killed every few seconds.
//!
//!     cargo xtask demo --seconds 120
//!
//! `cargo xtask screenshots` runs it too, and takes pictures of the dashboard meanwhile.

mod load;
mod screenshots;

use std::{
    env, error::Error, io, path::Path, process::Command, sync::Arc, sync::atomic::AtomicBool,
    time::Duration,
};

use evcore_tests::Server;
use load::Load;
use signal_hook::{
    consts::{SIGINT, SIGTERM},
    flag,
};

fn main() -> Result<(), Box<dyn Error>> {
    let usage = "demo HTTPD SECONDS | demo HTTPD --screenshots DIRECTORY";
    let args: Vec<String> = env::args().skip(1).collect();
    let is_over = ended_by_signals()?;
    match &args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [httpd, "--screenshots", directory] => {
            let server = start(httpd);
            let mut load = Load::new(&server);
            screenshots::take(&server, &mut load, Path::new(directory))?;
        }
        [httpd, seconds] => {
            let time = Duration::from_secs(seconds.parse()?);
            let server = start(httpd);
            let address = server.address();
            println!("http://{address}/dashboard");
            println!("It ends in {seconds} s, or by Ctrl-C.");
            Load::new(&server).run(time, &is_over);
        }
        _ => return Err(usage.into()),
    }
    Ok(())
}

/// Four workers. Dropping the server ends them.
fn start(httpd: &str) -> Server {
    let mut command = Command::new(httpd);
    command.args(["--listen", "127.0.0.1:0", "--workers", "4"]);
    Server::from_command(command, 1)
}

/// A flag that INT and TERM set, so that the server is ended too.
fn ended_by_signals() -> io::Result<Arc<AtomicBool>> {
    let is_over = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        flag::register(signal, Arc::clone(&is_over))?;
    }
    Ok(is_over)
}
