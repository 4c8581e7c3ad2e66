//! Tests the guarantees of `SharedClock`, the cached clock for many threads.

mod coherent;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use coherent::assert_coherent;
use evcore_clock::{Clock, ManualTimeSource, SharedClock, TimeSource, WallTime, stamp};
use proptest::prelude::*;

#[derive(Clone, Default)]
struct Counting {
    time: ManualTimeSource,
    offsets: Arc<AtomicU32>,
}

impl Counting {
    fn lookups(&self) -> u32 {
        self.offsets.load(Ordering::Relaxed)
    }
}

impl TimeSource for Counting {
    fn monotonic_ns(&self) -> u64 {
        self.time.monotonic_ns()
    }

    fn wall_time(&self) -> WallTime {
        self.time.wall_time()
    }

    fn offset_at(&self, unix_seconds: i64) -> i32 {
        self.offsets.fetch_add(1, Ordering::Relaxed);
        self.time.offset_at(unix_seconds)
    }
}

#[test]
fn nothing_changes_between_updates() {
    let time = ManualTimeSource::at(1_000);
    let clock = SharedClock::with_source(time.clone());
    time.advance(Duration::from_millis(2_345));
    assert_eq!((clock.monotonic_ns(), clock.unix_seconds()), (0, 1_000));
    assert!(clock.update());
    assert_eq!(clock.monotonic_ns(), 2_345_000_000);
    assert_eq!(clock.monotonic_ms(), 2_345);
    assert_eq!(clock.unix_seconds(), 1_002);
    assert_eq!(clock.snapshot().unix_ms(), 1_002_345);
    assert_eq!(clock.http_date(), stamp::http_date(1_002));
}

#[test]
fn a_snapshot_keeps_its_time_after_later_updates() {
    let time = ManualTimeSource::at(1_000);
    let clock = SharedClock::with_source(time.clone());
    let before = clock.snapshot();
    for _ in 0..200 {
        time.advance(Duration::from_secs(1));
        clock.update();
    }
    assert_eq!((before.monotonic_ns(), before.unix_seconds()), (0, 1_000));
    assert_coherent(&before);
    assert_eq!(clock.unix_seconds(), 1_200);
}

#[test]
fn a_wall_jump_changes_the_strings_and_not_monotonic_time() {
    for jump in [-86_400, -3_600, 3_600, 86_400] {
        let time = ManualTimeSource::at(1_000_000);
        time.advance(Duration::from_secs(7));
        let clock = SharedClock::with_source(time.clone());
        let before = clock.snapshot();

        time.jump_wall(jump);
        clock.update();
        let after = clock.snapshot();
        assert_eq!(after.monotonic_ns(), before.monotonic_ns());
        assert_eq!(after.unix_seconds(), 1_000_007 + jump);
        assert_ne!(after.http_date(), before.http_date());
        assert_coherent(&after);
    }
}

#[test]
fn the_offset_is_looked_up_once_a_second() {
    let source = Counting::default();
    let clock = SharedClock::with_source(source.clone());
    for seconds in 1..5 {
        for _ in 0..3 {
            clock.update();
        }
        assert_eq!(source.lookups(), seconds);
        source.time.advance(Duration::from_secs(1));
    }
}

#[test]
fn an_update_from_a_signal_keeps_the_last_offset() {
    let source = Counting::default();
    let clock = SharedClock::with_source(source.clone());
    source.time.set_offset(3_600);
    source.time.advance(Duration::from_secs(1));

    assert!(clock.update_from_signal());
    let from_signal = clock.snapshot();
    assert_eq!((from_signal.unix_seconds(), from_signal.offset()), (1, 0));
    assert_coherent(&from_signal);
    assert_eq!(source.lookups(), 1);

    // This is still the same second, but the offset was not looked up in it.
    assert!(clock.update());
    assert_eq!(clock.snapshot().offset(), 3_600);
    assert_coherent(&clock.snapshot());
    assert_eq!(source.lookups(), 2);
}

/// A source that calls a function, so that a test can run code during an update.
struct WithCallback<F>(ManualTimeSource, F);

impl<F: Fn() + Send> TimeSource for WithCallback<F> {
    fn monotonic_ns(&self) -> u64 {
        self.1();
        self.0.monotonic_ns()
    }

    fn wall_time(&self) -> WallTime {
        self.0.wall_time()
    }
}

#[test]
fn a_second_update_returns_at_once_and_readers_continue() {
    let (in_update, arrived) = mpsc::channel();
    let (resume, resumed) = mpsc::channel::<()>();
    let resumed = Mutex::new(resumed);
    let stops = Arc::new(AtomicBool::new(false));
    let time = ManualTimeSource::at(1_000);
    let pause = {
        let stops = Arc::clone(&stops);
        move || {
            if stops.swap(false, Ordering::SeqCst) {
                in_update.send(()).unwrap();
                resumed.lock().unwrap().recv().unwrap();
            }
        }
    };
    let clock = SharedClock::with_source(WithCallback(time.clone(), pause));
    time.advance(Duration::from_secs(1));
    stops.store(true, Ordering::SeqCst);

    thread::scope(|scope| {
        let first = scope.spawn(|| clock.update());
        arrived.recv().unwrap();
        let others = [clock.update(), clock.update_from_signal()];
        let meanwhile = clock.snapshot();
        // The assertions come last, because one that fails must not leave the first update blocked.
        resume.send(()).unwrap();
        assert_eq!(others, [false, false]);
        assert_eq!(meanwhile.unix_seconds(), 1_000);
        assert_coherent(&meanwhile);
        assert!(first.join().unwrap());
    });
    assert_eq!(clock.unix_seconds(), 1_001);
    assert!(clock.update());
}

