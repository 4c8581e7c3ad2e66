//! Tests of each difference from poll(2) that the manual page poll(4D) or the driver's source
//! names. They check the model of the device first, and then the backend.

use super::{
    super::{
        devpoll::{REMOVE, Sys},
        flags::entry,
    },
    *,
};
use Call::{Wait, Write};

/// The device without the backend, with [`A`] and [`B`] open.
struct Bare(FakeKernel);

impl Bare {
    fn new() -> Self {
        let kernel = FakeKernel::default();
        kernel.machine().open(A);
        kernel.machine().open(B);
        Self(kernel)
    }

    fn write(&mut self, changes: &[(RawFd, c_short)]) -> Result<(), Errno> {
        let entries = changes.iter().map(|(fd, flags)| entry(*fd, *flags));
        Sys::write(&mut self.0, &entries.collect::<Vec<_>>())
    }

    /// Returns the entries that a call finds, with a list of `room` entries.
    fn poll(&mut self, room: usize) -> Result<Vec<(RawFd, c_short)>, Errno> {
        let mut list = vec![entry(-1, 0); room];
        let count = Sys::poll(&mut self.0, &mut list, 0)?;
        Ok(list[..count]
            .iter()
            .map(|entry| (entry.fd, entry.revents))
            .collect())
    }

    fn found(&mut self) -> Vec<(RawFd, c_short)> {
        self.poll(8).expect("a call")
    }
}

fn fixture() -> Fixture {
    Fixture::new(Kind::DevPoll)
}

const NVAL: c_short = libc::POLLNVAL;

#[test]
fn a_second_write_adds_flags_to_the_entry() {
    let mut bare = Bare::new();
    bare.write(&[(A, IN)]).expect("written");
    bare.write(&[(A, OUT), (B, IN), (B, OUT)]).expect("written");
    assert_eq!(bare.0.machine().watched(), [(A, IN | OUT), (B, IN | OUT)]);
    bare.write(&[(A, REMOVE), (A, OUT)]).expect("written");
    assert_eq!(bare.0.machine().watched(), [(A, OUT), (B, IN | OUT)]);
}

#[test]
fn pollremove_with_other_flags_removes_nothing() {
    let mut bare = Bare::new();
    bare.0.machine().set(A, IN);
    bare.write(&[(A, IN)]).expect("written");
    bare.write(&[(A, IN | REMOVE)]).expect("written");
    assert_eq!(bare.found(), [(A, IN)]);
    bare.write(&[(A, REMOVE)]).expect("written");
    assert_eq!(bare.found(), []);
    bare.write(&[(A, REMOVE), (B + 1, REMOVE), (-1, REMOVE)])
        .expect("removing an absent entry is not an error");
}

#[test]
fn every_way_to_remove_writes_a_removal() {
    type Act = fn(&mut Fixture);
    let ways: [Act; 3] = [
        |fixture| fixture.remove(1),
        |fixture| fixture.remove_before_close(1),
        |fixture| fixture.modify(1, Interest::NONE),
    ];
    for removes in ways {
        let mut fixture = fixture();
        fixture.add(A, 1, Interest::READ, Mode::Level);
        fixture.wait();
        fixture.calls();
        removes(&mut fixture);
        fixture.set(A, IN | HUP);
        assert_eq!(fixture.try_wait(Some(SECOND)).expect("a wait"), []);
        assert_eq!(fixture.calls()[0], Write(vec![(A, REMOVE)]));
        assert_eq!(fixture.watched(), []);
    }
}

#[test]
fn a_closed_descriptor_stays_until_pollremove() {
    let mut bare = Bare::new();
    bare.write(&[(A, IN)]).expect("written");
    assert_eq!(bare.found(), []);
    bare.0.machine().close(A);
    for _ in 0..3 {
        assert_eq!(bare.found(), [(A, NVAL)]);
    }
    bare.write(&[(A, REMOVE)]).expect("written");
    assert_eq!(bare.found(), []);
}

/// The manual page says that a closed descriptor "may" be reported. The device looks at an entry
/// only after a write or a change of the file has marked it. An idle file may be closed without a
/// mark.
#[test]
fn an_idle_closed_descriptor_may_be_silent() {
    let mut fixture = fixture();
    fixture.kernel().device.closes_silently = true;
    fixture.add(A, 1, Interest::READ, Mode::Level);
    fixture.wait();
    fixture.close(A);
    assert_eq!(fixture.wait(), []);
    fixture.remove(1);
    assert_eq!(fixture.wait(), []);
    assert_eq!(fixture.watched(), []);
}

