//! The program `evcore-replay`, which calls `replay` of the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    evcore_httpd::replay()
}