#[test]
fn a_source_that_panics_leaves_the_clock_unchanged() {
    let panics = Arc::new(AtomicBool::new(false));
    let panic_if_set = {
        let panics = Arc::clone(&panics);
        move || assert!(!panics.load(Ordering::Relaxed), "expected")
    };
    let time = ManualTimeSource::at(1_000);
    let clock = SharedClock::with_source(WithCallback(time.clone(), panic_if_set));
    time.advance(Duration::from_secs(1));

    panics.store(true, Ordering::Relaxed);
    assert!(catch_unwind(AssertUnwindSafe(|| clock.update())).is_err());
    assert_eq!(clock.unix_seconds(), 1_000);
    assert_coherent(&clock.snapshot());

    panics.store(false, Ordering::Relaxed);
    assert!(clock.update());
    assert_eq!(clock.unix_seconds(), 1_001);
}

/// A time that advances by a third of a second per reading of the monotonic clock, with an offset
/// that depends on the second.
#[derive(Default)]
struct Advancing(AtomicU64);

impl TimeSource for Advancing {
    fn monotonic_ns(&self) -> u64 {
        (self.0.fetch_add(333, Ordering::Relaxed) + 333) * 1_000_000
    }

    fn wall_time(&self) -> WallTime {
        let ms = self.0.load(Ordering::Relaxed);
        WallTime {
            unix_seconds: 1_774_746_000 + (ms / 1_000) as i64,
            subsecond_ns: (ms % 1_000) as u32 * 1_000_000,
        }
    }

    fn offset_at(&self, unix_seconds: i64) -> i32 {
        ((unix_seconds % 57) as i32 - 28) * 1_800
    }
}

#[test]
fn every_snapshot_is_of_one_update() {
    let clock = SharedClock::with_source(Advancing::default());
    let done = AtomicBool::new(false);
    let watch = || {
        let mut last_ns = 0;
        while !done.load(Ordering::Acquire) {
            let now = clock.snapshot();
            assert_coherent(&now);
            assert_eq!(now.unix_ms() - 1_774_746_000_000, now.monotonic_ms() as i64);
            assert_eq!(
                now.offset(),
                Advancing::default().offset_at(now.unix_seconds())
            );
            assert!(now.monotonic_ns() >= last_ns);
            last_ns = now.monotonic_ns();
        }
    };
    thread::scope(|scope| {
        scope.spawn(watch);
        scope.spawn(watch);
        scope.spawn(watch);
        for _ in 0..100_000 {
            assert!(clock.update());
        }
        done.store(true, Ordering::Release);
    });
    assert_eq!(clock.monotonic_ms(), 33_300_333);
}

#[derive(Clone, Debug)]
enum Op {
    Advance(u32),
    Jump(i32),
    SetOffset(i32),
    Update,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        (0..3_000_u32).prop_map(Op::Advance),
        (-90_000..90_000_i32).prop_map(Op::Jump),
        (-50_400..=50_400_i32).prop_map(Op::SetOffset),
        Just(Op::Update),
    ]
}

proptest! {
    #[test]
    fn a_shared_clock_agrees_with_a_clock(
        ops in prop::collection::vec(op(), 1..200),
    ) {
        let time = ManualTimeSource::at(1_774_746_000);
        let mut oracle = Clock::with_source(time.clone());
        let clock = SharedClock::with_source(time.clone());
        let _ = oracle.offset(); // reads the wall clock now, as the shared clock does
        for op in ops {
            match op {
                Op::Advance(ms) => time.advance(Duration::from_millis(ms.into())),
                Op::Jump(seconds) => time.jump_wall(seconds.into()),
                Op::SetOffset(seconds) => time.set_offset(seconds),
                Op::Update => {
                    oracle.update();
                    prop_assert!(clock.update());
                    let _ = oracle.offset();
                }
            }
            let now = clock.snapshot();
            assert_coherent(&now);
            prop_assert_eq!(now.monotonic_ns(), oracle.monotonic_ns());
            prop_assert_eq!(now.monotonic_ms(), oracle.monotonic_ms());
            prop_assert_eq!(now.unix_seconds(), oracle.unix_seconds());
            prop_assert_eq!(now.unix_ms(), oracle.unix_ms());
            prop_assert_eq!(now.offset(), oracle.offset());
            prop_assert_eq!(now.http_date(), oracle.http_date());
            prop_assert_eq!(now.iso8601(), oracle.iso8601());
        }
    }
}
