//! What a crontab may say.
//!
//! As `crontab(5)` has it: comments, settings of the environment, and lines of five fields and a
//! command, or of a name such as `@daily` and a command. What would be read differently here is
//! refused with a word on what to do, and never ignored.

use std::fmt;

use croner::{
    Cron,
    parser::{CronParser, Seconds, Year},
};
use jiff::Zoned;

use crate::line::Line;

/// The names that stand for five fields.
const NAMES: &[&str] = &[
    "@yearly",
    "@annually",
    "@monthly",
    "@weekly",
    "@daily",
    "@hourly",
];

/// What a line has before its command.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fields {
    /// Minute, hour, day, month, weekday.
    Five,
    /// Seconds before them.
    Six,
}

impl Fields {
    fn count(self) -> usize {
        match self {
            Self::Five => 5,
            Self::Six => 6,
        }
    }

    fn named(self) -> &'static str {
        match self {
            Self::Five => "minute hour day month weekday",
            Self::Six => "second minute hour day month weekday",
        }
    }

    fn parser(self) -> CronParser {
        let seconds = match self {
            Self::Five => Seconds::Disallowed,
            Self::Six => Seconds::Required,
        };
        CronParser::builder()
            .seconds(seconds)
            .year(Year::Disallowed)
            .build()
    }
}

/// A line that cannot be used, with the reason and what to do.
#[derive(Debug, Eq, PartialEq)]
pub struct BadLine {
    number: usize,
    reason: String,
}

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.number, self.reason)
    }
}

/// The lines that run something, each with its first time after `from`; or all that are wrong.
pub fn read(text: &str, fields: Fields, from: &Zoned) -> Result<Vec<Line>, Vec<BadLine>> {
    let mut lines = Vec::new();
    let mut bad = Vec::new();
    let mut environment = Vec::new();
    for (number, text) in (1..).zip(text.lines()) {
        let read = match kind(text.trim()) {
            Kind::Nothing => Ok(()),
            Kind::Setting(name, value) => {
                setting(name, value).map(|setting| environment.push(setting))
            }
            Kind::Entry(text) => entry(text, fields).and_then(|(pattern, command)| {
                let line = Line::new(number, pattern, command, environment.clone(), from);
                lines.push(line_that_comes(line)?);
                Ok(())
            }),
        };
        bad.extend(read.err().map(|reason| BadLine { number, reason }));
    }
    if bad.is_empty() { Ok(lines) } else { Err(bad) }
}

/// What a line is, by how it begins.
enum Kind<'a> {
    Nothing,
    Setting(&'a str, &'a str),
    Entry(&'a str),
}

fn kind(line: &str) -> Kind<'_> {
    if line.is_empty() || line.starts_with('#') {
        return Kind::Nothing;
    }
    match line.split_once('=') {
        Some((name, value)) if is_name(name.trim_end()) => {
            Kind::Setting(name.trim_end(), value.trim_start())
        }
        _ => Kind::Entry(line),
    }
}

