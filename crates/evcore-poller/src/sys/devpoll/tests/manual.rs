//! Each difference from poll(2) that the manual page poll(4D) or the driver's source names: first
//! the behaviour of the model of the device, then that of the backend.

use super::{super::kernel::Kernel as _, *};

/// The device without the backend, with [`A`] and [`B`] open.
struct Bare(FakeKernel);

impl Bare {
    fn new() -> Self {
        let kernel = FakeKernel::default();
        kernel.device().open(A);
        kernel.device().open(B);
        Self(kernel)
    }

    fn write(&mut self, changes: &[(RawFd, c_short)]) -> Result<(), Errno> {
        let entries = changes.iter().map(|(fd, flags)| entry(*fd, *flags));
        self.0.write(&entries.collect::<Vec<_>>())
    }

    /// Returns the entries that a call finds, in a list of `room`.
    fn poll(&mut self, room: usize) -> Result<Vec<(RawFd, c_short)>, Errno> {
        let mut list = vec![entry(-1, 0); room];
        let count = self.0.poll(&mut list, 0)?;
        Ok(list[..count]
            .iter()
            .map(|entry| (entry.fd, entry.revents))
            .collect())
    }

    fn found(&mut self) -> Vec<(RawFd, c_short)> {
        self.poll(8).expect("a call")
    }
}

const NVAL: c_short = libc::POLLNVAL;

#[test]
fn a_second_write_adds_flags_to_the_entry() {
    let mut bare = Bare::new();
    bare.write(&[(A, IN)]).expect("written");
    bare.write(&[(A, OUT), (B, IN), (B, OUT)]).expect("written");
    assert_eq!(bare.0.device().entries(), [(A, IN | OUT), (B, IN | OUT)]);
    bare.write(&[(A, REMOVE), (A, OUT)]).expect("written");
    assert_eq!(bare.0.device().entries(), [(A, OUT), (B, IN | OUT)]);
}

#[test]
fn a_narrowed_interest_reports_nothing_else() {
    for (before, after, ready, reported) in [
        (Interest::BOTH, Interest::READ, IN | OUT, Ready::READABLE),
        (Interest::BOTH, Interest::WRITE, IN | OUT, Ready::WRITABLE),
        (Interest::READ, Interest::WRITE, IN | OUT, Ready::WRITABLE),
    ] {
        let mut fixture = Fixture::new();
        fixture.add(A, 1, before, Mode::Level);
        fixture.wait();
        fixture.set(A, ready);
        fixture.modify(1, after);
        assert_eq!(fixture.wait(), [(1, reported)]);
        fixture.set(A, ready & !asking(after));
        assert_eq!(fixture.wait(), []);
        assert_eq!(fixture.entries(), [(A, asking(after))]);
    }
}

#[test]
fn pollremove_removes_only_alone() {
    let mut bare = Bare::new();
    bare.0.device().set(A, IN);
    bare.write(&[(A, IN)]).expect("written");
    bare.write(&[(A, IN | REMOVE)]).expect("written");
    assert_eq!(bare.found(), [(A, IN)]);
    bare.write(&[(A, REMOVE)]).expect("written");
    assert_eq!(bare.found(), []);
    bare.write(&[(A, REMOVE), (B + 1, REMOVE), (-1, REMOVE)])
        .expect("removing an absent entry is not an error");
}

#[test]
fn a_removal_is_written_in_every_way_to_remove() {
    type Act = fn(&mut Fixture);
    let ways: [Act; 3] = [
        |fixture| fixture.remove(1),
        |fixture| fixture.remove_before_close(1),
        |fixture| fixture.modify(1, Interest::NONE),
    ];
    for removes in ways {
        let mut fixture = Fixture::new();
        fixture.add(A, 1, Interest::READ, Mode::Level);
        fixture.wait();
        fixture.calls();
        removes(&mut fixture);
        fixture.set(A, IN | HUP);
        assert_eq!(fixture.try_wait(Some(SECOND)).expect("a wait"), []);
        assert_eq!(fixture.calls()[0], Write(vec![(A, REMOVE)]));
        assert_eq!(fixture.entries(), []);
    }
}

