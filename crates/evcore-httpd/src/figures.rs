//! What a worker's loop tells of itself, beside the counts of its connections.

use std::time::Duration;

use evcore::{Acceptor, EventLoop, Histogram};

/// How often the histograms are looked through, at most.
const LOOK_THROUGH_EVERY: Duration = Duration::from_secs(1);

/// One worker's figures since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// 0: nobody is there.
    pub pid: u64,
    pub index: u64,
    pub turns: u64,
    pub events: u64,
    pub stale: u64,
    /// Now.
    pub timers_armed: u64,
    pub timers_fired: u64,
    pub lateness: Spread,
    pub turn: Spread,
}

/// How a time was spread, in nanoseconds. Mean and p99 lag behind by a second of turns at most; a
/// worker that has no turns has nothing new to tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spread {
    pub mean_ns: u64,
    pub p99_ns: u64,
    pub max_ns: u64,
}

/// Keeps a worker's figures up to date.
#[derive(Debug)]
pub struct Keeper {
    figures: Figures,
    /// `None`: not yet.
    looked_through_ms: Option<u64>,
}

impl Figures {
    /// How many numbers they are.
    pub const WORDS: usize = 13;

    pub fn to_words(self) -> [u64; Self::WORDS] {
        let (lateness, turn) = (self.lateness, self.turn);
        [
            self.pid,
            self.index,
            self.turns,
            self.events,
            self.stale,
            self.timers_armed,
            self.timers_fired,
            lateness.mean_ns,
            lateness.p99_ns,
            lateness.max_ns,
            turn.mean_ns,
            turn.p99_ns,
            turn.max_ns,
        ]
    }

    pub fn from_words(words: [u64; Self::WORDS]) -> Self {
        let spread = |at: usize| Spread {
            mean_ns: words[at],
            p99_ns: words[at + 1],
            max_ns: words[at + 2],
        };
        Self {
            pid: words[0],
            index: words[1],
            turns: words[2],
            events: words[3],
            stale: words[4],
            timers_armed: words[5],
            timers_fired: words[6],
            lateness: spread(7),
            turn: spread(10),
        }
    }
}

impl Keeper {
    /// For the worker of this index, in this process.
    pub fn new(index: usize) -> Self {
        Self {
            figures: Figures {
                pid: u64::from(std::process::id()),
                index: index as u64,
                ..Figures::default()
            },
            looked_through_ms: None,
        }
    }

    /// The figures at the end of a turn. What takes a look through a histogram may be a second old.
    pub fn figures<L: Acceptor>(&mut self, ev: &EventLoop<L>) -> &Figures {
        let stats = ev.stats();
        self.figures.turns = stats.turns;
        self.figures.events = stats.events;
        self.figures.stale = stats.stale;
        self.figures.timers_armed = ev.timers_armed() as u64;
        self.figures.timers_fired = stats.expired;
        let look_through = self.is_time_to_look_through(ev.clock().monotonic_ms());
        let Some(histograms) = ev.histograms() else {
            return &self.figures;
        };
        for (spread, histogram) in [
            (&mut self.figures.lateness, histograms.timer_lateness_ns()),
            (&mut self.figures.turn, histograms.turn_ns()),
        ] {
            spread.max_ns = histogram.max();
            // The first values are not to wait for their second.
            let has_first = spread.mean_ns == 0 && spread.max_ns > 0;
            if look_through || has_first {
                spread.look_through(histogram);
            }
        }
        &self.figures
    }

    fn is_time_to_look_through(&mut self, now_ms: u64) -> bool {
        let last = self.looked_through_ms;
        let is_time =
            last.is_none_or(|last| u128::from(now_ms - last) >= LOOK_THROUGH_EVERY.as_millis());
        if is_time {
            self.looked_through_ms = Some(now_ms);
        }
        is_time
    }
}

impl Spread {
    /// Finds what takes a look at every range of a histogram.
    fn look_through(&mut self, histogram: &Histogram) {
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a mean of nanoseconds, none of them negative"
        )]
        // Rounded up: it is 0 only where all values are.
        let mean_ns = histogram.mean().ceil() as u64;
        self.mean_ns = mean_ns;
        self.p99_ns = histogram.quantile(0.99);
    }
}

#[cfg(test)]
mod tests {
    use evcore::clock::{Clock, ManualTimeSource};

    use super::*;

    #[test]
    fn figures_are_read_as_they_were_written() {
        let words = std::array::from_fn(|at| at as u64 + 1);
        assert_eq!(Figures::from_words(words).to_words(), words);
    }

    #[test]
    fn in_the_first_second_no_mean_is_0_beside_a_maximum() {
        let time = ManualTimeSource::new();
        let clock = Clock::with_source(time.clone());
        let mut ev = EventLoop::builder()
            .clock(clock)
            .histograms(true)
            .build()
            .expect("a loop");
        let mut keeper = Keeper::new(0);
        let Spread {
            mean_ns, max_ns, ..
        } = keeper.figures(&ev).turn;
        assert_eq!((mean_ns, max_ns), (0, 0), "there was no turn");
        let turn_of = |time_taken, ev: &mut EventLoop| {
            // The second ends the first.
            ev.poll(Some(Duration::ZERO)).expect("it waits");
            time.advance(time_taken);
            ev.poll(Some(Duration::ZERO)).expect("it waits");
        };
        turn_of(Duration::from_millis(5), &mut ev);
        let first = keeper.figures(&ev).turn;
        assert!(first.mean_ns > 0 && first.p99_ns > 0, "{first:?}");
        // From then on, once a second is enough.
        turn_of(Duration::from_millis(50), &mut ev);
        let second = keeper.figures(&ev).turn;
        assert_eq!(
            (second.mean_ns, second.p99_ns),
            (first.mean_ns, first.p99_ns)
        );
        assert!(second.max_ns > first.max_ns);
    }

    #[test]
    fn histograms_are_looked_through_at_once_and_then_once_a_second() {
        let mut keeper = Keeper::new(0);
        let looks = [0, 999, 1000, 1001, 5000, 5999, 6000];
        let looks = looks.map(|now_ms| keeper.is_time_to_look_through(now_ms));
        assert_eq!(looks, [true, false, true, false, true, false, true]);
    }
}
