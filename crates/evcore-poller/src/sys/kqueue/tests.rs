//! Tests of a poller with the kqueue backend, over a model of the kernel. The tests that run over
//! several models are in `sys/tests`.

use super::{
    kernel::{Event as KernelEvent, Filter, Ident},
    *,
};
use crate::sys::{fake_kernel::kqueue::Refusal, tests::*};

mod changes;
mod closing;
mod ends;
mod model;
mod modes;
mod refusals;

const C: RawFd = B + 1;

fn fixture() -> Fixture {
    let fixture = Fixture::new(Kind::Kqueue);
    fixture.open(C);
    fixture
}

/// Makes a wait that returns at once and has room for `capacity` events. Returns the events.
fn wait_with(fixture: &mut Fixture, capacity: usize) -> Vec<(u64, Ready)> {
    fixture.events = Events::bounded(capacity);
    fixture.wait()
}

fn counts(calls: &[Call]) -> Vec<usize> {
    let calls = calls.iter().map(|call| match call {
        Call::Kevent(changes, _) => changes.len(),
        other => panic!("{other:?}"),
    });
    calls.collect()
}

fn changes_by_call(fixture: &Fixture) -> Vec<usize> {
    counts(&fixture.calls())
}

fn refusal(fd: RawFd, filter: Filter) -> Refusal {
    Refusal {
        fd,
        filter,
        errno: Errno::NOMEM,
        made: false,
    }
}

/// Lets the kernel refuse additions of this filter from now on.
fn refuse(fixture: &mut Fixture, fd: RawFd, filter: Filter) {
    fixture.kernel().queue.refuses.push(refusal(fd, filter));
}
