//! The program `httpd`, which calls `run` of the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    evcore_httpd::run()
}
