//! The messages of the handover protocol, as bytes. This file makes no system call.
//!
//! Each message is one packet. Numbers are little-endian, and a header comes first:
//!
//! | bytes | field |
//! |---|---|
//! | 4 | [`MAGIC`] |
//! | 1 | the version of this protocol |
//! | 1 | the kind of the message |
//! | 2 | in a batch the number of its connections, in a refusal the reason |
//! | 4 | the version of the program's state |
//! | 8 | the number of the batch |
//!
//! In a batch, the lengths of the states follow, 4 bytes each, and then the states. The highest bit
//! of a length is set if the connection has a partner. The descriptors are in the order of the
//! connections. A partner's descriptor comes after the connection's own.

use std::ops::Range;

use crate::refusal::Refusal;

/// Maximum number of connections in a batch. A connection with a partner counts twice. This is
/// Linux's limit on the descriptors of a message (`SCM_MAX_FD`).
pub const BATCH_CONNECTIONS_MAX: usize = 253;

/// Maximum number of bytes in one connection's state, and in all states of a batch together.
pub const STATE_BYTES_MAX: usize = 60 << 10;

pub(crate) const MESSAGE_BYTES_MAX: usize =
    HEADER_BYTES + BATCH_CONNECTIONS_MAX * LENGTH_BYTES + STATE_BYTES_MAX;

/// The length of a header, and of each message that is not a batch.
pub(crate) const HEADER_BYTES: usize = 20;

const LENGTH_BYTES: usize = 4;
const MAGIC: [u8; 4] = *b"evHO";
const PROTOCOL: u8 = 1;

/// The bit of a length that marks a connection with a partner.
const HAS_PARTNER: u32 = 1 << 31;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry<S> {
    /// The state of the connection, or the place of the state in the message.
    pub(crate) state: S,
    pub(crate) has_partner: bool,
}

impl<S> Entry<S> {
    pub(crate) fn descriptors(&self) -> usize {
        1 + usize::from(self.has_partner)
    }
}

/// A message without its descriptors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// The only kind of message in a mailbox. It carries the receiver's end of a channel and the
    /// revocation (the `eventfd` that shows whether the sender has taken its connections back).
    Introduction { version: u32 },
    /// The receiver has taken its end of the channel from the mailbox.
    Greeting { version: u32 },
    Batch {
        version: u32,
        number: u64,
        entries: Vec<Entry<Range<usize>>>,
    },
    /// The receiver owns the connections of a batch.
    Acknowledged { number: u64 },
    /// The receiver has dropped all connections of a batch.
    Refused { number: u64, reason: Refusal },
}

#[derive(Clone, Copy)]
#[repr(u8)]
enum Kind {
    Introduction = 1,
    Greeting,
    Batch,
    Acknowledged,
    Refused,
}

fn header(kind: Kind, count: u16, version: u32, number: u64) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..4].copy_from_slice(&MAGIC);
    bytes[4] = PROTOCOL;
    bytes[5] = kind as u8;
    bytes[6..8].copy_from_slice(&count.to_le_bytes());
    bytes[8..12].copy_from_slice(&version.to_le_bytes());
    bytes[12..].copy_from_slice(&number.to_le_bytes());
    bytes
}

pub(crate) fn introduction(version: u32) -> [u8; HEADER_BYTES] {
    header(Kind::Introduction, 0, version, 0)
}

pub(crate) fn greeting(version: u32) -> [u8; HEADER_BYTES] {
    header(Kind::Greeting, 0, version, 0)
}

pub(crate) fn acknowledged(number: u64) -> [u8; HEADER_BYTES] {
    header(Kind::Acknowledged, 0, 0, number)
}

pub(crate) fn refused(number: u64, reason: Refusal) -> [u8; HEADER_BYTES] {
    header(Kind::Refused, reason.code(), 0, number)
}

/// Replaces the contents of `out` with a batch of these connections, which must be within the
/// limits.
pub(crate) fn batch<'a>(
    out: &mut Vec<u8>,
    version: u32,
    number: u64,
    entries: impl ExactSizeIterator<Item = Entry<&'a [u8]>> + Clone,
) {
    let count = u16::try_from(entries.len()).expect("a batch has at most 253 connections");
    out.clear();
    out.extend(header(Kind::Batch, count, version, number));
    for entry in entries.clone() {
        let length = u32::try_from(entry.state.len()).expect("a state has at most 60 KiB");
        let partner = if entry.has_partner { HAS_PARTNER } else { 0 };
        out.extend((length | partner).to_le_bytes());
    }
    entries.for_each(|entry| out.extend(entry.state));
}

/// The number of connections, from the first on, that fit into one batch.
pub(crate) fn batch_size<'a>(entries: impl Iterator<Item = Entry<&'a [u8]>>) -> usize {
    let (mut bytes, mut descriptors) = (STATE_BYTES_MAX, BATCH_CONNECTIONS_MAX);
    let fits = entries.map_while(|entry| {
        bytes = bytes.checked_sub(entry.state.len())?;
        descriptors = descriptors.checked_sub(entry.descriptors())?;
        Some(())
    });
    fits.count()
}

