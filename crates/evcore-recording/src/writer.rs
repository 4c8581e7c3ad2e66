//! Writes a recording into memory of a bounded size.

use crate::{
    call::What,
    format::{CLEAN, FULL, HEADER, Head, Header, OPEN, TURN_HEADER, checksum},
};

/// Minimum length of the memory: the header, and the mark that nothing else fits.
pub(crate) const MIN_BYTES: usize = HEADER + TURN_HEADER;

pub(crate) trait Memory: AsMut<[u8]> + AsRef<[u8]> + Send {}

impl<M: AsMut<[u8]> + AsRef<[u8]> + Send> Memory for M {}

pub(crate) struct Writer {
    memory: Box<dyn Memory>,
    header: Header,
    /// The number of the turn that is under way.
    turn: u64,
    /// The offset at which that turn begins.
    // Invariant: there is room for the header of a turn.
    begin: usize,
    /// The offset at which the calls of that turn end.
    end: usize,
    /// True if a call has found no room since the recording last began.
    is_full: bool,
}

impl Writer {
    /// Begins a recording.
    ///
    /// # Panics
    ///
    /// If the memory is smaller than [`MIN_BYTES`].
    pub(crate) fn new(memory: Box<dyn Memory>) -> Self {
        let mut writer = Self {
            memory,
            header: Header {
                capabilities: 0,
                epoch: 0,
            },
            turn: 0,
            begin: HEADER,
            end: HEADER + TURN_HEADER,
            is_full: false,
        };
        writer.restart();
        writer
    }

    pub(crate) fn set_capabilities(&mut self, capabilities: u32) {
        self.header.capabilities = capabilities;
        let header = self.header.to_bytes();
        self.memory()[..HEADER].copy_from_slice(&header);
    }

    pub(crate) fn restart(&mut self) {
        // The turns are removed first, because a kill between the two writes must not leave a new
        // header with old turns.
        self.put(HEADER, CLEAN);
        self.header.epoch += 1;
        let header = self.header.to_bytes();
        self.memory()[..HEADER].copy_from_slice(&header);
        (self.turn, self.is_full) = (0, false);
        self.begin_turn(HEADER);
    }

    /// Adds a call to the turn. When there is no room, nothing more is recorded until a restart.
    pub(crate) fn call(&mut self, what: What, of: u32, result: i64, bytes: &[u8]) {
        if self.is_full {
            return;
        }
        let head = Head::of(what, of, result, bytes.len());
        let (at, head) = (self.end, head.as_bytes());
        let middle = at + head.len();
        let end = middle + bytes.len();
        // The next turn needs room for its header after the end of this turn.
        if end + TURN_HEADER > self.memory().len() {
            self.is_full = true;
            let begin = self.begin;
            self.put(begin, FULL);
        } else {
            if self.end == self.begin + TURN_HEADER {
                let begin = self.begin;
                self.put(begin, OPEN);
            }
            let memory = self.memory();
            memory[at..middle].copy_from_slice(head);
            memory[middle..end].copy_from_slice(bytes);
            self.end = end;
        }
    }

    /// Ends the turn, so that a reader gets it even if nothing else is written.
    pub(crate) fn seal(&mut self) {
        let (begin, end) = (self.begin, self.end);
        let calls = begin + TURN_HEADER;
        if self.is_full || end == calls {
            return;
        }
        let (epoch, turn) = (self.header.epoch, self.turn);
        let memory = self.memory();
        let checksum = checksum(epoch, turn, &memory[calls..end]);
        memory[begin + 4..calls].copy_from_slice(&checksum.to_le_bytes());
        let length = u32::try_from(end - calls).expect("the memory is smaller");
        // The next header is written first, because a reader that finds this turn goes on with the
        // next header.
        self.put(end, CLEAN);
        self.put(begin, length);
        self.turn += 1;
        self.begin_turn(end);
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        (*self.memory).as_ref()
    }

    pub(crate) fn position(&self) -> (u64, usize) {
        (self.turn, self.end)
    }

    pub(crate) fn is_full(&self) -> bool {
        self.is_full
    }

    pub(crate) fn is_half_full(&self) -> bool {
        self.is_full || self.end >= self.bytes().len() / 2
    }

    fn begin_turn(&mut self, at: usize) {
        self.put(at, CLEAN);
        (self.begin, self.end) = (at, at + TURN_HEADER);
    }

    fn put(&mut self, at: usize, number: u32) {
        self.memory()[at..at + 4].copy_from_slice(&number.to_le_bytes());
    }

    fn memory(&mut self) -> &mut [u8] {
        (*self.memory).as_mut()
    }
}
