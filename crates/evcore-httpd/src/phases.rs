//! The phases of a connection, and the number of connections in each.
//!
//! A row of the table defines a phase: its place on the scoreboard (memory that the workers share),
//! its sums over the workers, its line of `/metrics` and its field of `/status.json`.

use std::ops::{Index, IndexMut};

use serde::{Serialize, Serializer};

macro_rules! phases {
    ($($phase:ident, $name:literal, $help:literal;)*) => {
        /// The phase of a connection, as nginx's `stub_status` counts it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Phase {
            $(#[doc = $help] $phase,)*
        }

        /// The names of all phases, in the order of [`Phase`].
        pub const NAMES: &[&str] = &[$($name),*];
    };
}

phases! {
    Reading, "reading", "A request is being read.";
    Writing, "writing", "A response is being made or sent.";
    Waiting, "waiting", "The connection is idle.";
}

/// The number of connections in each phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Phases([u64; Phases::LEN]);

impl Phases {
    /// Number of phases.
    pub const LEN: usize = NAMES.len();

    /// Converts from the numbers in the order of [`Phase`].
    pub fn from_array(numbers: [u64; Self::LEN]) -> Self {
        Self(numbers)
    }

    /// Converts to the numbers in the order of [`Phase`].
    pub fn to_array(self) -> [u64; Self::LEN] {
        self.0
    }

    /// The numbers with the names of their phases.
    pub fn named(self) -> impl Iterator<Item = (&'static str, u64)> {
        NAMES.iter().copied().zip(self.0)
    }

    /// Adds the numbers of another worker.
    pub fn add(&mut self, other: &Self) {
        for (number, more) in self.0.iter_mut().zip(other.0) {
            *number += more;
        }
    }
}

impl Index<Phase> for Phases {
    type Output = u64;

    fn index(&self, phase: Phase) -> &u64 {
        &self.0[phase as usize]
    }
}

impl IndexMut<Phase> for Phases {
    fn index_mut(&mut self, phase: Phase) -> &mut u64 {
        &mut self.0[phase as usize]
    }
}

impl Serialize for Phases {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.named())
    }
}
