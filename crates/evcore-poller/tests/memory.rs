//! The memory that a registration takes in the poller's tables, at many different numbers of
//! registrations.

use std::{
    fs::File,
    os::fd::{AsFd, OwnedFd},
    time::Duration,
};

use evcore_poller::{
    Backend, BackendKind, Capabilities, EventSink, Events, Interest, Mode, Poller, Registration,
    Result, Target, WakeChannel, Waker,
};
use evcore_testing::{CountingAllocator, bytes_in_use, not_run};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// The most bytes of a registration: a row of 12, a key of 8, 4 for a waiting change, a bit for its
/// descriptor, and a quarter more for growth.
const BYTES_MAX: usize = 31;
/// The same with the poll backend, which adds an entry of 8 bytes for the kernel, 4 for the entry's
/// place, a row of 16, 4 for a waiting change, and a quarter more for growth.
const BYTES_MAX_POLL: usize = BYTES_MAX + 40;

#[derive(Debug)]
struct NoTables(WakeChannel);

impl Backend for NoTables {
    fn name(&self) -> &'static str {
        "no-tables"
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::default();
        capabilities.simulated = true;
        capabilities
    }

    fn add(&mut self, _: &Registration) -> Result<()> {
        Ok(())
    }

    fn modify(&mut self, _: &Registration) -> Result<()> {
        Ok(())
    }

    fn remove(&mut self, _: &Registration) -> Result<()> {
        Ok(())
    }

    fn remove_before_close(&mut self, _: &Registration) {}

    fn wait(&mut self, _: EventSink<'_>, _: Option<Duration>) -> Result<()> {
        Ok(())
    }

    fn waker(&self) -> Waker {
        self.0.waker()
    }
}

/// The bytes per registration, rounded up, if all of `count` registrations are changed at once.
fn bytes_each<'a>(
    open: impl FnOnce() -> Poller,
    count: u32,
    target: impl Fn(u32) -> Target<'a>,
) -> usize {
    let mut events = Events::bounded(1);
    let before = bytes_in_use();
    let mut poller = open();
    for id in 0..count {
        let added = poller.add(&target(id), id.into(), Interest::READ, Mode::Edge);
        added.unwrap();
        poller.modify(id.into(), Interest::BOTH).unwrap();
    }
    // Some changes reach the backend only in a wait.
    poller.wait(&mut events, Some(Duration::ZERO)).unwrap();
    bytes_in_use().wrapping_sub(before).div_ceil(count as usize)
}

/// Numbers of registrations from 1,000 to 20,000, and numbers just beyond a power of two, at which
/// a doubling table would have grown.
fn counts() -> impl Iterator<Item = u32> {
    let sweep = (0..).map(|n| 1_000 + n * 500).take_while(|n| *n <= 20_000);
    sweep.chain((10..=14).map(|bits| (1 << bits) + 1))
}

#[test]
fn a_registration_takes_few_bytes_at_any_number_of_them() {
    for count in counts() {
        let open = || NoTables(WakeChannel::new().unwrap()).into();
        let each = bytes_each(open, count, Target::Simulated);
        println!("{count}: {each}");
        assert!((20..=BYTES_MAX).contains(&each), "{count}: {each}");
    }
}

#[test]
fn a_registration_with_poll_takes_at_most_71_bytes() {
    let descriptors = raise_descriptors();
    let file = File::open("/dev/zero").unwrap();
    for count in counts() {
        if count + 100 > descriptors {
            not_run(&format!("{count} descriptors cannot be had"));
            continue;
        }
        let all = (0..count).map(|_| file.as_fd().try_clone_to_owned());
        let all: Vec<OwnedFd> = all.map(Result::unwrap).collect();
        let open = || Poller::with(BackendKind::Poll).unwrap();
        let each = bytes_each(open, count, |id| {
            Target::Descriptor(all[id as usize].as_fd())
        });
        println!("poll, {count}: {each}");
        assert!((50..=BYTES_MAX_POLL).contains(&each), "{count}: {each}");
    }
}

fn raise_descriptors() -> u32 {
    let allowed = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: allowed.maximum,
        ..allowed
    };
    setrlimit(Resource::Nofile, raised).unwrap();
    let most = allowed.maximum.unwrap_or(u64::MAX);
    u32::try_from(most).unwrap_or(u32::MAX)
}