#[test]
fn a_closed_descriptor_stays_until_pollremove() {
    let mut bare = Bare::new();
    bare.write(&[(A, IN)]).expect("written");
    assert_eq!(bare.found(), []);
    bare.0.device().close(A);
    for _ in 0..3 {
        assert_eq!(bare.found(), [(A, NVAL)]);
    }
    bare.write(&[(A, REMOVE)]).expect("written");
    assert_eq!(bare.found(), []);
}

#[test]
fn a_closed_descriptor_is_reported_once() {
    for ready in [0, IN] {
        let mut fixture = Fixture::new();
        for (fd, key) in [(A, 1), (B, 2)] {
            fixture.add(fd, key, Interest::READ, Mode::Level);
        }
        fixture.set(A, ready);
        fixture.set(B, IN);
        fixture.wait();
        fixture.close(A);
        let reported = fixture.try_wait(None).expect("a wait");
        assert_eq!(reported, [(1, GONE), (2, Ready::READABLE)]);
        assert_eq!(fixture.wait(), [(2, Ready::READABLE)], "reported once");
        assert_eq!(fixture.entries(), [(B, IN)]);
        fixture.remove(1);
    }
}

/// The manual says that it "may" be reported. A file that is idle, and does not mark its entries
/// when it is closed, is never looked at.
#[test]
fn an_idle_closed_descriptor_may_be_silent() {
    let mut fixture = Fixture::new();
    fixture.kernel.device().closes_silently = true;
    fixture.add(A, 1, Interest::READ, Mode::Level);
    fixture.wait();
    fixture.close(A);
    assert_eq!(fixture.wait(), []);
    fixture.remove(1);
    assert_eq!(fixture.wait(), []);
    assert_eq!(fixture.entries(), []);
}

#[test]
fn a_closed_descriptor_with_a_duplicate_is_reported_late() {
    let mut fixture = Fixture::new();
    fixture.add(A, 1, Interest::READ, Mode::Level);
    fixture.wait();
    fixture.kernel.device().duplicate(A, B + 1);
    fixture.close(A);
    assert_eq!(fixture.wait(), []);
    fixture.set(B + 1, IN);
    assert_eq!(fixture.wait(), [(1, GONE)]);
    assert_eq!(fixture.wait(), []);
}

#[test]
fn a_closed_edge_or_one_shot_is_reported_once() {
    for mode in [Mode::Edge, Mode::Oneshot] {
        let mut fixture = Fixture::new();
        fixture.add(A, 1, Interest::READ, mode);
        fixture.wait();
        fixture.close(A);
        assert_eq!(fixture.wait(), [(1, GONE)], "{mode:?}");
        assert_eq!(fixture.wait(), [], "{mode:?}");
        assert_eq!(fixture.entries(), [], "{mode:?}");
    }
}

#[test]
fn a_reused_number_is_watched_by_mistake() {
    let mut bare = Bare::new();
    bare.write(&[(A, IN)]).expect("written");
    assert_eq!(bare.found(), []);
    bare.0.device().close(A);
    bare.0.device().open(A);
    assert_eq!(bare.found(), []);
    bare.0.device().set(A, IN);
    assert_eq!(bare.found(), [(A, IN)]);
}

#[test]
fn a_reused_number_is_silent_once_its_key_is_removed() {
    for closes_silently in [false, true] {
        let mut fixture = Fixture::new();
        fixture.kernel.device().closes_silently = closes_silently;
        fixture.add(A, 1, Interest::READ, Mode::Level);
        fixture.wait();
        fixture.close(A);
        fixture.open(A);
        fixture.set(A, IN);
        let by_mistake = [(1, Ready::READABLE)];
        let expected = if closes_silently { 0 } else { 1 };
        assert_eq!(fixture.wait(), by_mistake[..expected]);
        fixture.remove(1);
        assert_eq!(fixture.wait(), []);
        fixture.add(A, 2, Interest::READ, Mode::Level);
        assert_eq!(fixture.wait(), [(2, Ready::READABLE)]);
    }
}

