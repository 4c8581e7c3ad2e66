//! The example `cron`, as a process: what it prints, what it runs, and how it sleeps.

use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
};

use evcore_tests::cron;

/// Both ends of daylight saving: the night that has no 02:30, and the one that has two.
const SPRING: &str = "2026-03-29T00:45";
const AUTUMN: &str = "2026-10-25T00:45";

/// Those changes by a rule, for systems that have no names of zones.
const RULE: &str = "CET-1CEST,M3.5.0,M10.5.0/3";

/// A crontab in a directory of its own, which ends with this value.
struct Crontab(PathBuf);

impl Crontab {
    fn new(name: &str, text: &str) -> Self {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("cron-{name}-{}", std::process::id()));
        fs::create_dir_all(&directory).expect("a directory for it");
        fs::write(directory.join("crontab"), text).expect("it can be written");
        Self(directory)
    }

    /// Another file, beside it.
    fn beside(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The command that reads it.
    fn cron(&self, options: &[&str]) -> Command {
        let mut command = Command::new(cron());
        command
            .args(options)
            .arg("crontab")
            .current_dir(&self.0)
            .env("TZ", RULE);
        command
    }

    fn run(&self, options: &[&str]) -> Output {
        self.cron(options).output().expect("it runs")
    }

    /// What it prints, if it succeeds.
    fn lines(&self, options: &[&str]) -> Vec<String> {
        let output = self.run(options);
        assert!(output.status.success(), "{}", said(&output));
        text(&output.stdout).lines().map(str::to_owned).collect()
    }
}

impl Drop for Crontab {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("a text")
}

fn said(output: &Output) -> &str {
    text(&output.stderr)
}

#[test]
fn a_dry_run_tells_the_next_times_in_order() {
    let crontab = Crontab::new(
        "order",
        "# a comment\n\n0 6 * * * early\nNAME=value\n30 * * * * half\n@daily midnight\n",
    );
    let from = ["--zone", "UTC", "--from", "2026-11-21T04:30"];
    assert_eq!(
        crontab.lines(&[&["--dry-run", "3"], &from[..]].concat()),
        [
            "2026-11-21T05:30:00+00:00 half",
            "2026-11-21T06:00:00+00:00 early",
            "2026-11-21T06:30:00+00:00 half",
        ]
    );
    let names = crontab.lines(&[&["--dry-run", "22"], &from[..]].concat());
    assert_eq!(names[20], "2026-11-22T00:00:00+00:00 midnight");
}

#[test]
fn at_equal_times_a_dry_run_keeps_the_order_of_the_file() {
    let crontab = Crontab::new("equal", "0 6 * * * a\n@hourly b\n0 6 * * * c\n");
    let options = ["--dry-run", "3", "--zone", "UTC"];
    assert_eq!(
        crontab.lines(&[&options[..], &["--from", "2026-11-21T05:59"]].concat()),
        ["a", "b", "c"].map(|name| format!("2026-11-21T06:00:00+00:00 {name}"))
    );
}

#[test]
fn a_time_that_is_skipped_runs_at_the_first_moment_after_the_gap() {
    let crontab = Crontab::new("spring", "30 2 * * * daily\n30 * * * * hourly\n");
    assert_eq!(
        crontab.lines(&["--dry-run", "4", "--from", SPRING]),
        [
            "2026-03-29T01:30:00+01:00 hourly",
            "2026-03-29T03:00:00+02:00 daily",
            "2026-03-29T03:30:00+02:00 hourly",
            "2026-03-29T04:30:00+02:00 hourly",
        ]
    );
}

#[test]
fn a_time_that_comes_twice_runs_once_if_daily_and_twice_if_hourly() {
    let crontab = Crontab::new("autumn", "30 2 * * * daily\n30 * * * * hourly\n");
    assert_eq!(
        crontab.lines(&["--dry-run", "5", "--from", AUTUMN]),
        [
            "2026-10-25T01:30:00+02:00 hourly",
            "2026-10-25T02:30:00+02:00 daily",
            "2026-10-25T02:30:00+02:00 hourly",
            "2026-10-25T02:30:00+01:00 hourly",
            "2026-10-25T03:30:00+01:00 hourly",
        ]
    );
}

