//! One run: the rounds in which peers alternate, the time of an operation, and the machine.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;
use std::{fs, io};

use rustix::time::{ClockId, clock_gettime};

use crate::page::Part;
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
    pub(crate) fn part(&mut self, part: &Part, measure: fn(&Run, &mut Report)) -> io::Result<()> {
        self.rounds = if self.quick { 1 } else { part.rounds };
        let (mut report, began) = (Report::default(), Instant::now());
        let commit = printed("git", "describe --always --dirty --exclude=*");
        let (date, load_before) = (printed("date", "-u +%FT%T+00:00"), load());
        measure(self, &mut report);
        let context = [
            ("commit", commit),
            ("date", date),
            ("machine", machine()),
            ("compiler", printed("rustc", "--version")),
            (
                "load average",
                format!("{load_before} before, {} after", load()),
            ),
            ("rounds", self.rounds.to_string()),
            ("duration", format!("{} s", began.elapsed().as_secs())),
        ];
        for (peer, line) in &part.versions {
            let version = version(line).map(|version| (peer.clone(), version));
            report.versions.extend(version);
        }
        report.context = context.map(|(name, it)| (name.to_owned(), it)).into();
        fs::write(self.file(&part.name), serde_json::to_vec_pretty(&report)?)
    }

    /// Reads a part's report; `None` if there is none.
    pub(crate) fn read(&self, part: &str) -> io::Result<Option<Report>> {
        match fs::read(self.file(part)) {
            Ok(text) => Ok(Some(serde_json::from_slice(&text)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The file of a part's report.
    pub(crate) fn file(&self, part: &str) -> PathBuf {
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
    whole as f64 / operations.max(1) as f64
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

/// The processor, how many CPUs there are, and the kernel.
fn machine() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let mut models = info.lines().filter_map(|it| it.strip_prefix("model name"));
    let model = models.next().unwrap_or("unknown CPU");
    let model = model.trim_start_matches(['\t', ':', ' ']);
    // All, also if a part has confined this thread to one.
    let cpus = printed("nproc", "--all");
    format!("{model}, {cpus} CPUs, {}", printed("uname", "-sr"))
}

fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let words: Vec<&str> = text.split_whitespace().take(2).collect();
    words.join(" ")
}

/// What a program prints; nothing if it does not run.
fn printed(program: &str, words: &str) -> String {
    let mut command = Command::new(program);
    let output = command.args(words.split(' ')).current_dir(root()).output();
    let bytes = output.map(|output| [output.stdout, output.stderr].concat());
    let text = String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned();
    text.trim().to_owned()
}

/// The version that a command prints: its first word with a digit at the beginning.
fn version(line: &str) -> Option<String> {
    let (program, words) = line.split_once(' ')?;
    let text = printed(program, words);
    let words = text.split([' ', '/', '\n']);
    let mut words = words.map(|word| word.trim_start_matches('v'));
    let version = words.find(|word| word.starts_with(|c: char| c.is_ascii_digit()));
    version.map(str::to_owned)
}