/// A new file at the place of the old one in the kernel's memory looks like the old one: another
/// write of the same flags does nothing.
#[test]
fn a_file_in_the_place_of_the_old_one_is_watched() {
    let mut bare = Bare::new();
    bare.0.device().closes_silently = true;
    bare.write(&[(B, IN)]).expect("written");
    assert_eq!(bare.found(), []);
    bare.0.device().close(B);
    bare.0.device().open_in_place(B);
    bare.write(&[(B, IN)]).expect("written");
    bare.0.device().set(B, IN);
    assert_eq!(bare.found(), [], "the device has not noticed");

    let mut fixture = Fixture::new();
    fixture.kernel.device().closes_silently = true;
    fixture.add(B, 1, Interest::READ, Mode::Level);
    fixture.wait();
    fixture.remove_before_close(1);
    fixture.close(B);
    fixture.kernel.device().open_in_place(B);
    fixture.add(B, 2, Interest::READ, Mode::Level);
    fixture.set(B, IN);
    assert_eq!(fixture.wait(), [(2, Ready::READABLE)]);
}

#[test]
fn a_number_that_is_not_open_is_accepted_and_silent() {
    let mut bare = Bare::new();
    bare.write(&[(B + 1, OUT)]).expect("no error");
    assert_eq!(bare.found(), [], "not even POLLNVAL");
    bare.0.device().open(B + 1);
    bare.0.device().set(B + 1, IN | OUT);
    assert_eq!(bare.found(), []);
    bare.write(&[(B + 1, REMOVE), (B + 1, IN)])
        .expect("written");
    let kept = [(B + 1, IN | OUT)];
    assert_eq!(bare.found(), kept, "POLLREMOVE has not dropped the flags");
}

/// The descriptor is closed between `add`, which has found it open, and the write.
#[test]
fn flags_of_an_earlier_file_are_not_reported() {
    for (ready, reported) in [(OUT, None), (IN | OUT, Some((2, Ready::READABLE)))] {
        let mut fixture = Fixture::new();
        fixture.add(A, 1, Interest::WRITE, Mode::Level);
        fixture.close(A);
        assert_eq!(fixture.wait(), []);
        fixture.remove(1);
        fixture.wait();
        assert_eq!(fixture.entries(), [(A, OUT)], "the device has kept them");
        fixture.open(A);
        fixture.set(A, ready);
        fixture.add(A, 2, Interest::READ, Mode::Level);
        for _ in 0..3 {
            assert_eq!(fixture.wait(), Vec::from_iter(reported));
        }
        assert_eq!(fixture.entries(), [(A, IN)], "written afresh");
    }
}

#[test]
fn flags_of_an_earlier_file_hide_nothing() {
    let mut fixture = Fixture::with_room(1);
    fixture.add(A, 1, Interest::WRITE, Mode::Level);
    fixture.close(A);
    fixture.wait();
    fixture.remove(1);
    fixture.open(A);
    for (fd, key) in [(A, 2), (B, 3)] {
        fixture.add(fd, key, Interest::READ, Mode::Level);
    }
    fixture.set(A, OUT);
    fixture.set(B, IN);
    assert_eq!(fixture.wait(), [(3, Ready::READABLE)]);
}

#[test]
fn flags_of_an_earlier_file_end_no_wait() {
    for returns_on_signal in [false, true] {
        let mut fixture = Fixture::new();
        if returns_on_signal {
            fixture.events = Events::raw(8);
        }
        fixture.add(A, 1, Interest::WRITE, Mode::Level);
        fixture.close(A);
        fixture.wait();
        fixture.remove(1);
        fixture.open(A);
        fixture.set(A, OUT);
        fixture.add(A, 2, Interest::READ, Mode::Level);
        fixture.calls();
        let waited = fixture.try_wait(Some(SECOND));
        if returns_on_signal {
            assert!(matches!(waited, Err(Error::Interrupted)), "{waited:?}");
        } else {
            assert_eq!(waited.expect("a wait"), []);
            let afresh = Write(vec![(A, REMOVE), (A, IN)]);
            let calls = fixture.calls();
            assert!(calls.contains(&afresh), "{calls:?}");
            assert!(matches!(calls.last(), Some(Poll(2, 1..))), "{calls:?}");
        }
    }
}

#[test]
fn a_file_that_refuses_ends_the_write() {
    let mut bare = Bare::new();
    bare.0.device().open(B + 1);
    bare.0.device().refuses.push(B);
    let written = bare.write(&[(A, IN), (B, IN), (B + 1, IN)]);
    assert_eq!(written, Err(Errno::NXIO));
    assert_eq!(bare.0.device().entries(), [(A, IN)]);

    let mut fixture = Fixture::new();
    fixture.open(B + 1);
    fixture.kernel.device().refuses.push(B);
    for (fd, key) in [(A, 1), (B, 2), (B + 1, 3)] {
        fixture.add(fd, key, Interest::READ, Mode::Level);
        fixture.set(fd, IN);
    }
    let ready = Ready::READABLE;
    assert_eq!(fixture.wait(), [(1, ready), (2, GONE), (3, ready)]);
    assert_eq!(fixture.wait(), [(1, ready), (3, ready)]);
}