#[test]
fn a_zone_by_name_goes_before_that_of_the_system() {
    if !Path::new("/usr/share/zoneinfo/America/New_York").exists() {
        eprintln!("not tested: this system has no names of time zones");
        return;
    }
    let crontab = Crontab::new("zone", "30 2 * * * daily\n");
    let options = ["--dry-run", "2", "--zone", "America/New_York"];
    assert_eq!(
        crontab.lines(&[&options[..], &["--from", "2026-03-07T12:00"]].concat()),
        [
            "2026-03-08T03:00:00-04:00 daily",
            "2026-03-09T02:30:00-04:00 daily",
        ]
    );
}

#[test]
fn every_bad_line_is_told_with_its_place_and_the_cure() {
    let crontab = Crontab::new(
        "bad",
        "@daily fine\n61 * * * * a\n* * * *\n@reboot b\nMAILTO=root\n0 0 30 2 * c\n",
    );
    let output = crontab.run(&["--dry-run", "1"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(text(&output.stdout), "");
    let lines: Vec<_> = said(&output).lines().collect();
    let named = [
        ["crontab:2:", "61", "minute hour day month weekday"],
        ["crontab:3:", "no command", "COMMAND"],
        ["crontab:4:", "@reboot", "@hourly"],
        ["crontab:5:", "MAILTO", "leave"],
        ["crontab:6:", "no day", "mend"],
    ];
    assert_eq!(lines.len(), named.len(), "{lines:?}");
    for (line, words) in lines.iter().zip(named) {
        for word in words {
            assert!(line.contains(word), "{word:?} is not in {line:?}");
        }
    }
}

#[test]
fn a_bad_option_is_named_with_what_is_allowed() {
    let crontab = Crontab::new("options", "@daily a\n");
    let cases: &[(&[&str], &[&str])] = &[
        (&["--nonsense"], &["--nonsense", "--help"]),
        (&["another"], &["crontab", "--help"]),
        (&["--once", "0"], &["--once", "from 1"]),
        (&["--dry-run", "many"], &["--dry-run", "many"]),
        (&["--zone", "Mars/Olympus"], &["--zone", "Mars/Olympus"]),
        (&["--from", "noon", "--dry-run", "1"], &["--from", "noon"]),
        (&["--from", AUTUMN], &["--from", "--dry-run"]),
        (&["--dry-run", "1", "--run"], &["--dry-run", "--run"]),
    ];
    for (options, named) in cases {
        let output = crontab.run(options);
        assert_eq!(output.status.code(), Some(2), "{options:?}");
        assert_eq!(said(&output).lines().count(), 1, "{options:?}");
        for word in *named {
            assert!(said(&output).contains(word), "{options:?}: {word:?}");
        }
    }
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let crontab = Crontab::new("missing", "");
    fs::remove_file(crontab.beside("crontab")).expect("it is there");
    let output = crontab.run(&[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("cannot read crontab"));
}

#[test]
fn help_lists_every_option() {
    let output = Command::new(cron())
        .arg("--help")
        .output()
        .expect("it runs");
    assert!(output.status.success());
    for option in [
        "--run",
        "--once",
        "--dry-run",
        "--from",
        "--zone",
        "--seconds",
    ] {
        assert!(text(&output.stdout).contains(option), "{option}");
    }
}

#[test]
fn without_run_it_prints_and_runs_nothing() {
    let crontab = Crontab::new("prints", "* * * * * * touch ran\n");
    let lines = crontab.lines(&["--seconds", "--once", "2"]);
    assert_eq!(lines.len(), 2);
    assert!(lines.iter().all(|line| line.ends_with(" touch ran")));
    assert!(!crontab.beside("ran").exists());
}

#[test]
fn each_run_is_at_another_second_and_none_is_early() {
    // Each command says when it ran by the same wall clock.
    let crontab = Crontab::new("early", "* * * * * * date +\\%s >> ran\n");
    let lines = crontab.lines(&["--seconds", "--once", "3", "--run", "--zone", "UTC"]);
    let due: BTreeSet<_> = lines.iter().map(|line| &line[..19]).collect();
    assert_eq!(due.len(), 3, "{lines:?}");
    let due: Vec<_> = due.into_iter().map(seconds).collect();
    let ran = fs::read_to_string(crontab.beside("ran")).expect("it ran");
    let mut ran: Vec<u64> = ran
        .lines()
        .map(|line| line.parse().expect("date"))
        .collect();
    ran.sort_unstable();
    assert_eq!(ran.len(), 3);
    let day = 86_400;
    for (due, ran) in due.into_iter().zip(ran) {
        // Of the day, which may have ended between the two.
        assert!((ran % day + day - due) % day < day / 2, "{due} {ran}");
    }
}

/// The second of the day of `2026-11-21T06:00:00`.
fn seconds(time: &str) -> u64 {
    time[11..].split(':').fold(0, |sum, part| {
        sum * 60 + part.parse::<u64>().expect("a number")
    })
}

#[test]
fn a_command_gets_the_settings_above_it_and_its_failure_is_told() {
    let crontab = Crontab::new(
        "settings",
        "NAME = 'a b'\n* * * * * * echo \"$NAME\" > ran; exit 3\n",
    );
    let output = crontab.run(&["--seconds", "--once", "1", "--run"]);
    assert!(output.status.success());
    // It ended after the command did.
    let ran = fs::read_to_string(crontab.beside("ran")).expect("it ran");
    assert_eq!(ran, "a b\n");
    assert!(said(&output).contains("line 2 ended: exit status: 3"));
}

#[test]
fn a_command_that_takes_long_delays_no_other_line() {
    // It ends when its input, a pipe that the test holds, does; until then other lines run.
    let crontab = Crontab::new(
        "long",
        "* * * * * * test -e held || { touch held; read line < pipe; }\n* * * * * * true\n",
    );
    let pipe = crontab.beside("pipe");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .expect("mkfifo")
            .success()
    );
    let mut child = Kill(
        crontab
            .cron(&["--seconds", "--once", "6", "--run"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("it runs"),
    );
    let out = child.0.stdout.take().expect("asked for");
    // All of them, while the first command still waits.
    let lines = BufReader::new(out).lines().take(6).count();
    assert_eq!(lines, 6);
    assert!(child.0.try_wait().expect("our child").is_none());
    fs::write(&pipe, "go\n").expect("somebody reads");
    assert!(child.0.wait().expect("our child").success());
}

/// A process that does not outlive its test.
struct Kill(Child);

impl Drop for Kill {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn between_two_runs_there_is_one_sleep() {
    const RUNS: usize = 3;
    if !strace_may_trace() {
        eprintln!("not tested: there is no strace, or it may not trace here");
        return;
    }
    let crontab = Crontab::new("strace", "* * * * * * true\n");
    let trace = crontab.beside("trace");
    let status = Command::new("strace")
        .args(["-f", "-e"])
        .arg("trace=futex,clock_nanosleep,nanosleep,/^p?poll$,epoll_wait,epoll_pwait,select,pselect6")
        .arg("-o")
        .arg(&trace)
        .arg(cron())
        .args(["--seconds", "--once", &RUNS.to_string()])
        .arg(crontab.beside("crontab"))
        .stdout(Stdio::null())
        .status()
        .expect("strace runs");
    assert!(status.success(), "{status}");
    let trace = fs::read_to_string(trace).expect("its output");
    let slept = trace.matches("ETIMEDOUT").count();
    // Fewer where the machine is so slow that a run makes up for two.
    assert!((1..=RUNS).contains(&slept), "{trace}");
    for call in ["nanosleep", "epoll", "select"] {
        assert!(!trace.contains(call), "{trace}");
    }
    // The standard library looks at the standard streams, by `poll` or, on some processors,
    // `ppoll`.
    assert!(trace.matches("poll(").count() <= 1, "{trace}");
}

/// Tried on a program that cannot fail, so that a failure of ours is not taken for one of strace.
fn strace_may_trace() -> bool {
    Command::new("strace")
        .args(["-f", "-e", "trace=futex", "true"])
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
