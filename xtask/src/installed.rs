//! Finds tests and steps that did not run although `.ci/run` has installed the program that they
//! need.

use std::env;

use crate::Result;

/// The variable in which `.ci/run` lists the packages that are installed, separated by spaces.
const INSTALLED: &str = "EVCORE_CI_INSTALLED";

/// Packages whose programs have other names, with those names.
const PROGRAMS: [(&str, &str); 6] = [
    ("apache2-utils", "ab"),
    ("chromium-driver", "chromedriver"),
    ("iproute2", "ss"),
    ("nghttp2-client", "h2load"),
    ("nghttp2-client", "nghttp"),
    ("prometheus", "promtool"),
];

/// Checks the lines that list what did not run.
///
/// # Errors
///
/// If a line reports a program as missing or useless although its package is installed.
pub(crate) fn check(not_run: &[String]) -> Result {
    let packages = env::var(INSTALLED).unwrap_or_default();
    let wrong = contradicted(not_run, &packages);
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(format!("did not run, but is installed:\n{}", wrong.join("\n")).into()),
    }
}

fn contradicted<'a>(not_run: &'a [String], packages: &str) -> Vec<&'a str> {
    let packages: Vec<&str> = packages.split_whitespace().collect();
    let is_here = |word: &str| {
        let of_package = PROGRAMS.iter().find(|(_, program)| *program == word);
        packages.contains(&of_package.map_or(word, |(package, _)| package))
    };
    let lines = not_run.iter().map(String::as_str);
    lines
        .filter(|line| line.contains("not installed") && words(line).any(is_here))
        .collect()
}

/// Splits a line at blanks, and at punctuation other than hyphens.
fn words(line: &str) -> impl Iterator<Item = &str> {
    let word = |letter: char| letter.is_alphanumeric() || letter == '-';
    line.split(move |letter| !word(letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skip_for_an_installed_program_is_contradicted() {
        let lines = [
            "requests: strace is not installed, or may not trace",
            "load: ab is not installed",
            "shown: chromium is not installed",
            "activation: systemd-socket-activate is not installed",
            "targets: Debian's packages rustc-web cargo-web rust-web-src are not installed",
            "strace: left to `cargo xtask nightly`",
        ]
        .map(str::to_owned);
        let packages = "strace apache2-utils rust-web-src chromium-driver";
        let wrong = contradicted(&lines, packages);
        assert_eq!(wrong, [0, 1, 4].map(|at| lines[at].as_str()));
        assert!(contradicted(&lines, "").is_empty());
    }
}
