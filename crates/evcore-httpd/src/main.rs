//! The program `httpd`, an HTTP server. It calls `run` of the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    evcore_httpd::run()
}
