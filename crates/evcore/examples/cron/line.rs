//! A line of the crontab, and when it is due.
//!
//! Here is what to do with the time; nothing here asks for it.

use std::time::Duration;

use croner::Cron;
use jiff::{Timestamp, Zoned};

/// A line: what to run, and when next.
#[derive(Debug)]
pub struct Line {
    /// In its file, from 1.
    pub number: usize,
    pub command: String,
    /// What the file said before it: names and values.
    pub environment: Vec<(String, String)>,
    pattern: Cron,
    /// `None`: never again.
    due: Option<Zoned>,
}

impl Line {
    /// A line that is due when its pattern next matches the clock of `from`'s zone.
    pub fn new(
        number: usize,
        pattern: Cron,
        command: String,
        environment: Vec<(String, String)>,
        from: &Zoned,
    ) -> Self {
        let due = after(&pattern, from);
        Self {
            number,
            command,
            environment,
            pattern,
            due,
        }
    }

    /// When it is due next; `None` for never.
    pub fn due(&self) -> Option<&Zoned> {
        self.due.as_ref()
    }

    /// How long it is to sleep; `None` for ever.
    pub fn rest(&self, now: Timestamp) -> Option<Duration> {
        let rest = now.duration_until(self.due.as_ref()?.timestamp());
        // Negative if it is late: then there is nothing to sleep.
        Some(Duration::try_from(rest).unwrap_or(Duration::ZERO))
    }

    /// The time that has come, unless it is too early; from then on the line is due after `now`,
    /// so that times that were missed are made up for by one run.
    pub fn wake(&mut self, now: Timestamp) -> Option<Zoned> {
        let due = self.due.take_if(|due| due.timestamp() <= now)?;
        self.due = after(&self.pattern, &now.to_zoned(due.time_zone().clone()));
        Some(due)
    }

    /// What is printed of a run.
    pub fn told(&self, due: &Zoned) -> String {
        format!("{} {}", due.strftime("%Y-%m-%dT%H:%M:%S%:z"), self.command)
    }
}

/// When the pattern matches next; `None` where the calendar has no such day.
fn after(pattern: &Cron, time: &Zoned) -> Option<Zoned> {
    pattern.find_next_occurrence(time, false).ok()
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    const HOUR: SignedDuration = SignedDuration::from_hours(1);

    fn hourly() -> (Line, Timestamp) {
        let noon: Timestamp = "2026-11-21T12:00:00Z".parse().unwrap();
        let from = noon.to_zoned(jiff::tz::TimeZone::UTC);
        let pattern = "0 * * * *".parse().unwrap();
        let line = Line::new(1, pattern, "true".to_owned(), Vec::new(), &from);
        (line, noon)
    }

    fn due(line: &Line) -> Timestamp {
        line.due().unwrap().timestamp()
    }

    #[test]
    fn it_is_due_after_its_start_and_not_at_it() {
        let (line, noon) = hourly();
        assert_eq!(due(&line), noon + HOUR);
        assert_eq!(line.rest(noon), Some(Duration::from_secs(3_600)));
    }

    #[test]
    fn on_time_it_runs_and_is_due_an_hour_later() {
        let (mut line, noon) = hourly();
        assert_eq!(line.wake(noon + HOUR).unwrap().timestamp(), noon + HOUR);
        assert_eq!(due(&line), noon + HOUR * 2);
    }

    #[test]
    fn a_clock_that_was_set_back_makes_it_sleep_for_the_rest() {
        let (mut line, noon) = hourly();
        // It slept for an hour, in which the wall clock lost half of one.
        let wakes = noon + HOUR / 2;
        assert_eq!(line.wake(wakes), None);
        assert_eq!(line.rest(wakes), Some(Duration::from_secs(1_800)));
        assert_eq!(due(&line), noon + HOUR);
    }

    #[test]
    fn a_clock_that_was_set_forward_makes_up_for_all_it_missed_by_one_run() {
        let (mut line, noon) = hourly();
        let wakes = noon + HOUR * 24 + HOUR / 2;
        assert_eq!(line.rest(wakes), Some(Duration::ZERO));
        assert_eq!(line.wake(wakes).unwrap().timestamp(), noon + HOUR);
        assert_eq!(due(&line), noon + HOUR * 25);
        assert_eq!(line.wake(wakes), None);
    }

    #[test]
    fn one_nanosecond_early_is_early() {
        let (mut line, noon) = hourly();
        let nanosecond = SignedDuration::from_nanos(1);
        assert_eq!(line.wake(noon + HOUR - nanosecond), None);
        assert!(line.wake(noon + HOUR).is_some());
    }
}
