//! The program `evcore-replay`: the library's `replay`.

use std::process::ExitCode;

fn main() -> ExitCode {
    evcore_httpd::replay()
}
