//! 256 clients on two workers that share their listener by the accept mutex.

use std::path::Path;

use super::{serving::Serving, wrk};
use crate::Result;

const CONNECTIONS: u32 = 256;
const SECONDS: u32 = 10;

pub(super) fn run(httpd: &Path) -> Result {
    println!("load: wrk -t1 -c{CONNECTIONS} -d{SECONDS}s on --workers 2 --accept mutex");
    for poller in ["epoll", "poll"] {
        let options = ["--workers", "2", "--accept", "mutex", "--poller", poller];
        let serving = Serving::httpd(httpd, &options, false)?;
        let report = wrk::run(&serving.address, CONNECTIONS, SECONDS)?;
        println!(
            "  {poller}: {} requests, {} socket errors, {} answers other than 2xx",
            report.requests, report.socket_errors, report.bad_answers
        );
        if report.socket_errors + report.bad_answers > 0 {
            return Err(format!("{poller}: there were errors under load").into());
        }
    }
    Ok(())
}
