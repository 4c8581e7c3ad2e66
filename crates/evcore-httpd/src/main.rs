//! The program `httpd`: the library's `run`.

use std::process::ExitCode;

fn main() -> ExitCode {
    evcore_httpd::run()
}
