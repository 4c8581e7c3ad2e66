//! Tests updates of a shared clock from real signal handlers.
//!
//! Each test that raises a signal has its own signal and clock, because a handler belongs to the
//! whole process.
#![cfg(not(any(target_os = "illumos", target_os = "solaris")))] // `libc` has no `setitimer` there
#![allow(unsafe_code, reason = "installing a signal handler needs it")]

mod coherent;

use std::cell::Cell;
use std::hint::black_box;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use coherent::assert_coherent;
use evcore_clock::{SharedClock, SystemTimeSource, TimeSource, WallTime};
use evcore_testing::{CountingAllocator, allocations};

struct Tally {
    updated: AtomicU32,
    refused: AtomicU32,
}

impl Tally {
    const fn new() -> Self {
        Self {
            updated: AtomicU32::new(0),
            refused: AtomicU32::new(0),
        }
    }

    fn update(&self, clock: &OnceLock<SharedClock>) {
        let clock = clock.get().expect("made before the handler is installed");
        IN_HANDLER.set(true);
        let updated = clock.update_from_signal();
        IN_HANDLER.set(false);
        let outcome = if updated {
            &self.updated
        } else {
            &self.refused
        };
        outcome.fetch_add(1, Ordering::Relaxed);
    }

    fn counts(&self) -> (u32, u32) {
        let load = |count: &AtomicU32| count.load(Ordering::Relaxed);
        (load(&self.updated), load(&self.refused))
    }
}

fn install(signal: libc::c_int, handler: extern "C" fn(libc::c_int)) {
    // SAFETY: an all-zero `sigaction` is valid: no handler, no flags and an empty mask.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_sigaction = handler as *const () as libc::sighandler_t;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: the action is initialised, and the handler uses only atomics, a thread-local flag
    // without a destructor, and the clock under test.
    let result = unsafe { libc::sigaction(signal, &action, ptr::null_mut()) };
    assert_eq!(result, 0, "sigaction: {}", std::io::Error::last_os_error());
}

/// A time that advances by a second per reading of the wall clock.
struct Seconds(AtomicI64);

impl TimeSource for Seconds {
    fn monotonic_ns(&self) -> u64 {
        self.0.load(Ordering::Relaxed).unsigned_abs() * 1_000_000_000
    }

    fn wall_time(&self) -> WallTime {
        let unix_seconds = self.0.fetch_add(1, Ordering::Relaxed);
        WallTime {
            unix_seconds,
            subsecond_ns: 0,
        }
    }

    fn offset_at(&self, unix_seconds: i64) -> i32 {
        assert!(!IN_HANDLER.get(), "a handler must not look up the offset");
        (unix_seconds % 25) as i32 * 1_800
    }
}

thread_local! {
    static IN_HANDLER: Cell<bool> = const { Cell::new(false) };
}

#[test]
fn a_signal_between_updates_updates_the_clock() {
    static CLOCK: OnceLock<SharedClock> = OnceLock::new();
    static TALLY: Tally = Tally::new();
    extern "C" fn on_signal(_: libc::c_int) {
        TALLY.update(&CLOCK);
    }
    let clock = CLOCK.get_or_init(|| SharedClock::with_source(Seconds(AtomicI64::new(100))));
    install(libc::SIGUSR1, on_signal);

    raise(libc::SIGUSR1);
    assert_eq!(TALLY.counts(), (1, 0));
    assert_eq!(clock.unix_seconds(), 101);
    assert_coherent(&clock.snapshot());
}