#[test]
fn a_list_as_long_as_the_limit_is_not_passed() {
    let mut bare = Bare::new();
    bare.0.device().limit = Some(2);
    assert_eq!(bare.poll(2), Err(Errno::INVAL));
    let too_many = bare.write(&[(A, IN), (A, IN), (B, IN)]);
    assert_eq!(too_many, Err(Errno::INVAL));

    // The device and the waker have three descriptors.
    let mut fixture = Fixture::with_room(1000);
    fixture.kernel.device().limit = Some(5);
    for (fd, key) in [(A, 1), (B, 2)] {
        fixture.add(fd, key, Interest::READ, Mode::Level);
        fixture.set(fd, IN);
    }
    assert_eq!(fixture.wait().len(), 2);
    for key in [1, 2] {
        fixture.modify(key, Interest::BOTH);
    }
    assert_eq!(fixture.wait().len(), 2);
}

/// More changes than the process may have descriptors go in single writes.
#[test]
fn a_write_beyond_the_limit_is_split() {
    let mut fixture = Fixture::with_room(4);
    let fds = (B + 1)..(B + 11);
    fixture.kernel.device().limit = Some(14);
    for (fd, key) in fds.clone().zip(0..) {
        fixture.open(fd);
        fixture.add(fd, key, Interest::READ, Mode::Level);
    }
    fixture.wait();
    for key in 0..10 {
        fixture.modify(key, Interest::WRITE);
    }
    assert_eq!(fixture.wait(), []);
    let expected: Vec<_> = fds.map(|fd| (fd, OUT)).collect();
    assert_eq!(fixture.entries(), expected);
}

#[test]
fn a_forked_child_has_no_access() {
    let mut bare = Bare::new();
    bare.write(&[(A, IN)]).expect("written");
    bare.0.device().is_in_child = true;
    assert_eq!(bare.write(&[(A, REMOVE)]), Err(Errno::ACCESS));
    assert_eq!(bare.poll(1), Err(Errno::ACCESS));
}

/// The poller does not detect this child (a bare `clone`). Each of its waits fails, and its changes
/// are not taken for refused.
#[test]
fn in_an_undetected_child_each_wait_fails() {
    let mut fixture = Fixture::new();
    fixture.add(A, 1, Interest::READ, Mode::Level);
    fixture.kernel.device().is_in_child = true;
    for _ in 0..2 {
        let refused = fixture.try_wait(NOW).expect_err("the child has no access");
        assert!(refused.to_string().starts_with("write(/dev/poll) failed"));
        let errno = std::io::Error::from(refused).raw_os_error();
        assert_eq!(errno, Some(libc::EACCES));
    }
    fixture.kernel.device().is_in_child = false;
    fixture.set(A, IN);
    assert_eq!(fixture.wait(), [(1, Ready::READABLE)]);
}

#[test]
fn the_device_is_not_lent_to_other_pollers() {
    // Polling it would report POLLERR.
    assert!(Fixture::new().poller.backend().descriptor().is_none());
}

#[test]
fn the_list_of_a_call_without_events_is_ignored() {
    // The list still holds the entries of the call before.
    let mut fixture = Fixture::new();
    fixture.add(A, 1, Interest::READ, Mode::Level);
    fixture.set(A, IN);
    assert_eq!(fixture.wait().len(), 1);
    fixture.set(A, 0);
    assert_eq!(fixture.wait(), []);
}

#[test]
fn a_call_resumes_behind_the_last_reported_entry() {
    let mut bare = Bare::new();
    bare.0.device().open(B + 1);
    for fd in [A, B, B + 1] {
        bare.0.device().set(fd, IN);
        bare.write(&[(fd, IN)]).expect("written");
    }
    for _ in 0..2 {
        for fd in [A, B, B + 1] {
            assert_eq!(bare.poll(1), Ok(vec![(fd, IN)]));
        }
    }
}