#[test]
fn a_closed_descriptor_with_a_duplicate_is_reported_late() {
    let mut fixture = fixture();
    fixture.add(A, 1, Interest::READ, Mode::Level);
    fixture.wait();
    fixture.kernel().duplicate(A, B + 1);
    fixture.close(A);
    assert_eq!(fixture.wait(), []);
    fixture.set(B + 1, IN);
    assert_eq!(fixture.wait(), [(1, GONE)]);
    assert_eq!(fixture.wait(), []);
}

#[test]
fn a_reused_number_is_watched_by_mistake() {
    let mut bare = Bare::new();
    bare.write(&[(A, IN)]).expect("written");
    assert_eq!(bare.found(), []);
    bare.0.machine().close(A);
    bare.0.machine().open(A);
    assert_eq!(bare.found(), []);
    bare.0.machine().set(A, IN);
    assert_eq!(bare.found(), [(A, IN)]);
}

#[test]
fn a_reused_number_is_silent_once_its_key_is_removed() {
    for closes_silently in [false, true] {
        let mut fixture = fixture();
        fixture.kernel().device.closes_silently = closes_silently;
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

/// A new file at the address of the old one looks like the old one to the device, so another write
/// of the same flags does nothing.
#[test]
fn a_file_in_the_place_of_the_old_one_is_watched() {
    let mut bare = Bare::new();
    bare.0.machine().device.closes_silently = true;
    bare.write(&[(B, IN)]).expect("written");
    assert_eq!(bare.found(), []);
    bare.0.machine().close(B);
    bare.0.machine().open_in_place(B);
    bare.write(&[(B, IN)]).expect("written");
    bare.0.machine().set(B, IN);
    assert_eq!(bare.found(), [], "the device has not noticed");

    let mut fixture = fixture();
    fixture.kernel().device.closes_silently = true;
    fixture.add(B, 1, Interest::READ, Mode::Level);
    fixture.wait();
    fixture.remove_before_close(1);
    fixture.close(B);
    fixture.kernel().open_in_place(B);
    fixture.add(B, 2, Interest::READ, Mode::Level);
    fixture.set(B, IN);
    assert_eq!(fixture.wait(), [(2, Ready::READABLE)]);
}

#[test]
fn a_number_that_is_not_open_is_accepted_and_silent() {
    let mut bare = Bare::new();
    bare.write(&[(B + 1, OUT)]).expect("no error");
    assert_eq!(bare.found(), [], "not even POLLNVAL");
    bare.0.machine().open(B + 1);
    bare.0.machine().set(B + 1, IN | OUT);
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
        let mut fixture = fixture();
        fixture.add(A, 1, Interest::WRITE, Mode::Level);
        fixture.close(A);
        assert_eq!(fixture.wait(), []);
        fixture.remove(1);
        fixture.wait();
        assert_eq!(
            fixture.watched(),
            [(A, OUT)],
            "the device has kept the flags"
        );
        fixture.open(A);
        fixture.set(A, ready);
        fixture.add(A, 2, Interest::READ, Mode::Level);
        for _ in 0..3 {
            assert_eq!(fixture.wait(), Vec::from_iter(reported));
        }
        assert_eq!(fixture.watched(), [(A, IN)], "written afresh");
    }
}

#[test]
fn a_file_that_refuses_ends_the_write() {
    let mut bare = Bare::new();
    bare.0.machine().open(B + 1);
    bare.0.machine().refuses.push(B);
    let written = bare.write(&[(A, IN), (B, IN), (B + 1, IN)]);
    assert_eq!(written, Err(Errno::NXIO));
    assert_eq!(bare.0.machine().watched(), [(A, IN)]);

    let mut fixture = fixture();
    fixture.open(B + 1);
    fixture.kernel().refuses.push(B);
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
    bare.0.machine().device.limit = Some(2);
    assert_eq!(bare.poll(2), Err(Errno::INVAL));
    let too_many = bare.write(&[(A, IN), (A, IN), (B, IN)]);
    assert_eq!(too_many, Err(Errno::INVAL));

    // The limit of 5 is for A, B, and the three descriptors of the device and the waker.
    let mut fixture = Fixture::with_room(Kind::DevPoll, 1000);
    fixture.kernel().device.limit = Some(5);
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

/// If a write would have more entries than the process may have descriptors, each change is written
/// by itself.
#[test]
fn a_write_beyond_the_limit_is_split() {
    let mut fixture = Fixture::with_room(Kind::DevPoll, 4);
    let fds = (B + 1)..(B + 11);
    fixture.kernel().device.limit = Some(14);
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
    assert_eq!(fixture.watched(), expected);
}

#[test]
fn a_forked_child_has_no_access() {
    let mut bare = Bare::new();
    bare.write(&[(A, IN)]).expect("written");
    bare.0.machine().device.is_in_child = true;
    assert_eq!(bare.write(&[(A, REMOVE)]), Err(Errno::ACCESS));
    assert_eq!(bare.poll(1), Err(Errno::ACCESS));
}

/// The poller does not detect this child (a bare `clone`). Each of its waits fails, and its changes
/// are not taken for refused.
#[test]
fn each_wait_fails_in_an_undetected_child() {
    let mut fixture = fixture();
    fixture.add(A, 1, Interest::READ, Mode::Level);
    fixture.kernel().device.is_in_child = true;
    for _ in 0..2 {
        let refused = fixture.try_wait(NOW).expect_err("the child has no access");
        assert!(refused.to_string().starts_with("write(/dev/poll) failed"));
        let errno = std::io::Error::from(refused).raw_os_error();
        assert_eq!(errno, Some(libc::EACCES));
    }
    fixture.kernel().device.is_in_child = false;
    fixture.set(A, IN);
    assert_eq!(fixture.wait(), [(1, Ready::READABLE)]);
}

#[test]
fn the_backend_does_not_return_the_device() {
    // Polling it would report POLLERR.
    assert!(fixture().poller.backend().descriptor().is_none());
}

#[test]
fn a_call_resumes_behind_the_last_reported_entry() {
    let mut bare = Bare::new();
    bare.0.machine().open(B + 1);
    for fd in [A, B, B + 1] {
        bare.0.machine().set(fd, IN);
        bare.write(&[(fd, IN)]).expect("written");
    }
    for _ in 0..2 {
        for fd in [A, B, B + 1] {
            assert_eq!(bare.poll(1), Ok(vec![(fd, IN)]));
        }
    }
}

#[test]
fn all_changes_of_a_turn_are_one_write() {
    let mut fixture = fixture();
    fixture.add(A, 1, Interest::READ, Mode::Level);
    fixture.add(B, 2, Interest::BOTH, Mode::Level);
    assert_eq!(fixture.calls(), [], "the additions go with the wait");
    fixture.wait();
    let written = Write(vec![(A, IN), (B, IN | OUT)]);
    assert_eq!(fixture.calls(), [written, Wait(3, NOW)]);
    fixture.remove(2);
    fixture.modify(1, Interest::WRITE);
    fixture.wait();
    let written = Write(vec![(B, REMOVE), (A, REMOVE), (A, OUT)]);
    assert_eq!(fixture.calls(), [written, Wait(2, NOW)]);
}

#[test]
fn many_changes_take_several_writes() {
    let mut fixture = Fixture::with_room(Kind::DevPoll, 300);
    fixture.kernel().device.limit = Some(256);
    let fds: Vec<_> = (B + 1..).take(200).collect();
    for (fd, key) in fds.iter().zip(0..) {
        fixture.open(*fd);
        fixture.add(*fd, key, Interest::READ, Mode::Level);
        fixture.set(*fd, IN);
    }
    assert_eq!(fixture.wait().len(), 200);
    for key in 0..200 {
        fixture.modify(key, Interest::BOTH);
    }
    assert_eq!(fixture.wait().len(), 200);
    let expected: Vec<_> = fds.iter().map(|fd| (*fd, IN | OUT)).collect();
    assert_eq!(fixture.watched(), expected);
    let written = fixture.calls().into_iter().map(|call| match call {
        Write(changes) => changes.len(),
        _ => 0,
    });
    assert_eq!(written.sum::<usize>(), 200 + 2 * 200);
}

#[test]
fn a_watch_left_by_a_failed_write_is_removed() {
    for is_changed in [false, true] {
        let mut fixture = fixture();
        fixture.add(A, 1, Interest::READ, Mode::Level);
        fixture.wait();
        fixture.kernel().device.failing_writes = 1;
        fixture.modify(1, Interest::BOTH);
        let reported = Ready::ERROR | Ready::READABLE | Ready::WRITABLE;
        assert_eq!(fixture.wait(), [(1, reported)]);
        assert_eq!(fixture.watched(), [(A, IN)], "the entry is still there");
        fixture.set(A, IN);
        if is_changed {
            fixture.modify(1, Interest::WRITE);
        }
        assert_eq!(fixture.try_wait(Some(SECOND)).expect("a wait"), []);
        let left = fixture.watched();
        assert_eq!(left, [(A, OUT)][..usize::from(is_changed)]);
        let timeouts = fixture.timeouts();
        let without_stray = timeouts.len() == 3;
        assert_eq!(without_stray, is_changed, "{timeouts:?}");
    }
}

#[test]
fn a_removal_that_fails_is_an_error_of_the_wait() {
    let mut fixture = fixture();
    fixture.add(A, 1, Interest::READ, Mode::Level);
    fixture.wait();
    fixture.kernel().device.failing_writes = 1;
    fixture.remove(1);
    assert!(matches!(fixture.try_wait(NOW), Err(Error::Os { .. })));
    assert_eq!(fixture.wait(), [], "the next wait writes the removal");
    assert_eq!(fixture.watched(), []);
}
