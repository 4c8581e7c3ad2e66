//! One run: the rounds in which peers alternate, the time of an operation, and the machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Instant, SystemTime};

use evcore_clock::stamp;
use rustix::time::{ClockId, clock_gettime};

use crate::parts::Part;
use crate::report::Report;

/// The options of the command line.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    /// One round, with fewer operations: shows that everything works.
    pub(crate) quick: bool,
    /// The directory of the results, and of what tools leave.
    pub(crate) folder: PathBuf,
    /// The example server, for the parts that start it.
    pub(crate) httpd: PathBuf,
    /// How often each peer is measured.
    pub(crate) rounds: usize,
}

impl Run {
    /// Runs `round` as often as there are rounds. All peers take turns within a round, so
    /// that a disturbance meets all of them.
    pub(crate) fn rounds(&self, what: &str, mut round: impl FnMut()) {
        for number in 1..=self.rounds {
            eprintln!("{what}: round {number} of {}", self.rounds);
            round();
        }
    }

    /// `full`, or a twentieth of it in a quick run.
    pub(crate) fn scaled(&self, full: usize) -> usize {
        if self.quick { full.div_ceil(20) } else { full }
    }

    /// Runs a part, and writes its report.
    pub(crate) fn part(&mut self, part: &Part) -> std::io::Result<()> {
        self.rounds = if self.quick { 1 } else { part.rounds };
        let (mut report, began) = (Report::new(part.name), Instant::now());
        // Before, because a part may confine this thread to one CPU.
        let (machine, load) = (machine(), load());
        (part.measure)(self, &mut report);
        let mut context = |name: &str, value: String| report.context.push((name.to_owned(), value));
        context("commit", commit());
        context("date", today());
        context("machine", machine);
        context("compiler", printed("rustc", &["--version"]));
        context(
            "load average",
            format!("{load} before, {} after", self::load()),
        );
        context("rounds", self.rounds.to_string());
        context("duration", format!("{} s", began.elapsed().as_secs()));
        report.write(&self.report(part.name))
    }

    /// The file of a part's report.
    pub(crate) fn report(&self, part: &str) -> PathBuf {
        self.folder.join(format!("{part}.json"))
    }
}

/// Nanoseconds of this thread's CPU time that each of `operations` takes: the time of other
/// processes is not in it. Costs two system calls, so `work` must last much longer.
pub(crate) fn ns_each(operations: usize, work: impl FnOnce()) -> f64 {
    let start = cpu_ns();
    work();
    each(cpu_ns() - start, operations)
}

/// The share of each of `operations`.
pub(crate) fn each(whole: u64, operations: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let each = whole as f64 / operations.max(1) as f64;
    each
}

/// This thread's CPU time.
pub(crate) fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).expect("it counts from 0")
}

/// The root of the source tree.
pub(crate) fn root() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = package.ancestors().nth(2);
    root.expect("it is in `crates`").to_owned()
}

/// The versions of crates, from the lock file.
pub(crate) fn crate_versions(report: &mut Report, names: &[&str]) {
    let lock = fs::read_to_string(root().join("Cargo.lock")).unwrap_or_default();
    for name in names {
        let entry = format!("name = \"{name}\"\nversion = \"");
        let version = lock
            .split_once(&entry)
            .and_then(|(_, it)| it.split('"').next());
        let version = version.unwrap_or("unknown").to_owned();
        report.versions.insert((*name).to_owned(), version);
    }
}

/// The version of a program: the first word of what it prints for `-v` that begins with a digit.
/// Nothing is recorded if it is not installed.
pub(crate) fn program_version(report: &mut Report, name: &str, program: &str) {
    let Ok(output) = Command::new(program).arg("-v").output() else {
        return;
    };
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let mut words = text.split([' ', '/', '\n']);
    let version = words.find(|word| word.starts_with(|c: char| c.is_ascii_digit()));
    let version = version.unwrap_or("unknown").to_owned();
    report.versions.insert(name.to_owned(), version);
}

fn commit() -> String {
    printed("git", &["describe", "--always", "--dirty", "--exclude=*"])
}

fn today() -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let seconds = since.map_or(0, |since| since.as_secs());
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
    stamp::iso8601(seconds, 0).as_str().to_owned()
}

/// The processor, how many CPUs there are, and the kernel.
fn machine() -> String {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let mut models = cpuinfo
        .lines()
        .filter(|line| line.starts_with("model name"));
    let model = models.next().and_then(|line| line.split_once(": "));
    let model = model.map_or("unknown CPU", |(_, model)| model);
    // Not those of this thread, which an earlier part may have confined to one.
    let cpus = cpuinfo.lines().filter(|line| line.starts_with("processor"));
    let cpus = cpus.count();
    format!("{model}, {cpus} CPUs, {}", printed("uname", &["-sr"]))
}

fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let words: Vec<&str> = text.split_whitespace().take(2).collect();
    words.join(" ")
}

/// What a program prints; nothing if it does not run.
fn printed(program: &str, args: &[&str]) -> String {
    let output = Command::new(program)
        .args(args)
        .current_dir(root())
        .output();
    let bytes = output.map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&bytes).trim().to_owned()
}
