//! Reads a recording.

use std::ops::Range;

use evcore::poller::Capabilities;

use crate::{
    call::Call,
    format::{
        CLEAN, FULL, HEADER, Header, MAGIC, OPEN, TURN_HEADER, VERSION, checksum, decode, u32_at,
    },
};

/// Everything that a worker got from outside, turn by turn. A turn is one iteration of its event
/// loop.
///
/// ```
/// use evcore_recording::{Recorder, Recording, Refused};
///
/// let recorder = Recorder::in_memory(1 << 16);
/// let recording = Recording::read(&recorder.to_bytes())?;
/// assert_eq!(recording.len(), 0);
/// assert_eq!(Recording::read(b"PNG").unwrap_err(), Refused::Foreign);
/// # Ok::<(), Refused>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    capabilities: u32,
    bytes: Vec<u8>,
    /// The range of the calls of each turn in `bytes`.
    turns: Vec<Range<usize>>,
    end: End,
}

/// The end of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The recording ends after a whole turn.
    Whole,
    /// The recording ends in the middle of a turn, which is left out: the process was killed, or it
    /// is still running.
    Unfinished,
    /// The recording was full, and the worker went on without it.
    Full,
    /// The rest of the recording is damaged: the file was cut, or written over.
    Torn,
}

/// The reason why bytes cannot be read as a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The bytes do not begin as a recording does.
    #[error("this is not a recording: it does not begin with `evcorec`")]
    Foreign,
    /// The recording has another version of the format.
    #[error(
        "this recording has version {0} of the format, and this program reads version {VERSION}"
    )]
    Version(u32),
    /// The header of the recording is damaged.
    #[error("the header of this recording is cut or damaged, so nothing of it can be read")]
    Header,
}

impl Recording {
    /// Reads a recording, up to its end or up to the first damage.
    ///
    /// # Errors
    ///
    /// If the bytes do not begin with a whole header of this version.
    pub fn read(bytes: &[u8]) -> Result<Self, Refused> {
        let header = header_of(bytes)?;
        let mut recording = Self {
            capabilities: header.capabilities,
            bytes: Vec::new(),
            turns: Vec::new(),
            end: End::Torn,
        };
        let mut at = HEADER;
        while let Some(length) = u32_at(bytes, at) {
            let end = match length {
                CLEAN => End::Whole,
                OPEN => End::Unfinished,
                FULL => End::Full,
                _ => {
                    let Some(calls) = recording.turn_at(bytes, at, length, header.epoch) else {
                        break;
                    };
                    recording.turns.push(calls);
                    at += TURN_HEADER + length as usize;
                    continue;
                }
            };
            recording.end = end;
            break;
        }
        recording.bytes = bytes[..at.min(bytes.len())].to_vec();
        Ok(recording)
    }

    /// The turn at an offset, if it is whole.
    fn turn_at(&self, bytes: &[u8], at: usize, length: u32, epoch: u64) -> Option<Range<usize>> {
        let begin = at.checked_add(TURN_HEADER)?;
        let range = begin..begin.checked_add(length as usize)?;
        let calls = bytes.get(range.clone())?;
        let turn = self.turns.len() as u64;
        let is_whole = u32_at(bytes, at + 4)? == checksum(epoch, turn, calls);
        (is_whole && decode(calls).is_some()).then_some(range)
    }

    /// Number of turns.
    #[must_use]
    pub fn len(&self) -> usize {
        self.turns.len()
    }

    /// Returns whether the recording has no complete turn.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// The calls of the turn with this number, from 0. O(calls).
    #[must_use]
    pub fn turn(&self, number: usize) -> Option<Vec<Call>> {
        decode(&self.bytes[self.turns.get(number)?.clone()])
    }

    /// The calls of each turn.
    #[must_use]
    pub fn turns(&self) -> impl ExactSizeIterator<Item = Vec<Call>> + '_ {
        (0..self.len()).map(|number| self.turn(number).unwrap_or_default())
    }

    /// The end of the recording.
    #[must_use]
    pub fn end(&self) -> End {
        self.end
    }

    pub(crate) fn capabilities(&self) -> Capabilities {
        let has = |bit: u32| self.capabilities & (1 << bit) != 0;
        let mut capabilities = Capabilities::default();
        capabilities.edge = has(0);
        capabilities.oneshot = has(1);
        capabilities.exclusive = has(2);
        capabilities.batches_changes = has(3);
        capabilities.watches_files = has(4);
        capabilities.simulated = true;
        capabilities
    }
}

pub(crate) fn bits_of(capabilities: Capabilities) -> u32 {
    let all = [
        capabilities.edge,
        capabilities.oneshot,
        capabilities.exclusive,
        capabilities.batches_changes,
        capabilities.watches_files,
    ];
    let bits = all.into_iter().zip(0..);
    bits.fold(0, |bits, (has, bit)| bits | u32::from(has) << bit)
}

