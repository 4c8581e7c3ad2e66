//! The program `evcore-replay`, which repeats the run of a recorded worker of `httpd`. It calls
//! `replay` of the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    evcore_httpd::replay()
}
