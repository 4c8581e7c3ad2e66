//! Counters (`eventfd`), and pairs of Unix sockets of type `SOCK_SEQPACKET`, whose messages carry
//! descriptors.

use std::collections::VecDeque;

use super::EndpointId;
use crate::watch_id::WatchId;

/// One end of a pair, by its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChannelId(pub(crate) u32);

impl ChannelId {
    pub(crate) const fn other(self) -> Self {
        Self(self.0 ^ 1)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CounterId(pub(crate) u32);

/// An object whose descriptors can be sent in messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carried {
    Endpoint(EndpointId),
    Channel(ChannelId),
    Counter(CounterId),
}

/// Maximum number of messages that wait at an end.
pub(crate) const MESSAGES_MAX: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct ChannelEnd {
    /// Messages that have arrived, the oldest first.
    pub(crate) messages: VecDeque<Message>,
    // Invariant: the number of descriptors of this end, including descriptors under way. At 0, the
    // end is closed.
    pub(crate) references: u32,
    /// True if this end takes no further message (`SHUT_RD`).
    pub(crate) refuses_messages: bool,
    /// True if either end was shut down in both directions.
    pub(crate) is_ended: bool,
    pub(crate) watches: Vec<WatchId>,
}

/// A message, and the objects whose descriptors are under way with it.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) bytes: Vec<u8>,
    pub(crate) objects: Vec<Carried>,
}

#[derive(Debug, Default)]
pub(crate) struct Channels {
    ends: Vec<ChannelEnd>,
    counters: Vec<bool>,
}

impl Channels {
    pub(crate) fn pair(&mut self) -> [ChannelId; 2] {
        let first = ChannelId(u32::try_from(self.ends.len()).expect("there are fewer"));
        for _ in 0..2 {
            self.ends.push(ChannelEnd {
                references: 1,
                ..ChannelEnd::default()
            });
        }
        [first, first.other()]
    }

    pub(crate) fn end(&self, id: ChannelId) -> &ChannelEnd {
        &self.ends[id.0 as usize]
    }

    pub(crate) fn end_mut(&mut self, id: ChannelId) -> &mut ChannelEnd {
        &mut self.ends[id.0 as usize]
    }

    pub(crate) fn counter(&mut self) -> CounterId {
        self.counters.push(false);
        CounterId(u32::try_from(self.counters.len() - 1).expect("there are fewer"))
    }

    pub(crate) fn count_up(&mut self, id: CounterId) {
        self.counters[id.0 as usize] = true;
    }

    pub(crate) fn has_counted(&self, id: CounterId) -> bool {
        self.counters[id.0 as usize]
    }

    /// Returns whether the other end is closed, or either end was shut down in both directions.
    pub(crate) fn is_hung_up(&self, id: ChannelId) -> bool {
        self.end(id).is_ended || self.end(id.other()).references == 0
    }

    pub(crate) fn is_readable(&self, id: ChannelId) -> bool {
        !self.end(id).messages.is_empty() || self.is_hung_up(id)
    }
}