#[test]
fn a_signal_during_an_update_does_not_update_the_clock() {
    static CLOCK: OnceLock<SharedClock> = OnceLock::new();
    static TALLY: Tally = Tally::new();
    static INTERRUPTS: AtomicBool = AtomicBool::new(false);
    extern "C" fn on_signal(_: libc::c_int) {
        TALLY.update(&CLOCK);
    }
    /// A source that raises the signal while it is read, in the middle of an update.
    struct Interrupted(Seconds);
    impl TimeSource for Interrupted {
        fn monotonic_ns(&self) -> u64 {
            if INTERRUPTS.load(Ordering::Relaxed) {
                raise(libc::SIGUSR2);
            }
            self.0.monotonic_ns()
        }

        fn wall_time(&self) -> WallTime {
            self.0.wall_time()
        }
    }
    let source = Interrupted(Seconds(AtomicI64::new(100)));
    let clock = CLOCK.get_or_init(|| SharedClock::with_source(source));
    install(libc::SIGUSR2, on_signal);
    INTERRUPTS.store(true, Ordering::Relaxed);

    assert!(clock.update());
    assert_eq!(TALLY.counts(), (0, 1));
    assert_eq!(clock.unix_seconds(), 101);
    assert_coherent(&clock.snapshot());
}

#[test]
fn frequent_signals_break_neither_updates_nor_readers() {
    const ALARMS: u32 = 300;
    static CLOCK: OnceLock<SharedClock> = OnceLock::new();
    static TALLY: Tally = Tally::new();
    extern "C" fn on_signal(_: libc::c_int) {
        TALLY.update(&CLOCK);
    }
    let clock = CLOCK.get_or_init(|| SharedClock::with_source(Seconds(AtomicI64::new(0))));
    install(libc::SIGALRM, on_signal);
    let alarms = || TALLY.counts().0 + TALLY.counts().1;
    let deadline = Instant::now() + Duration::from_secs(30);

    alarm_every(Duration::from_micros(100));
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut last_ns = 0;
            while alarms() < ALARMS && Instant::now() < deadline {
                let now = clock.snapshot();
                assert_coherent(&now);
                assert!(now.monotonic_ns() >= last_ns);
                last_ns = now.monotonic_ns();
            }
        });
        while alarms() < ALARMS && Instant::now() < deadline {
            clock.update();
        }
    });
    alarm_every(Duration::ZERO);
    assert!(alarms() >= ALARMS, "the signal came {} times", alarms());
    // The handler of the last signal may still be updating in another thread, but no update is
    // stuck.
    while !clock.update() {
        assert!(Instant::now() < deadline, "an update never ended");
    }
    assert_coherent(&clock.snapshot());
}

#[test]
fn an_update_from_a_signal_allocates_nothing() {
    let boxed = allocations_of(|| drop(black_box(Box::new(1))));
    assert_eq!(boxed, 1, "the allocator counts");

    let seconds = SharedClock::with_source(Seconds(AtomicI64::new(0)));
    let system = SharedClock::with_source(SystemTimeSource::new());
    for clock in [&seconds, &system] {
        let made = allocations_of(|| {
            for _ in 0..1_000 {
                assert!(clock.update_from_signal());
            }
        });
        assert_eq!(made, 0);
    }
    assert_eq!(seconds.unix_seconds(), 1_000);
}

/// Raises a signal on this thread; its handler has run when this returns.
fn raise(signal: libc::c_int) {
    // SAFETY: the signal has a handler, so it does not end the process.
    assert_eq!(unsafe { libc::raise(signal) }, 0);
}

/// Sends SIGALRM once per period. A period of zero stops the signals.
fn alarm_every(period: Duration) {
    let period = libc::timeval {
        tv_sec: 0,
        tv_usec: period.subsec_micros() as libc::suseconds_t,
    };
    let timer = libc::itimerval {
        it_interval: period,
        it_value: period,
    };
    // SAFETY: the new value is initialised, and the old one is not requested.
    let result = unsafe { libc::setitimer(libc::ITIMER_REAL, &timer, ptr::null_mut()) };
    assert_eq!(result, 0, "setitimer: {}", std::io::Error::last_os_error());
}

fn allocations_of(work: impl FnOnce()) -> usize {
    let before = allocations();
    work();
    allocations() - before
}

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;