struct Header {
    kind: u8,
    count: u16,
    version: u32,
    number: u64,
}

fn split_header(bytes: &[u8]) -> Result<(Header, &[u8]), &'static str> {
    let (header, rest) = bytes
        .split_first_chunk::<HEADER_BYTES>()
        .ok_or("it is shorter than a header")?;
    let [
        m0,
        m1,
        m2,
        m3,
        protocol,
        kind,
        c0,
        c1,
        v0,
        v1,
        v2,
        v3,
        number @ ..,
    ] = *header;
    if [m0, m1, m2, m3] != MAGIC {
        return Err("it does not begin with the protocol's magic number");
    }
    if protocol != PROTOCOL {
        return Err("it has another version of the protocol");
    }
    let header = Header {
        kind,
        count: u16::from_le_bytes([c0, c1]),
        version: u32::from_le_bytes([v0, v1, v2, v3]),
        number: u64::from_le_bytes(number),
    };
    Ok((header, rest))
}

/// The number of a batch, whose message may be cut off. `None` if the message is not a batch.
pub(crate) fn batch_number(bytes: &[u8]) -> Option<u64> {
    let (header, _) = split_header(bytes).ok()?;
    (header.kind == Kind::Batch as u8).then_some(header.number)
}

pub(crate) fn parse(bytes: &[u8]) -> Result<Message, &'static str> {
    let (header, rest) = split_header(bytes)?;
    let Header {
        kind,
        count,
        version,
        number,
    } = header;
    if kind == Kind::Batch as u8 {
        let entries = entries(usize::from(count), rest)?;
        return Ok(Message::Batch {
            version,
            number,
            entries,
        });
    }
    if !rest.is_empty() {
        return Err("there are bytes after the header");
    }
    match kind {
        _ if kind == Kind::Introduction as u8 => Ok(Message::Introduction { version }),
        _ if kind == Kind::Greeting as u8 => Ok(Message::Greeting { version }),
        _ if kind == Kind::Acknowledged as u8 => Ok(Message::Acknowledged { number }),
        _ if kind == Kind::Refused as u8 => {
            let reason = Refusal::from_code(count).ok_or("it refuses for an unknown reason")?;
            Ok(Message::Refused { number, reason })
        }
        _ => Err("it is of an unknown kind"),
    }
}

