//! One run of the benchmark: the rounds in which peers (the compared libraries and servers)
//! alternate, the time of an operation, and the machine.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;
use std::{fs, io};

use rustix::time::{ClockId, clock_gettime};

use crate::page::Part;
use crate::report::Report;

/// Shell commands that print the processor, the number of CPUs (all, even if this thread may use
/// only one), and the kernel.
const MACHINE: &str = "\
    model=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
    echo \"${model:-unknown CPU}, $(nproc --all) CPUs, $(uname -sr)\"";
const LOAD: &str = "cut -d ' ' -f 1,2 /proc/loadavg";

/// The options of the command line, and the number of rounds of the present part.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    /// True for one round with fewer operations, to see that everything works.
    pub(crate) quick: bool,
    /// The directory of the results and of the tools' files.
    pub(crate) folder: PathBuf,
    /// The example server, for the parts that start it.
    pub(crate) httpd: PathBuf,
    pub(crate) rounds: usize,
}

impl Run {
    /// Runs `round` for each of the rounds. All peers take turns within a round, so that a
    /// disturbance affects all of them.
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

    pub(crate) fn part(&mut self, part: &Part, measure: fn(&Run, &mut Report)) -> io::Result<()> {
        self.rounds = if self.quick { 1 } else { part.rounds };
        let began = Instant::now();
        let mut report = Report {
            counted: part.counted(),
            ..Report::default()
        };
        let commit = printed("git describe --always --dirty --exclude='*'");
        let (date, load_before) = (printed("date -u +%FT%T+00:00"), printed(LOAD));
        // If a part panics, perhaps because a server is overloaded, the other parts still run.
        let measured = catch_unwind(AssertUnwindSafe(|| measure(self, &mut report)));
        if measured.is_err() {
            report.absent("the rest of this part", "it has panicked; see its output");
        }
        let load = format!("{load_before} before, {} after", printed(LOAD));
        let rounds = match part.rounds == 1 {
            true => "none, because counts are exact".to_owned(),
            false => self.rounds.to_string(),
        };
        let context = [
            ("commit", commit),
            ("date", date),
            ("machine", printed(MACHINE)),
            ("compiler", printed("rustc --version")),
            ("load average", load),
            ("rounds", rounds),
            ("duration", format!("{} s", began.elapsed().as_secs())),
        ];
        for (peer, line) in &part.versions {
            // The version is the first number with a dot, up to the next space.
            let first = format!("{line} | grep -oE '[0-9]+[.][^ ]+' | head -n 1");
            let version = Some((peer.clone(), printed(&first)));
            let version = version.filter(|(_, version)| !version.is_empty());
            report.versions.extend(version);
        }
        report.context = context.map(|(name, value)| (name.to_owned(), value)).into();
        fs::write(self.file(&part.name), serde_json::to_vec_pretty(&report)?)
    }

    pub(crate) fn read(&self, part: &str) -> io::Result<Option<Report>> {
        let file = self.file(part);
        let text = file.exists().then(|| fs::read(file)).transpose()?;
        Ok(text.map(|text| serde_json::from_slice(&text)).transpose()?)
    }

    pub(crate) fn file(&self, part: &str) -> PathBuf {
        self.folder.join(format!("{part}.json"))
    }
}

/// Nanoseconds of this thread's CPU time per operation. The time of other processes does not count.
/// The measurement costs two system calls, so `work` must last much longer.
pub(crate) fn ns_each(operations: usize, work: impl FnOnce()) -> f64 {
    let start = cpu_ns();
    work();
    each(cpu_ns() - start, operations)
}

/// Divides a sum of all operations by their number.
pub(crate) fn each(whole: u64, operations: usize) -> f64 {
    whole as f64 / operations.max(1) as f64
}

pub(crate) fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).expect("it counts from 0")
}

pub(crate) fn root() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = package.ancestors().nth(2);
    root.expect("it is in `crates`").to_owned()
}

/// A command that runs a line of the shell in the root of the source tree.
pub(crate) fn shell(line: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", line]).current_dir(root());
    command
}

/// The output of a line of the shell, or an empty string if the line fails.
fn printed(line: &str) -> String {
    let output = shell(line).output().ok();
    let output = output.filter(|output| output.status.success());
    let bytes = output.map_or(Vec::new(), |output| output.stdout);
    String::from_utf8_lossy(&bytes).trim().to_owned()
}
