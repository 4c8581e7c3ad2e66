//! What workers share so that one of them always listens, in plain memory: the words of the very
//! protocol that ships, and a bell a seat.

use std::{num::NonZeroU32, sync::atomic::AtomicU32};

use evcore::balancer::{RawPeers, SeatWords};

use crate::poll::WatchId;

/// The seats of one server's workers.
#[derive(Debug)]
pub(crate) struct Seats {
    keeper: AtomicU32,
    words: Vec<SeatWords<AtomicU32>>,
    bells: Vec<Bell>,
}

/// What a call makes readable, until it is made silent. As the parent's, it outlives the workers.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    pub(crate) rings: bool,
    /// The pollers that watch it.
    pub(crate) watches: Vec<WatchId>,
}

/// A seat, by its server and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SeatId {
    pub(crate) server: u32,
    pub(crate) index: u32,
}

impl Seats {
    pub(crate) fn new(seats: usize) -> Self {
        Self {
            keeper: AtomicU32::new(0),
            words: (0..seats).map(|_| SeatWords::default()).collect(),
            bells: (0..seats).map(|_| Bell::default()).collect(),
        }
    }

    /// The algorithm over these words.
    pub(crate) fn raw(&self) -> RawPeers<'_, AtomicU32> {
        RawPeers::new(&self.keeper, &self.words)
    }

    pub(crate) fn bell(&self, index: u32) -> &Bell {
        &self.bells[index as usize]
    }

    pub(crate) fn bell_mut(&mut self, index: u32) -> &mut Bell {
        &mut self.bells[index as usize]
    }
}

/// Under which name a process is known to its peers: no process of the world has 0 there.
pub(crate) fn owner(process: u32) -> NonZeroU32 {
    NonZeroU32::MIN.saturating_add(process)
}