/// Reads `count` connections. Their states must end where the message ends.
fn entries(count: usize, rest: &[u8]) -> Result<Vec<Entry<Range<usize>>>, &'static str> {
    if !(1..=BATCH_CONNECTIONS_MAX).contains(&count) {
        return Err("a batch has 1 to 253 connections");
    }
    let (lengths, states) = rest
        .split_at_checked(count * LENGTH_BYTES)
        .ok_or("the lengths of its states are cut off")?;
    if states.len() > STATE_BYTES_MAX {
        return Err("its states are longer than the limit");
    }
    let first = HEADER_BYTES + lengths.len();
    let (mut start, end) = (first, first + states.len());
    let mut entries = Vec::with_capacity(count);
    for length in lengths.chunks_exact(LENGTH_BYTES) {
        let length = u32::from_le_bytes(length.try_into().expect("a chunk has 4 bytes"));
        let has_partner = length & HAS_PARTNER != 0;
        let next = start.checked_add((length & !HAS_PARTNER) as usize);
        let next = next.filter(|next| *next <= end);
        let next = next.ok_or("its states are shorter than their lengths")?;
        let state = start..next;
        entries.push(Entry { state, has_partner });
        start = next;
    }
    if start != end {
        return Err("its states are longer than their lengths");
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn alone<'a>(states: &'a [Vec<u8>]) -> Vec<Entry<&'a [u8]>> {
        let entry = |state: &'a Vec<u8>| Entry {
            state: state.as_slice(),
            has_partner: false,
        };
        states.iter().map(entry).collect()
    }

    fn encoded(version: u32, number: u64, entries: &[Entry<&[u8]>]) -> Vec<u8> {
        let mut bytes = vec![0xff; 3];
        batch(&mut bytes, version, number, entries.iter().cloned());
        bytes
    }

    #[test]
    fn messages_without_connections_are_parsed_as_they_were_written() {
        for reason in [
            Refusal::Declined,
            Refusal::NoDescriptors,
            Refusal::Malformed,
        ] {
            let number = u64::MAX - 1;
            let message = parse(&refused(number, reason));
            assert_eq!(message, Ok(Message::Refused { number, reason }));
        }
        let version = 0x0102_0304;
        assert_eq!(
            parse(&introduction(version)),
            Ok(Message::Introduction { version })
        );
        assert_eq!(parse(&greeting(version)), Ok(Message::Greeting { version }));
        assert_eq!(
            parse(&acknowledged(7)),
            Ok(Message::Acknowledged { number: 7 })
        );
    }

    #[test]
    fn each_fault_has_its_reason() {
        let good = encoded(1, 2, &alone(&[b"ab".to_vec(), b"c".to_vec()]));
        let changed = |place: usize, byte: u8| {
            let mut bytes = good.clone();
            bytes[place] = byte;
            parse(&bytes).unwrap_err()
        };
        assert_eq!(parse(&[]), Err("it is shorter than a header"));
        assert_eq!(
            changed(0, 0),
            "it does not begin with the protocol's magic number"
        );
        assert_eq!(changed(4, 2), "it has another version of the protocol");
        assert_eq!(
            parse(&good[..HEADER_BYTES]),
            Err("the lengths of its states are cut off")
        );
        assert_eq!(changed(6, 0), "a batch has 1 to 253 connections");
        assert_eq!(changed(6, 254), "a batch has 1 to 253 connections");
        assert_eq!(changed(6, 200), "the lengths of its states are cut off");
        assert_eq!(
            changed(HEADER_BYTES, 3 + 1),
            "its states are shorter than their lengths"
        );
        assert_eq!(
            changed(HEADER_BYTES, 1),
            "its states are longer than their lengths"
        );
        assert_eq!(changed(5, 4), "there are bytes after the header");
        assert_eq!(
            parse(&header(Kind::Refused, 99, 0, 0)),
            Err("it refuses for an unknown reason")
        );
        let mut unknown = acknowledged(1);
        unknown[5] = 99;
        assert_eq!(parse(&unknown), Err("it is of an unknown kind"));
        let long = encoded(1, 2, &alone(&[vec![0; STATE_BYTES_MAX], vec![0]]));
        assert_eq!(parse(&long), Err("its states are longer than the limit"));
    }

    #[test]
    fn the_longest_batch_fits_into_the_longest_message() {
        let mut states = vec![Vec::new(); BATCH_CONNECTIONS_MAX];
        states[7] = vec![1; STATE_BYTES_MAX];
        assert_eq!(encoded(1, 1, &alone(&states)).len(), MESSAGE_BYTES_MAX);
    }

    #[test]
    fn a_batch_takes_what_fits() {
        let bytes = vec![0; STATE_BYTES_MAX + 1];
        let size = |lengths: &[usize], has_partner| {
            let states = lengths.iter().map(|length| &bytes[..*length]);
            batch_size(states.map(|state| Entry { state, has_partner }))
        };
        assert_eq!(size(&[], false), 0);
        assert_eq!(size(&[0; 300], false), BATCH_CONNECTIONS_MAX);
        assert_eq!(size(&[0; 300], true), BATCH_CONNECTIONS_MAX / 2);
        assert_eq!(size(&[STATE_BYTES_MAX, 0, 1], false), 2);
        assert_eq!(size(&[STATE_BYTES_MAX + 1], false), 0);
    }

    proptest! {
        #[test]
        fn a_batch_is_parsed_as_it_was_written(
            version: u32,
            number: u64,
            connections in prop::collection::vec(
                (prop::collection::vec(any::<u8>(), 0..200), any::<bool>()),
                1..=253,
            ),
        ) {
            let entry = |(state, has_partner): &'_ (Vec<u8>, bool)| (state.clone(), *has_partner);
            let expected: Vec<_> = connections.iter().map(entry).collect();
            let entries = expected.iter().map(|(state, has_partner)| Entry {
                state: state.as_slice(),
                has_partner: *has_partner,
            });
            let bytes = encoded(version, number, &entries.collect::<Vec<_>>());
            prop_assert_eq!(batch_number(&bytes), Some(number));
            let Ok(Message::Batch { version: v, number: n, entries }) = parse(&bytes) else {
                return Err(TestCaseError::fail("not a batch"));
            };
            let parsed = entries.into_iter().map(|entry| (bytes[entry.state].to_vec(), entry.has_partner));
            prop_assert_eq!((v, n, parsed.collect::<Vec<_>>()), (version, number, expected));
        }

        #[test]
        fn a_part_of_a_batch_is_refused(
            states in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 1..20),
            cut in any::<prop::sample::Index>(),
        ) {
            let bytes = encoded(1, 1, &alone(&states));
            prop_assert!(parse(&bytes[..cut.index(bytes.len())]).is_err());
        }

        #[test]
        fn arbitrary_bytes_are_refused_or_have_their_states_inside(
            start in 0..=HEADER_BYTES,
            kind in 0_u8..8,
            count in 0_u16..300,
            bytes in prop::collection::vec(prop_oneof![Just(0_u8), any::<u8>()], 0..600),
        ) {
            let mut message = header(Kind::Batch, count, 1, 1)[..start].to_vec();
            if let Some(byte) = message.get_mut(5) {
                *byte = kind;
            }
            message.extend(bytes);
            let _ = batch_number(&message);
            if let Ok(Message::Batch { entries, .. }) = parse(&message) {
                prop_assert_eq!(entries.len(), usize::from(count));
                prop_assert_eq!(entries.last().unwrap().state.end, message.len());
                prop_assert!(entries.iter().all(|entry| message.get(entry.state.clone()).is_some()));
            }
        }
    }
}
