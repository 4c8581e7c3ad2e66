//! How long clients waited.

use std::time::Duration;

/// Waits of many clients.
#[derive(Clone, Debug, Default)]
pub(super) struct Waits(Vec<Duration>);

impl Waits {
    /// One more.
    pub(super) fn add(&mut self, wait: Duration) {
        self.0.push(wait);
    }

    /// The median, the 99th of a hundred and the longest, in microseconds, each with its name; all
    /// 0 if no client waited.
    pub(super) fn figures(mut self) -> [(&'static str, f64); 3] {
        self.0.sort_unstable();
        [
            ("median_us", self.at(50)),
            ("p99_us", self.at(99)),
            ("max_us", self.at(100)),
        ]
    }

    /// A percentile. The waits are sorted.
    fn at(&self, percent: usize) -> f64 {
        let rank = (self.0.len() * percent).div_ceil(100).max(1);
        self.0.get(rank - 1).copied().map_or(0.0, microseconds)
    }
}

fn microseconds(wait: Duration) -> f64 {
    wait.as_secs_f64() * 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_exact() {
        let mut waits = Waits::default();
        (1..=200)
            .rev()
            .for_each(|ms| waits.add(Duration::from_millis(ms)));
        let expected = [
            ("median_us", 100_000.0),
            ("p99_us", 198_000.0),
            ("max_us", 200_000.0),
        ];
        for ((name, value), (expected_name, expected)) in waits.figures().into_iter().zip(expected)
        {
            assert_eq!(name, expected_name);
            assert!((value - expected).abs() < 1e-6, "{name}: {value}");
        }
    }

    #[test]
    fn nobody_waited_no_time() {
        assert!(Waits::default().figures().iter().all(|(_, us)| *us == 0.0));
    }
}
