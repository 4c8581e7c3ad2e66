//! The machine and the versions, which stand beside the figures.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::Result;

/// The crates that are peers, and of which part.
const CRATES: &[(&str, &str)] = &[
    ("clock", "coarsetime"),
    ("posted", "crossbeam-channel"),
    ("posted", "crossbeam-queue"),
    ("timers", "hierarchical_hash_wheel_timer"),
    ("clock", "httpdate"),
    ("pollers", "mio"),
    ("pollers", "polling"),
    ("clock", "quanta"),
    ("timers", "tokio"),
    ("timers", "tokio-util"),
];

/// Where a run was made.
#[derive(Clone, Debug, Default)]
pub(super) struct Machine {
    pub(super) cpu: String,
    pub(super) cpus: usize,
    pub(super) kernel: String,
    pub(super) rustc: String,
    /// The crates that are peers of the part, with their versions.
    pub(super) crates: Vec<(String, String)>,
    pub(super) load_before: String,
    pub(super) load_after: String,
}

impl Machine {
    /// Looks at this machine, and at the lock file in `root` for the peers of a part.
    pub(super) fn look(root: &Path, part: &str) -> Result<Machine> {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let load = load();
        Ok(Machine {
            cpu: cpu_model(&cpuinfo),
            cpus: std::thread::available_parallelism()?.get(),
            kernel: printed("uname", &["-sr"]),
            rustc: printed("rustc", &["--version"]),
            crates: versions(part, &fs::read_to_string(root.join("Cargo.lock"))?),
            load_before: load.clone(),
            load_after: load,
        })
    }
}

/// The load averages of 1, 5 and 15 minutes, as the system prints them.
pub(super) fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_else(|_| "unknown".to_owned());
    let words: Vec<&str> = text.split_whitespace().take(3).collect();
    words.join(" ")
}

fn cpu_model(cpuinfo: &str) -> String {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"));
    let model = line.and_then(|line| line.split_once(": "));
    model.map_or_else(|| "unknown".to_owned(), |(_, model)| model.to_owned())
}

/// The versions of a part's peers in the text of a lock file.
fn versions(part: &str, lock: &str) -> Vec<(String, String)> {
    let packages = lock.split("[[package]]").skip(1);
    let named = packages.filter_map(|package| {
        let (name, version) = (field(package, "name")?, field(package, "version")?);
        CRATES
            .contains(&(part, name))
            .then(|| (name.to_owned(), version.to_owned()))
    });
    named.collect()
}

fn field<'a>(package: &'a str, key: &str) -> Option<&'a str> {
    let mut lines = package.lines().filter_map(|line| line.split_once(" = "));
    lines
        .find(|(name, _)| *name == key)
        .map(|(_, value)| value.trim_matches('"'))
}

fn printed(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output();
    let bytes = output.map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&bytes).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_the_lock_file() {
        let lock = "version = 4\n\n[[package]]\nname = \"quanta\"\nversion = \"0.12.6\"\n\n\
                    [[package]]\nname = \"slab\"\nversion = \"0.4.12\"\n";
        let expected = [("quanta".to_owned(), "0.12.6".to_owned())];
        assert_eq!(versions("clock", lock), expected);
        assert_eq!(versions("timers", lock), []);
    }

    #[test]
    fn the_model_is_read_from_the_first_cpu() {
        let text = "processor\t: 0\nmodel name\t: A CPU @ 2 GHz\nmodel name\t: another\n";
        assert_eq!(cpu_model(text), "A CPU @ 2 GHz");
        assert_eq!(cpu_model(""), "unknown");
    }
}
