//! The marks of a worker's descriptors, as its descriptor store reads them. The store is a process
//! that keeps the worker's idle connections if the worker dies. A mark is a byte that the worker
//! shares with the store. It shows whether a connection is idle.

use std::{
    fs, io,
    ops::RangeInclusive,
    os::fd::RawFd,
    sync::atomic::{AtomicU8, Ordering::Acquire},
};

const IDLE: u8 = 1;

/// The mark of a connection that is not idle. The store counts such connections, and closes them.
const BUSY: u8 = 2;

/// The mark of a worker whose function has returned, in place of the mark of standard input.
pub(crate) const RETURNED: u8 = 255;

/// The marked descriptors of a worker that has died.
#[derive(Debug, Default)]
pub(crate) struct Marked {
    /// The idle descriptors, in the order of their numbers.
    pub(crate) idle: Vec<RawFd>,
    pub(crate) busy: usize,
}

/// Returns the marks of the open descriptors of this process, each with the number of its
/// descriptor. Other marks are not read, because reading memory that was never written allocates a
/// page. If `/proc` does not show the open descriptors, all marks are returned.
pub(crate) fn of_open(marks: &[AtomicU8]) -> Box<dyn Iterator<Item = (usize, &AtomicU8)> + '_> {
    let mark = |number| Some((number, marks.get(number)?));
    match open_descriptors() {
        Ok(numbers) => Box::new(numbers.into_iter().filter_map(mark)),
        Err(_) => Box::new(marks.iter().enumerate()),
    }
}

/// Returns the numbers of the open descriptors, in ascending order. One of them belongs to the
/// `/proc` directory itself, which is closed when this function returns.
fn open_descriptors() -> io::Result<Vec<usize>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir("/proc/self/fd")? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.parse().ok());
        numbers.push(number.ok_or(io::ErrorKind::InvalidData)?);
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// Reads the marks, each with the number of its descriptor. Skips the standard streams.
pub(crate) fn marked<'a>(marks: impl Iterator<Item = (usize, &'a AtomicU8)>) -> Marked {
    let mut marked = Marked::default();
    for (number, mark) in marks.skip_while(|(number, _)| *number < STANDARD_STREAMS.into()) {
        match mark.load(Acquire) {
            IDLE => marked
                .idle
                .push(RawFd::try_from(number).expect("a descriptor table has fewer entries")),
            BUSY => marked.busy += 1,
            _ => {}
        }
    }
    marked
}

const STANDARD_STREAMS: u8 = 3;

/// Returns ranges of all descriptor numbers except the standard streams and these descriptors.
pub(crate) fn all_but(mut kept: Vec<RawFd>) -> impl Iterator<Item = RangeInclusive<u32>> {
    kept.sort_unstable();
    let kept = kept
        .into_iter()
        .map(|fd| u32::try_from(fd).expect("the number of an open descriptor is not negative"));
    let mut next = u32::from(STANDARD_STREAMS);
    let ends = kept.map(Some).chain([None]);
    ends.filter_map(move |kept| {
        let first = next;
        let last = match kept {
            Some(kept) => {
                next = next.max(kept + 1);
                kept.checked_sub(1)?
            }
            None => u32::MAX,
        };
        (first <= last).then_some(first..=last)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use std::os::fd::AsRawFd;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_marks_of_open_descriptors_are_read() {
        let file = fs::File::open("/proc/self/status").unwrap();
        let number = usize::try_from(file.as_raw_fd()).unwrap();
        let marks: Vec<_> = (0..1 << 20).map(|_| AtomicU8::new(IDLE)).collect();
        let numbers: Vec<_> = of_open(&marks).map(|(number, _)| number).collect();
        assert!(numbers.contains(&number) && numbers.is_sorted());
        assert!(numbers.len() < 1000, "{}", numbers.len());
        // A descriptor whose number has no mark is left out.
        assert!(of_open(&marks[..number]).all(|(other, _)| other < number));
    }

    proptest! {
        #[test]
        fn each_descriptor_is_kept_or_in_one_range(
            bytes in prop::collection::vec(0_u8..4, 0..300),
            others in prop::collection::vec(0_i32..400, 0..4),
        ) {
            let marks: Vec<_> = bytes.iter().map(|byte| AtomicU8::new(*byte)).collect();
            let Marked { idle: kept, busy } = marked(marks.iter().enumerate());
            prop_assert_eq!(busy, bytes.iter().skip(3).filter(|byte| **byte == 2).count());
            let expected: Vec<RawFd> = (3..).zip(bytes.iter().skip(3))
                .filter_map(|(number, byte)| (*byte == 1).then_some(number)).collect();
            prop_assert_eq!(&kept, &expected);

            let all: Vec<RawFd> = kept.iter().chain(&others).copied().collect();
            let stays: BTreeSet<u32> = all.iter().map(|fd| *fd as u32).chain(0..3).collect();
            let ranges: Vec<_> = all_but(all).collect();
            for number in 0..500 {
                let times = ranges.iter().filter(|range| range.contains(&number)).count();
                prop_assert_eq!(times, usize::from(!stays.contains(&number)), "{}", number);
            }
            prop_assert_eq!(ranges.last().map(|range| *range.end()), Some(u32::MAX));
        }
    }
}