fn is_name(text: &str) -> bool {
    !text.starts_with(|first: char| first.is_ascii_digit())
        && !text.is_empty()
        && text
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

/// A setting for the commands below it. Those that tell cron itself something are refused, unless
/// they say what is so anyway.
fn setting(name: &str, value: &str) -> Result<(String, String), String> {
    let value = unquoted(value);
    match (name, value) {
        ("SHELL", "/bin/sh") | ("MAILTO", "") => {}
        ("SHELL", _) => return Err("commands are run by /bin/sh: leave SHELL out".to_owned()),
        ("MAILTO" | "MAILFROM", _) => {
            return Err(format!("nothing is mailed here: leave {name} out"));
        }
        ("CRON_TZ", _) => {
            return Err(format!(
                "the zone is one for all lines: leave CRON_TZ out and say --zone {value}"
            ));
        }
        _ => {}
    }
    Ok((name.to_owned(), value.to_owned()))
}

/// Without the quotes around it, if they match.
fn unquoted(value: &str) -> &str {
    ['"', '\'']
        .into_iter()
        .find_map(|quote| value.strip_prefix(quote)?.strip_suffix(quote))
        .unwrap_or(value)
}

/// When and what; or what is wrong.
fn entry(line: &str, fields: Fields) -> Result<(Cron, String), String> {
    let (time, rest) = split(
        line,
        if line.starts_with('@') {
            1
        } else {
            fields.count()
        },
    );
    if rest.is_empty() {
        return Err(format!(
            "there is no command: a line is {} COMMAND, or such as @daily COMMAND",
            fields.named()
        ));
    }
    if time.starts_with('@') && !NAMES.contains(&time) {
        return Err(format!("there is no {time}: use {}", NAMES.join(", ")));
    }
    let pattern = fields.parser().parse(time).map_err(|error| {
        let error = error.to_string();
        let error = error.trim_end_matches('.');
        format!("the time {time:?}: {error}; it is {}", fields.named())
    })?;
    Ok((pattern, command(rest)?))
}

/// The first `words` of a line, and what follows them.
fn split(line: &str, words: usize) -> (&str, &str) {
    let mut rest = line;
    for _ in 0..words {
        rest = rest.trim_start();
        rest = rest
            .find(char::is_whitespace)
            .map_or("", |end| &rest[end..]);
    }
    let (first, rest) = line.split_at(line.len() - rest.len());
    (first.trim(), rest.trim())
}

/// The command, in which cron gives the percent sign a meaning.
fn command(text: &str) -> Result<String, String> {
    if text.replace("\\%", "").contains('%') {
        return Err(
            "a bare % would begin the command's input: write \\% for the sign, and feed \
                    the input by a pipe"
                .to_owned(),
        );
    }
    Ok(text.replace("\\%", "%"))
}

fn line_that_comes(line: Line) -> Result<Line, String> {
    if line.due().is_none() {
        return Err("no day in the calendar is so: mend its day and month".to_owned());
    }
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<Line>, Vec<BadLine>> {
        let from = "2026-11-21T06:00[UTC]".parse().unwrap();
        super::read(text, Fields::Five, &from)
    }

    /// What is wrong with the one line.
    fn reason(line: &str) -> String {
        let mut bad = read(line).expect_err(line);
        assert_eq!(bad.len(), 1);
        bad.remove(0).reason
    }

    #[test]
    fn comments_and_blank_lines_are_nothing() {
        assert!(
            read("# a comment\n\n   \n  # another\n")
                .unwrap()
                .is_empty()
        );
    }

    #[test]
    fn a_command_keeps_its_spaces_and_its_hash() {
        let lines = read("  5\t* * *   *   echo  a  # b  \r\n").unwrap();
        assert_eq!(lines[0].command, "echo  a  # b");
    }

    #[test]
    fn a_setting_holds_for_the_lines_below_it() {
        let lines = read("@daily a\nNAME = \"x = y\"\n@daily b\nOTHER='\n@daily c=d\n").unwrap();
        assert_eq!(lines[0].environment, []);
        let name = ("NAME".to_owned(), "x = y".to_owned());
        assert_eq!(lines[1].environment, std::slice::from_ref(&name));
        let other = ("OTHER".to_owned(), "'".to_owned());
        assert_eq!(lines[2].environment, [name, other]);
        assert_eq!(lines[2].command, "c=d");
    }

    #[test]
    fn a_setting_that_would_change_cron_itself_is_refused_by_name() {
        for setting in ["SHELL=/bin/bash", "MAILTO=root", "CRON_TZ=UTC"] {
            let name = setting.split_once('=').unwrap().0;
            assert!(reason(setting).contains(name), "{setting}");
        }
        assert!(read("SHELL=/bin/sh\nMAILTO=\"\"\n").is_ok());
    }

    #[test]
    fn a_percent_sign_is_written_with_a_backslash() {
        assert_eq!(read("@daily date +\\%F").unwrap()[0].command, "date +%F");
        assert!(reason("@daily date +%F").contains("\\%"));
    }

    #[test]
    fn names_are_as_croner_has_them() {
        for name in NAMES {
            assert_eq!(read(&format!("{name} a")).unwrap().len(), 1, "{name}");
        }
        assert!(reason("@reboot a").contains("@reboot"));
    }

    #[test]
    fn a_day_that_never_comes_is_refused() {
        assert!(reason("0 0 30 2 * a").contains("no day"));
        assert!(reason("0 0 31 4,6,9,11 * a").contains("no day"));
        assert!(read("0 0 29 2 * a").is_ok());
    }

    #[test]
    fn every_bad_line_is_found() {
        let bad = read("@daily a\n61 * * * * b\n* * * * *\n@daily c\nd\n").unwrap_err();
        let numbers: Vec<_> = bad.iter().map(|line| line.number).collect();
        assert_eq!(numbers, [2, 3, 5]);
    }
}
