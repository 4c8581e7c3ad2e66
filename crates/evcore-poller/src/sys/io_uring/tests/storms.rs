//! Many registrations that become ready, or are removed, at the same time. The cost is counted in
//! calls, because their number is the same on each machine.

use super::*;

const CROWD: usize = 400;

const ROOM: usize = 100;

/// A backend, a crowd of registrations whose requests are submitted, and the peer of all of them.
struct Crowd {
    backend: IoUring,
    twins: Vec<UnixStream>,
    near: UnixStream,
    mode: Mode,
    events: Events,
}

impl Crowd {
    fn gather(completions: u32, mode: Mode) -> Option<Self> {
        let backend = backend(completions)?;
        let (near, far) = pair();
        let twin = || far.try_clone().expect("a descriptor is left");
        let twins = std::iter::repeat_with(twin).take(CROWD).collect();
        let events = Events::bounded(ROOM);
        let mut crowd = Self {
            backend,
            twins,
            near,
            mode,
            events,
        };
        for id in 0..CROWD {
            let new = crowd.registration(id);
            crowd.backend.add(&new).expect("add");
        }
        assert_eq!(crowd.wait(), [], "nothing is ready");
        Some(crowd)
    }

    fn registration(&self, id: usize) -> Registration {
        Registration {
            key: id as u64,
            ..registration(&self.twins[id], self.mode)
        }
    }

    fn become_ready(&mut self) {
        self.near.write_all(b"a").expect("write");
    }

    fn wait(&mut self) -> Vec<usize> {
        self.events.clear();
        let waited = self.backend.wait((&mut self.events).into(), NOW);
        waited.expect("no signal comes");
        let id = |key| usize::try_from(key).expect("a small number");
        let ids = self.events.iter().map(|event| id(event.key));
        ids.collect()
    }

    fn remove(&mut self, id: usize) -> u32 {
        let (before, old) = (self.backend.ring.calls, self.registration(id));
        self.backend.remove(&old).expect("remove");
        self.backend.ring.calls - before
    }
}

/// A removal makes at most one call, even if the completion queue has overflowed. Here all
/// registrations become ready at once, before the waits that report them.
#[test]
fn a_removal_in_a_storm_is_one_call() {
    for mode in [Mode::Level, Mode::Edge, Mode::Oneshot] {
        for completions in [8, 4096] {
            let Some(mut crowd) = Crowd::gather(completions, mode) else {
                return;
            };
            crowd.become_ready();
            let (mut removed, mut most) = (0, 0);
            while removed < CROWD {
                let ids = crowd.wait();
                assert!(
                    !ids.is_empty(),
                    "{mode:?}, {completions}: {removed} removed"
                );
                for id in &ids {
                    most = most.max(crowd.remove(*id));
                }
                removed += ids.len();
            }
            assert!(
                most <= 1,
                "{mode:?}, {completions}: {most} calls of a removal"
            );
            assert_eq!(crowd.wait(), []);
            assert_eq!(
                crowd.backend.cancellations_pending, 0,
                "{mode:?}, {completions}"
            );
        }
    }
}

/// The completion of a cancelled request waits outside of the full queue, but its file is released.
#[test]
fn a_removal_while_completions_overflow_closes_the_file() {
    for mode in [Mode::Level, Mode::Edge, Mode::Oneshot] {
        let Some(mut crowd) = Crowd::gather(8, mode) else {
            return;
        };
        let (mut near, far) = pair();
        let own = Registration {
            key: CROWD as u64,
            ..registration(&far, mode)
        };
        crowd.backend.add(&own).expect("add");
        assert_eq!(crowd.wait(), []);
        crowd.become_ready();
        assert_eq!(crowd.wait().len(), ROOM);
        assert!(crowd.backend.ring.has_overflowed(), "{mode:?}");
        crowd.backend.remove(&own).expect("remove");
        assert!(crowd.backend.ring.has_overflowed(), "{mode:?}");
        drop(far);
        assert_closed(&mut near, &mode);
    }
}

/// All registrations stay ready, and one wait can report a quarter of them. Those that were already
/// reported do not keep the next waits from reporting the others.
#[test]
fn ready_level_registrations_do_not_delay_others() {
    for completions in [8, 4096] {
        let Some(mut crowd) = Crowd::gather(completions, Mode::Level) else {
            return;
        };
        crowd.become_ready();
        let mut seen = std::collections::BTreeSet::new();
        let mut waits = 0;
        while seen.len() < CROWD {
            seen.extend(crowd.wait());
            waits += 1;
            assert!(
                waits < 1000,
                "{completions}: {} of {CROWD} seen",
                seen.len()
            );
        }
        assert!(waits <= 2 * CROWD / ROOM, "{completions}: {waits} waits");
    }
}

/// The backend cancels each request separately. A single cancellation of all requests would cost
/// more: the kernel would search its lists from the start for each request that it cancels.
#[test]
fn a_drop_cancels_all_requests_in_few_calls() {
    for mode in [Mode::Level, Mode::Edge, Mode::Oneshot] {
        for is_ready in [false, true] {
            let Some(mut crowd) = Crowd::gather(8, mode) else {
                return;
            };
            if is_ready {
                crowd.become_ready();
            }
            let before = crowd.backend.ring.calls;
            crowd.backend.cancel_all().expect("submitted");
            let calls = (crowd.backend.ring.calls - before) as usize;
            // The queue holds 8 requests here.
            assert!(
                calls <= CROWD / 8 + CROWD / WORK_OF_CALL + 2,
                "{mode:?}: {calls} calls"
            );
            let Crowd {
                backend,
                twins,
                mut near,
                ..
            } = crowd;
            // The ring itself still exists.
            drop(twins);
            assert_closed(&mut near, &mode);
            drop(backend);
        }
    }
}
