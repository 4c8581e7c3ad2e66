//! The format of a recording in memory, and so in its file.
//!
//! ```text
//! header   "evcorec\n", version: u32, capabilities: u32, epoch: u64, checksum of these: u32, 0: u32
//! turn     length: u32, checksum: u32, then calls of this many bytes
//! call     what: u8, of: varint, result: zigzag varint, length: varint, bytes
//! ```
//!
//! A turn has the calls from the beginning of one wait of the event loop to the beginning of the
//! next wait. Numbers are little-endian. Behind the last turn, [`CLEAN`], [`OPEN`] or [`FULL`]
//! stands in place of a length. Each restart of a recording begins a new epoch. The checksum of a
//! turn also covers the epoch and the number of the turn, so that no turn of an earlier epoch is
//! taken for one of the present epoch.
//!
//! The reader trusts nothing: it takes the turns up to the first one that is not whole.

use crate::call::{Call, What};

pub(crate) const MAGIC: [u8; 8] = *b"evcorec\n";

/// The only version that this crate writes and reads.
pub(crate) const VERSION: u32 = 1;

pub(crate) const HEADER: usize = 32;

/// The length of a turn's header.
pub(crate) const TURN_HEADER: usize = 8;

/// The value in place of a turn's length if no turn follows.
pub(crate) const CLEAN: u32 = 0;

/// The value in place of a turn's length if the turn was under way.
pub(crate) const OPEN: u32 = u32::MAX;

/// The value in place of a turn's length if there was no room for the turn.
pub(crate) const FULL: u32 = u32::MAX - 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// The capabilities of the recorded backend, as bits.
    pub(crate) capabilities: u32,
    /// Number of times that the recording has begun.
    pub(crate) epoch: u64,
}

impl Header {
    pub(crate) fn to_bytes(self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.capabilities.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.epoch.to_le_bytes());
        let checksum = crc32fast::hash(&bytes[..24]);
        bytes[24..28].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }
}

/// The encoded head of a call, which precedes its bytes.
pub(crate) struct Head {
    bytes: [u8; 1 + 5 + 10 + 10],
    length: usize,
}

impl Head {
    pub(crate) fn of(what: What, of: u32, result: i64, length: usize) -> Self {
        let mut head = Self {
            bytes: [0; 26],
            length: 1,
        };
        head.bytes[0] = what as u8;
        head.put_varint(u64::from(of));
        let zigzag = (result << 1) ^ (result >> 63);
        head.put_varint(zigzag as u64);
        head.put_varint(length as u64);
        head
    }

    fn put_varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.bytes[self.length] = (number & 0x7f) as u8 | 0x80;
            self.length += 1;
            number >>= 7;
        }
        self.bytes[self.length] = (number & 0x7f) as u8;
        self.length += 1;
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// Decodes the calls of a turn. Returns `None` if the bytes are not calls.
pub(crate) fn decode(mut bytes: &[u8]) -> Option<Vec<Call>> {
    let mut calls = Vec::new();
    while let Some((what, rest)) = bytes.split_first() {
        bytes = rest;
        let what = What::from_number(*what)?;
        let of = u32::try_from(take_varint(&mut bytes)?).ok()?;
        let zigzag = take_varint(&mut bytes)?;
        let result = (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64);
        let length = usize::try_from(take_varint(&mut bytes)?).ok()?;
        let (own, rest) = bytes.split_at_checked(length)?;
        bytes = rest;
        calls.push(Call::new(what, of, result).with_bytes(own));
    }
    Some(calls)
}

fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

pub(crate) fn checksum(epoch: u64, turn: u64, calls: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&epoch.to_le_bytes());
    hasher.update(&turn.to_le_bytes());
    hasher.update(calls);
    hasher.finalize()
}

pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    let bytes = bytes.get(offset..offset.checked_add(4)?)?;
    bytes.try_into().ok().map(u32::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_call() -> impl Strategy<Value = Call> {
        let bytes = prop::collection::vec(any::<u8>(), 0..40);
        (0..25_u8, any::<u32>(), any::<i64>(), bytes).prop_map(|(what, of, result, bytes)| {
            let what = What::from_number(what).expect("it is a kind");
            Call::new(what, of, result).with_bytes(&bytes)
        })
    }

    proptest! {
        #[test]
        fn calls_come_back_as_they_were(calls in prop::collection::vec(any_call(), 0..20)) {
            let mut bytes = Vec::new();
            for call in &calls {
                let head = Head::of(call.what, call.of, call.result, call.bytes.len());
                bytes.extend_from_slice(head.as_bytes());
                bytes.extend_from_slice(&call.bytes);
            }
            prop_assert_eq!(decode(&bytes), Some(calls));
        }

        #[test]
        fn decoding_any_bytes_does_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = decode(&bytes);
        }
    }
}
