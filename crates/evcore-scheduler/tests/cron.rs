//! Tests of the example `cron` as a process: its output, its commands and its sleeps.
#![cfg(not(evcore_loom))]

use std::{
    fs,
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
};

use evcore_testing::{Scratch, not_run, strace_works};

/// A zone with daylight saving as a POSIX rule, for systems without a time zone database.
const ZONE: &str = "CET-1CEST,M3.5.0,M10.5.0/3";

struct Crontab(Scratch);

impl Crontab {
    fn new(text: &str) -> Self {
        let scratch = Scratch::new("cron");
        fs::write(scratch.file("crontab"), text).unwrap();
        Self(scratch)
    }

    fn cron(&self, options: &[&str]) -> Command {
        let mut command = Command::new(example());
        command.args(options).arg("crontab");
        command.current_dir(self.0.path()).env("TZ", ZONE);
        command
    }

    fn run(&self, options: &[&str]) -> Output {
        self.cron(options).output().unwrap()
    }

    /// Panics if cron fails.
    fn lines(&self, options: &[&str]) -> Vec<String> {
        let output = self.run(options);
        assert!(output.status.success(), "{}", errors(&output));
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(str::to_owned).collect()
    }
}

/// The path of the example. `cargo test -p` builds the examples of a package with its tests.
fn example() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let profile = test.ancestors().nth(2).expect("target/PROFILE/deps/TEST");
    let path = profile.join("examples/cron");
    assert!(
        path.exists(),
        "run `cargo build -p evcore-scheduler --examples` first"
    );
    path
}

fn errors(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn times_are_listed_in_order_and_equal_ones_as_in_the_file() {
    let crontab = Crontab::new("# a comment\n\n0 6 * * * a\n@hourly b\n0 6 * * * c\n");
    assert_eq!(
        crontab.lines(&["--list", "4", "--from", "2026-11-21T05:59"]),
        [
            "2026-11-21T06:00:00+01:00 a",
            "2026-11-21T06:00:00+01:00 b",
            "2026-11-21T06:00:00+01:00 c",
            "2026-11-21T07:00:00+01:00 b",
        ]
    );
}

#[test]
fn a_time_skipped_by_daylight_saving_runs_after_the_gap() {
    let crontab = Crontab::new("30 2 * * * daily\n30 * * * * hourly\n");
    assert_eq!(
        crontab.lines(&["--list", "3", "--from", "2026-03-29T00:45"]),
        [
            "2026-03-29T01:30:00+01:00 hourly",
            "2026-03-29T03:00:00+02:00 daily",
            "2026-03-29T03:30:00+02:00 hourly",
        ]
    );
}

#[test]
fn a_repeated_time_runs_once_if_daily_and_twice_if_hourly() {
    let crontab = Crontab::new("30 2 * * * daily\n30 * * * * hourly\n");
    assert_eq!(
        crontab.lines(&["--list", "4", "--from", "2026-10-25T01:45"]),
        [
            "2026-10-25T02:30:00+02:00 daily",
            "2026-10-25T02:30:00+02:00 hourly",
            "2026-10-25T02:30:00+01:00 hourly",
            "2026-10-25T03:30:00+01:00 hourly",
        ]
    );
}

#[test]
fn an_error_names_the_line_or_the_option() {
    let crontab = Crontab::new("@daily fine\n61 * * * * a\n");
    let cases: [(&[&str], &str); 3] = [
        (&["--list", "1"], "crontab:2:"),
        (&["--nonsense"], "--nonsense"),
        (&["--once", "many"], "many"),
    ];
    for (options, named) in cases {
        let output = crontab.run(options);
        assert_eq!(output.status.code(), Some(2), "{options:?}");
        assert!(errors(&output).contains(named), "{}", errors(&output));
    }
    let too_short = Crontab::new("* * * *\n").run(&[]);
    assert!(errors(&too_short).contains("5 fields and a command"));
}

#[test]
fn without_run_no_command_is_run() {
    let crontab = Crontab::new("* * * * * * touch ran\n");
    let lines = crontab.lines(&["--seconds", "--once", "2"]);
    assert!(lines.len() >= 2 && lines.iter().all(|line| line.ends_with(" touch ran")));
    assert!(!crontab.0.file("ran").exists());
}

#[test]
fn a_long_command_delays_no_other_line() {
    // The first command ends when it has read a line from a pipe. The test writes that line last.
    let crontab = Crontab::new(
        "* * * * * * test -e held || { touch held; read line < pipe; }\n* * * * * * true\n",
    );
    let pipe = crontab.0.file("pipe");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    let mut cron = crontab.cron(&["--seconds", "--once", "6", "--run"]);
    let mut cron = Kill(cron.stdout(Stdio::piped()).spawn().unwrap());
    // The reader stays open until cron has ended, because cron continues to print.
    let mut lines = BufReader::new(cron.0.stdout.take().unwrap()).lines();
    assert_eq!(lines.by_ref().take(6).count(), 6);
    assert!(crontab.0.file("held").exists());
    fs::write(&pipe, "go\n").expect("the first command still reads");
    assert!(cron.0.wait().unwrap().success());
}

#[test]
fn cron_sleeps_once_between_two_runs() {
    const RUNS: usize = 3;
    if !strace_works() {
        not_run("strace is not installed, or may not trace");
        return;
    }
    let crontab = Crontab::new("* * * * * * true\n");
    let trace = crontab.0.file("trace");
    let calls = "trace=futex,clock_nanosleep,nanosleep,epoll_wait,epoll_pwait,select,pselect6";
    let mut strace = Command::new("strace");
    strace.args(["-f", "-e", calls, "-o"]).arg(&trace);
    strace
        .arg(example())
        .args(["--seconds", "--once", &RUNS.to_string()]);
    strace.arg(crontab.0.file("crontab")).stdout(Stdio::null());
    assert!(strace.status().unwrap().success());
    let trace = fs::read_to_string(trace).unwrap();
    let sleeps = trace.matches("ETIMEDOUT").count();
    // There are fewer sleeps on a slow machine, where one run may stand for two missed times. There
    // is one more if the program counts its last run after the scheduler's next sleep has ended.
    assert!((1..=RUNS + 1).contains(&sleeps), "{trace}");
    for call in ["nanosleep", "epoll", "select"] {
        assert!(!trace.contains(call), "{trace}");
    }
}

struct Kill(Child);

impl Drop for Kill {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
