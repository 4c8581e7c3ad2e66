//! Queues of ids within one thread: some are posted, then all are taken.

use std::collections::VecDeque;
use std::hint::black_box;

use crossbeam_queue::SegQueue;
use evcore::posted::{PostedQueue, TurnQueue};

use super::Peer;

/// Ids that are posted, spread by a step that is prime to their number.
const IDS: u32 = 1 << 14;
const STEP: u32 = 5_003;

/// The peers, the baseline first.
pub(super) fn peers(batch: usize) -> Vec<Peer> {
    let mut plain = VecDeque::new();
    let mut once = Once::new();
    let crossbeam = SegQueue::new();
    let mut posted = PostedQueue::with_capacity(IDS);
    let mut turns = TurnQueue::with_capacity(IDS);
    vec![
        peer("VecDeque", batch, move |turn| match turn {
            Turn::Post(id) => {
                plain.push_back(id);
                None
            }
            Turn::Take => plain.pop_front(),
        }),
        peer("VecDeque, each once", batch, move |turn| match turn {
            Turn::Post(id) => once.post(id),
            Turn::Take => once.take(),
        }),
        peer("crossbeam SegQueue", batch, move |turn| match turn {
            Turn::Post(id) => {
                crossbeam.push(id);
                None
            }
            Turn::Take => crossbeam.pop(),
        }),
        peer("PostedQueue", batch, move |turn| match turn {
            Turn::Post(id) => {
                posted.post(id);
                None
            }
            Turn::Take => posted.pop(),
        }),
        peer("TurnQueue", batch, move |turn| match turn {
            Turn::Post(id) => {
                turns.post(id);
                None
            }
            Turn::Take => turns.pop(),
        }),
    ]
}

/// The operations of a queue.
#[derive(Clone, Copy)]
enum Turn {
    Post(u32),
    Take,
}

/// A `batch` is posted and taken until there were enough; an operation is a post and a taking.
fn peer(
    name: &'static str,
    batch: usize,
    mut queue: impl FnMut(Turn) -> Option<u32> + 'static,
) -> Peer {
    let mut id = 0;
    Peer::new(name, move |operations| {
        for _ in 0..operations / batch {
            for _ in 0..batch {
                id = (id + STEP) % IDS;
                queue(Turn::Post(id));
            }
            while let Some(id) = queue(Turn::Take) {
                black_box(id);
            }
        }
    })
}

/// What the queues of ids promise, with a `VecDeque`: an id is queued once.
struct Once {
    queue: VecDeque<u32>,
    is_queued: Vec<bool>,
}

impl Once {
    fn new() -> Once {
        Once {
            queue: VecDeque::new(),
            is_queued: vec![false; IDS as usize],
        }
    }

    fn post(&mut self, id: u32) -> Option<u32> {
        let is_queued = &mut self.is_queued[id as usize];
        if !std::mem::replace(is_queued, true) {
            self.queue.push_back(id);
        }
        None
    }

    fn take(&mut self) -> Option<u32> {
        let id = self.queue.pop_front()?;
        self.is_queued[id as usize] = false;
        Some(id)
    }
}
