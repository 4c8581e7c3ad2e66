//! A poller in a forked child: calls fail, and the parent's registrations stay as they are.

#![allow(unsafe_code, reason = "this process is forked")]

use evcore_poller::{Error, Interest, Mode, Poller};

use crate::{
    fixture::{DEADLINE, Fixture, WRITABLE},
    kernel::pair,
};

crate::scenarios! {
    of kernels alone:
    a_forked_child_is_refused_and_the_parent_goes_on,
    a_child_wakes_its_parent_through_a_wakers_descriptor,
}

fn a_forked_child_is_refused_and_the_parent_goes_on(fixture: &mut Fixture) {
    let ((_near, far), (_other, unknown)) = (pair(), pair());
    fixture.add(&far, 1, Interest::WRITE, Mode::Level);
    let parent = std::process::id();
    let is_refused = |result: Result<(), Error>| match result {
        Err(Error::Forked { process }) => process == parent,
        _ => false,
    };
    let alone = fixture.alone();
    let child_is_refused = in_a_child(|| {
        let poller: &mut Poller = &mut fixture.poller;
        let waited = poller.wait(&mut fixture.events, None).map(drop);
        let added = poller.add(&unknown, 2, Interest::WRITE, Mode::Level);
        let exclusive = poller.add(&unknown, 2, Interest::READ, Mode::Exclusive);
        // A backend without exclusive registrations may refuse for that reason.
        let exclusive = !poller.backend().capabilities().exclusive || is_refused(exclusive);
        let removed = poller.remove(1);
        // No call reached the kernel, but the child's table has lost the registration.
        let is_removed = poller.modify(1, Interest::READ).is_err();
        is_refused(waited) && is_refused(added) && is_refused(removed) && is_removed && exclusive
    });
    drop(alone);
    assert!(
        child_is_refused,
        "{}: the child was not refused",
        fixture.name
    );
    fixture.expect(&[(1, WRITABLE)]);
    fixture.remove(1);
}

fn a_child_wakes_its_parent_through_a_wakers_descriptor(fixture: &mut Fixture) {
    let waker = fixture.poller.waker();
    let fd = waker.descriptor().expect("a kernel is behind the poller");
    let write = || rustix::io::write(fd, &1u64.to_ne_bytes()) == Ok(8);
    for _ in 0..2 {
        let alone = fixture.alone();
        let written = in_a_child(write);
        drop(alone);
        assert!(written, "{}", fixture.name);
        assert_eq!(fixture.wait(Some(DEADLINE)), [], "{}", fixture.name);
        assert!(fixture.events.was_woken(), "{}", fixture.name);
    }
}

/// Runs `claim` in a forked child, and returns the claim's result. `claim` must not allocate,
/// because a thread that does not exist in the child may have held the allocator's lock.
fn in_a_child(claim: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child runs `claim`, which takes no lock, and then ends without unwinding.
    match unsafe { libc::fork() } {
        0 => {
            let code = i32::from(!claim());
            // SAFETY: the call has no preconditions.
            unsafe { libc::_exit(code) }
        }
        child => {
            assert!(child > 0, "fork");
            let mut status = 0;
            // SAFETY: `status` outlives the call.
            let reaped = unsafe { libc::waitpid(child, &raw mut status, 0) };
            assert_eq!(reaped, child, "waitpid");
            status == 0
        }
    }
}
