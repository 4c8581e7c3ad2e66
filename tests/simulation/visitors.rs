//! Clients of every kind: they come, ask, stall, half-close, reset and go, as chance has it.

use std::{fmt, time::Duration};

use evcore_sim::{Ending, Rng, Script, Scripted, World};

use crate::{setting::ADDRESS, subject::answer};

/// A client, and what it is to hear if all goes well.
pub(crate) struct Visitor {
    client: Scripted,
    expected: Vec<u8>,
}

/// What became of it, in text.
impl fmt::Debug for Visitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Visitor")
            .field("ending", &self.client.ending())
            .field("heard", &String::from_utf8_lossy(&self.client.heard()))
            .field("expected", &String::from_utf8_lossy(&self.expected))
            .finish()
    }
}

/// What a visitor may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manners {
    /// Whatever comes to its mind.
    Any,
    /// Nothing that would keep it, or anybody else, from an answer.
    Good,
}

impl Visitor {
    /// One who comes some time within the next minute.
    pub(crate) fn comes(world: &World, rng: &mut Rng, manners: Manners) -> Self {
        let mut course = Course::new(rng, manners);
        course.walk();
        Self {
            client: world.client(ADDRESS.into(), course.script),
            expected: course.expected,
        }
    }

    /// Whether it has gone: it was answered, or its connection has ended.
    pub(crate) fn is_gone(&self) -> bool {
        self.client.is_done()
    }

    /// What it heard is the beginning of what it was to hear, and all of it if it was not cut
    /// short.
    pub(crate) fn check(&self) {
        let heard = self.client.heard();
        assert!(
            self.expected.starts_with(&heard),
            "heard {:?} of {:?}",
            String::from_utf8_lossy(&heard),
            String::from_utf8_lossy(&self.expected)
        );
    }

    /// Whether it was told all that it asked for.
    pub(crate) fn is_content(&self) -> bool {
        self.client.ending() == Some(Ending::Done) && self.client.heard() == self.expected
    }
}

/// A script in the making.
struct Course<'a> {
    rng: &'a mut Rng,
    manners: Manners,
    script: Script,
    expected: Vec<u8>,
    /// The last of the answers that are expected.
    last: Vec<u8>,
    number: u64,
}

impl<'a> Course<'a> {
    fn new(rng: &'a mut Rng, manners: Manners) -> Self {
        Self {
            number: rng.below(1_000_000) * 1_000,
            rng,
            manners,
            script: Script::new(),
            expected: Vec::new(),
            last: Vec::new(),
        }
    }

    fn walk(&mut self) {
        for _ in 0..self.rng.below(6) {
            match self.rng.below(4) {
                0 => self.ask(1),
                1 => self.ask_slowly(),
                2 => {
                    let requests = 2 + self.rng.below(5);
                    self.ask(requests);
                }
                _ => self.rest(),
            }
        }
        match self.rng.below(6) {
            _ if self.manners == Manners::Good => {}
            0 => self.half_close(),
            1 => self.reset(),
            2 => self.stall(),
            3 => self.fall_silent(),
            _ => {}
        }
    }

    /// So many requests in one piece, and then their answers.
    fn ask(&mut self, requests: u64) {
        let mut text = String::new();
        for _ in 0..requests {
            text += &self.request();
        }
        self.act(|script| script.send(text));
        self.hear();
    }

    /// A few bytes at a time.
    fn ask_slowly(&mut self) {
        let text = self.request();
        let piece = 1 + self.rng.index(8);
        let every = self.rng.time(&(Duration::ZERO..=Duration::from_secs(1)));
        self.act(|script| script.send_slowly(text, piece, every));
        self.hear();
    }

    fn rest(&mut self) {
        let at_most = match self.manners {
            Manners::Any => Duration::from_secs(30),
            // Not so long that it would be taken for one who has gone.
            Manners::Good => Duration::from_secs(5),
        };
        self.act(|script| script.pause_between(Duration::ZERO..=at_most));
    }

    fn half_close(&mut self) {
        let text = self.request();
        self.act(|script| script.send(text).shutdown_write().hear_end());
    }

    fn reset(&mut self) {
        let text = self.request();
        self.act(|script| script.send(text));
        if self.rng.below(2) == 0 {
            self.rest();
        }
        self.act(Script::reset);
    }

    /// Asks for much and takes nothing of it, for a while.
    fn stall(&mut self) {
        let text = self.request_for(200_000);
        let time = self.rng.time(&(Duration::ZERO..=Duration::from_secs(30)));
        self.act(|script| script.stop_reading().send(text).pause(time).read_on());
        self.hear();
    }

    fn fall_silent(&mut self) {
        self.act(Script::hear_end);
    }

    /// Waits for all that it has asked for: for the last answer, whose number no other has.
    fn hear(&mut self) {
        let last = std::mem::take(&mut self.last);
        self.act(|script| script.hear_until(last));
    }

    fn request(&mut self) -> String {
        let length = match self.rng.below(16) {
            0 => 100_000,
            1 => 5_000,
            _ => self.rng.index(200),
        };
        self.request_for(length)
    }

    fn request_for(&mut self, length: usize) -> String {
        let means = match self.rng.below(16) {
            0 if self.manners == Manners::Any => "ousting",
            1 if self.manners == Manners::Any => "leaving",
            choice => ["now", "later", "next", "handed", "timer"][(choice % 5) as usize],
        };
        let number = self.number;
        self.number += 1;
        self.last = answer(number, length);
        self.expected.extend_from_slice(&self.last);
        format!("{number} {means} {length}\n")
    }

    fn act(&mut self, act: impl FnOnce(Script) -> Script) {
        self.script = act(std::mem::take(&mut self.script));
    }
}
