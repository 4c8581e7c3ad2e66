//! Unit tests of the select backend. The conformance suite tests what a caller sees.

use std::os::unix::net::UnixStream;

use super::*;
use crate::{Events, Mode};

impl Select {
    fn verify(&self) {
        let watched: Vec<_> = self
            .watched
            .iter()
            .filter_map(|(fd, _)| place(fd))
            .collect();
        let bound = place(self.watched.bound() - 1).expect("the waker is there");
        assert_eq!(self.rows.len(), bound + 1);
        for (place, row) in self.rows.iter().enumerate() {
            let expected = place == self.wake_fd || *row != VACANT;
            assert_eq!(watched.contains(&place), expected, "descriptor {place}");
            assert!(row.found.is_empty(), "descriptor {place}");
        }
    }
}

fn registration(fd: RawFd, key: u64) -> Registration {
    Registration {
        fd,
        key,
        interest: Interest::WRITE,
        ends: Ready::WRITE_CLOSED | Ready::ERROR,
        mode: Mode::Level,
    }
}

fn wait(select: &mut Select, capacity: usize) -> Vec<(u64, Ready)> {
    let mut events = Events::bounded(capacity);
    let waited = select.wait((&mut events).into(), Some(Duration::ZERO));
    waited.expect("select");
    select.verify();
    events
        .iter()
        .map(|event| (event.key, event.ready))
        .collect()
}

/// Numbers that no file of this process has, as if they had been closed. (Another test could open a
/// really closed number again at any time.)
fn unused() -> impl Iterator<Item = RawFd> {
    // This descriptor makes the kernel's table of descriptors reach beyond these numbers. (Linux
    // does not write beyond its table, so watched bits there would be read as found.)
    let far = rustix::io::fcntl_dupfd_cloexec(std::io::stdin(), 1000);
    drop(far.expect("a duplicate"));
    (900..number_of(SIZE)).filter(|fd| is_open(*fd).is_err())
}

#[test]
fn a_descriptor_beyond_the_sets_is_an_error_with_advice() {
    let mut select = Select::new().expect("select");
    for fd in [-100, 1024, 1025, RawFd::MAX] {
        let refused = select.add(&registration(fd, 1)).expect_err("out of range");
        assert!(matches!(refused, Error::BeyondSets { fd: named, .. } if named == fd));
        let message = format!(
            "select cannot watch descriptor {fd}: its sets hold only descriptors below 1024; use poll"
        );
        assert!(refused.to_string().starts_with(&message), "{refused}");
        select.remove_before_close(&registration(fd, 1));
    }
    select.verify();
    let waker = beyond(1024, true).to_string();
    assert!(waker.starts_with("select cannot watch its own waker, descriptor 1024: its sets"));
}

#[test]
fn a_closed_descriptor_is_not_added() {
    let mut select = Select::new().expect("select");
    let closed = unused().next().expect("one is free");
    let refused = select.add(&registration(closed, 1));
    assert!(matches!(refused, Err(Error::Os { .. })));
    assert_eq!(wait(&mut select, 6), []);
}

#[test]
fn no_row_starves_with_a_small_buffer() {
    let mut select = Select::new().expect("select");
    let pairs = [(); 5].map(|()| UnixStream::pair().expect("a pair"));
    for ((near, _), key) in pairs.iter().zip(0..) {
        select
            .add(&registration(near.as_raw_fd(), key))
            .expect("add");
    }
    let mut keys: Vec<_> = (0..5).map(|_| wait(&mut select, 1)[0].0).collect();
    keys.sort_unstable();
    assert_eq!(keys, [0, 1, 2, 3, 4]);
}

#[test]
fn a_closed_descriptor_is_reported_once() {
    let mut select = Select::new().expect("select");
    let (near, far) = UnixStream::pair().expect("a pair");
    for (end, key) in [(&near, 0), (&far, 1)] {
        select
            .add(&registration(end.as_raw_fd(), key))
            .expect("add");
    }
    for (fd, key) in unused().zip(2..5) {
        select.enter(&registration(fd, key)).expect("in range");
    }
    let mut found = wait(&mut select, 6);
    found.sort_unstable_by_key(|event| event.0);
    let expected = [
        Ready::WRITABLE,
        Ready::WRITABLE,
        Ready::ERROR,
        Ready::ERROR,
        Ready::ERROR,
    ];
    assert_eq!(found, (0..).zip(expected).collect::<Vec<_>>());
    assert_eq!(wait(&mut select, 6).len(), 2, "reported once");
}

#[test]
fn closed_descriptors_that_do_not_fit_come_later() {
    let mut select = Select::new().expect("select");
    for (fd, key) in unused().zip(0..5) {
        select.enter(&registration(fd, key)).expect("in range");
    }
    let mut keys = Vec::new();
    for _ in 0..3 {
        keys.extend(wait(&mut select, 2).into_iter().map(|event| event.0));
    }
    assert_eq!(keys, [0, 1, 2, 3, 4]);
    assert_eq!(wait(&mut select, 2), []);
}

#[test]
fn the_table_is_as_long_as_the_highest_descriptor() {
    let mut select = Select::new().expect("select");
    let alone = select.rows.len();
    let (fd, lower) = {
        let mut free = unused();
        let lower = free.next().expect("one is free");
        (free.next().expect("two are free"), lower)
    };
    for (fd, key) in [(fd, 1), (lower, 2)] {
        select.enter(&registration(fd, key)).expect("in range");
    }
    assert_eq!(select.rows.len(), place(fd).expect("in range") + 1);
    select.remove_before_close(&registration(fd, 7));
    assert!(select.rows.len() > 900, "a wrong key removes nothing");
    select.remove_before_close(&registration(fd, 1));
    select.verify();
    select.remove_before_close(&registration(lower, 2));
    select.verify();
    assert_eq!(select.rows.len(), alone);
}

#[test]
fn a_registration_that_watches_only_ends_is_in_no_set() {
    let mut select = Select::new().expect("select");
    let (near, _far) = UnixStream::pair().expect("a pair");
    let watching = registration(near.as_raw_fd(), 1);
    let masked = Registration {
        interest: Interest::NONE,
        ..watching
    };
    select.add(&watching).expect("add");
    for _ in 0..2 {
        assert_eq!(wait(&mut select, 4), [(1, Ready::WRITABLE)]);
        select.modify(&masked).expect("modify");
        assert_eq!(wait(&mut select, 4), []);
        select.modify(&watching).expect("modify");
    }
    select.modify(&masked).expect("modify");
    select.remove(&masked).expect("remove");
    select.verify();
}