fn header_of(bytes: &[u8]) -> Result<Header, Refused> {
    if !bytes.starts_with(&MAGIC) {
        return Err(Refused::Foreign);
    }
    let version = u32_at(bytes, 8).ok_or(Refused::Header)?;
    if version != VERSION {
        return Err(Refused::Version(version));
    }
    let (Some(capabilities), Some(low), Some(high)) =
        (u32_at(bytes, 12), u32_at(bytes, 16), u32_at(bytes, 20))
    else {
        return Err(Refused::Header);
    };
    let header = Header {
        capabilities,
        epoch: u64::from(high) << 32 | u64::from(low),
    };
    let is_whole = bytes.get(..HEADER) == Some(&header.to_bytes()[..]);
    is_whole.then_some(header).ok_or(Refused::Header)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{call::What, writer::Writer};

    const BYTES: usize = 400;

    fn received(text: &str) -> Call {
        let count = i64::try_from(text.len()).expect("short");
        Call::new(What::Recv, 3, count).with_bytes(text.as_bytes())
    }

    fn write(writer: &mut Writer, text: &str) {
        let call = received(text);
        writer.call(call.what, call.of, call.result, &call.bytes);
    }

    /// Three turns, of one, two and three calls.
    fn three_turns() -> Writer {
        let mut writer = Writer::new(Box::new(vec![0xaa; BYTES]));
        for turn in 1..=3 {
            (0..turn).for_each(|_| write(&mut writer, "hello"));
            writer.seal();
        }
        writer
    }

    fn begins_with(whole: &Recording, cut: &Recording) -> bool {
        cut.turns().zip(whole.turns()).all(|(one, two)| one == two) && cut.len() <= whole.len()
    }

    #[test]
    fn whole_turns_are_read_and_an_unfinished_one_is_left_out() {
        let mut writer = three_turns();
        let read = |writer: &Writer| Recording::read(writer.bytes()).expect("it has a header");
        let recording = read(&writer);
        let lengths: Vec<_> = recording.turns().map(|calls| calls.len()).collect();
        assert_eq!((lengths, recording.end()), (vec![1, 2, 3], End::Whole));
        assert_eq!(recording.turn(2).unwrap()[2], received("hello"));
        write(&mut writer, "and more");
        let recording = read(&writer);
        assert_eq!((recording.len(), recording.end()), (3, End::Unfinished));
    }

    #[test]
    fn a_restart_forgets_what_was_recorded() {
        let mut writer = three_turns();
        writer.restart();
        assert_eq!(Recording::read(writer.bytes()).unwrap().len(), 0);
        write(&mut writer, "hello");
        writer.seal();
        // The new turn is as long as the old first turn, so the old second turn follows it in
        // memory.
        let recording = Recording::read(writer.bytes()).unwrap();
        assert_eq!((recording.len(), recording.end()), (1, End::Whole));
    }

    #[test]
    fn a_full_recording_keeps_its_whole_turns() {
        let mut writer = three_turns();
        for _ in 0..BYTES {
            write(&mut writer, "x");
        }
        writer.seal();
        assert!(writer.is_full());
        let recording = Recording::read(writer.bytes()).unwrap();
        assert_eq!((recording.len(), recording.end()), (3, End::Full));
        writer.restart();
        write(&mut writer, "x");
        writer.seal();
        assert_eq!(Recording::read(writer.bytes()).unwrap().len(), 1);
    }

    #[test]
    fn a_cut_or_damaged_recording_is_read_up_to_the_damage() {
        let writer = three_turns();
        let whole = Recording::read(writer.bytes()).unwrap();
        for length in 0..BYTES {
            let Ok(cut) = Recording::read(&writer.bytes()[..length]) else {
                assert!(length < HEADER);
                continue;
            };
            assert!(begins_with(&whole, &cut), "cut after {length}");
        }
        for at in 0..BYTES {
            let mut bytes = writer.bytes().to_vec();
            bytes[at] ^= 0x10;
            let Ok(damaged) = Recording::read(&bytes) else {
                assert!(at < HEADER);
                continue;
            };
            assert!(begins_with(&whole, &damaged), "damaged at {at}");
        }
    }

    #[test]
    fn what_is_not_a_recording_is_refused_with_the_reason() {
        let refused = |bytes: &[u8]| Recording::read(bytes).unwrap_err();
        assert_eq!(refused(b""), Refused::Foreign);
        assert_eq!(refused(b"evcorec\n"), Refused::Header);
        let mut bytes = three_turns().bytes().to_vec();
        bytes[8] = 2;
        assert_eq!(refused(&bytes), Refused::Version(2));
        bytes[8] = 1;
        bytes[16] ^= 1;
        assert_eq!(refused(&bytes), Refused::Header);
    }

    #[test]
    fn capabilities_come_back() {
        let mut capabilities = Capabilities::default();
        (capabilities.edge, capabilities.watches_files) = (true, true);
        let mut writer = three_turns();
        writer.set_capabilities(bits_of(capabilities));
        capabilities.simulated = true;
        let recording = Recording::read(writer.bytes()).unwrap();
        assert_eq!(recording.capabilities(), capabilities);
        assert_eq!(recording.len(), 3);
    }
}
