//! Tests the guarantees of `Clock`, the cached clock for one thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use evcore_clock::{Clock, ManualTimeSource, TimeSource, WallTime, stamp};

#[derive(Clone, Default)]
struct Counting {
    time: ManualTimeSource,
    monotonic: Arc<AtomicU32>,
    wall: Arc<AtomicU32>,
    offsets: Arc<AtomicU32>,
}

impl Counting {
    fn reads(&self) -> [u32; 2] {
        [&self.monotonic, &self.wall].map(|count| count.load(Ordering::Relaxed))
    }
}

impl TimeSource for Counting {
    fn monotonic_ns(&self) -> u64 {
        self.monotonic.fetch_add(1, Ordering::Relaxed);
        self.time.monotonic_ns()
    }

    fn wall_time(&self) -> WallTime {
        self.wall.fetch_add(1, Ordering::Relaxed);
        self.time.wall_time()
    }

    fn offset_at(&self, unix_seconds: i64) -> i32 {
        self.offsets.fetch_add(1, Ordering::Relaxed);
        self.time.offset_at(unix_seconds)
    }
}

#[test]
fn an_update_reads_the_monotonic_clock_once_and_no_other() {
    let source = Counting::default();
    let mut clock = Clock::with_source(source.clone());
    assert_eq!(source.reads(), [1, 0]);
    clock.update();
    assert_eq!(source.reads(), [2, 0]);
    let _ = (clock.monotonic_ns(), clock.monotonic_ms());
    assert_eq!(source.reads(), [2, 0]);
}

#[test]
fn wall_time_is_read_once_between_updates_and_only_if_needed() {
    let readers: [fn(&Clock) -> String; 4] = [
        |clock| clock.unix_seconds().to_string(),
        |clock| clock.unix_ms().to_string(),
        |clock| clock.offset().to_string(),
        |clock| clock.http_date().to_string(),
    ];
    for first in readers {
        let source = Counting::default();
        let mut clock = Clock::with_source(source.clone());
        for turn in 1..4 {
            clock.update();
            first(&clock);
            for reader in readers {
                reader(&clock);
            }
            assert_eq!(source.reads(), [1 + turn, turn]);
        }
    }
}

#[test]
fn all_readers_between_two_updates_see_the_same_wall_time() {
    let time = ManualTimeSource::at(1_000);
    let mut clock = Clock::with_source(time.clone());
    for turn in 0..3 {
        time.advance(Duration::from_millis(700));
        clock.update();
        let shown = (clock.unix_ms(), clock.http_date());
        time.jump_wall(3_600);
        assert_eq!((clock.unix_ms(), clock.http_date()), shown);
        assert_eq!(clock.unix_seconds(), clock.unix_ms().div_euclid(1_000));
        assert_eq!(
            clock.unix_ms(),
            1_000_700 + turn * 3_600_700,
            "the next turn"
        );
    }
}

#[test]
fn nothing_changes_between_updates() {
    let time = ManualTimeSource::at(1_000);
    let mut clock = Clock::with_source(time.clone());
    assert_eq!((clock.monotonic_ns(), clock.unix_ms()), (0, 1_000_000));
    time.advance(Duration::from_millis(2_345));
    assert_eq!((clock.monotonic_ns(), clock.unix_ms()), (0, 1_000_000));
    clock.update();
    assert_eq!(clock.monotonic_ns(), 2_345_000_000);
    assert_eq!(clock.monotonic_ms(), 2_345);
    assert_eq!(clock.unix_seconds(), 1_002);
    assert_eq!(clock.unix_ms(), 1_002_345);
}

#[test]
fn the_offset_is_looked_up_once_a_second_for_local_time() {
    let source = Counting::default();
    let mut clock = Clock::with_source(source.clone());
    let _ = clock.http_date();
    assert_eq!(source.offsets.load(Ordering::Relaxed), 0);
    for _ in 0..3 {
        let _ = (clock.error_log_time(), clock.access_log_time());
        let _ = (clock.iso8601(), clock.syslog_time(), clock.offset());
        clock.update();
    }
    assert_eq!(source.offsets.load(Ordering::Relaxed), 1);
    source.time.advance(Duration::from_secs(1));
    clock.update();
    let _ = clock.iso8601();
    assert_eq!(source.offsets.load(Ordering::Relaxed), 2);
}

#[test]
fn a_wall_jump_changes_the_strings_and_not_monotonic_time() {
    for jump in [-86_400, -3_600, 3_600, 86_400] {
        let time = ManualTimeSource::at(1_000_000);
        time.advance(Duration::from_secs(7));
        let mut clock = Clock::with_source(time.clone());
        let (before, date) = (clock.monotonic_ns(), clock.http_date());

        time.jump_wall(jump);
        clock.update();
        assert_eq!(clock.monotonic_ns(), before);
        assert_eq!(clock.unix_seconds(), 1_000_007 + jump);
        assert_eq!(clock.http_date(), stamp::http_date(1_000_007 + jump));
        assert_ne!(clock.http_date(), date);
    }
}

#[test]
fn monotonic_time_waits_for_a_source_that_went_back() {
    struct Settable(Arc<AtomicU64>);
    impl TimeSource for Settable {
        fn monotonic_ns(&self) -> u64 {
            self.0.load(Ordering::Relaxed)
        }

        fn wall_time(&self) -> WallTime {
            WallTime::default()
        }
    }
    let source_ns = Arc::new(AtomicU64::new(5_000_000));
    let mut clock = Clock::with_source(Settable(Arc::clone(&source_ns)));
    for (source, shown) in [
        (1, 5_000_000),
        (4_999_999, 5_000_000),
        (6_000_000, 6_000_000),
    ] {
        source_ns.store(source, Ordering::Relaxed);
        clock.update();
        assert_eq!(clock.monotonic_ns(), shown);
        assert_eq!(clock.monotonic_ms(), shown / 1_000_000);
    }
}

#[test]
fn wall_time_before_1970_is_rounded_down() {
    let time = ManualTimeSource::at(-2);
    time.advance(Duration::from_millis(250));
    let clock = Clock::with_source(time);
    assert_eq!((clock.unix_seconds(), clock.unix_ms()), (-2, -1_750));
}

#[test]
fn a_clock_can_move_to_another_thread() {
    let time = ManualTimeSource::new();
    let mut clock = Clock::with_source(time.clone());
    time.advance(Duration::from_secs(3));
    let update = move || {
        clock.update();
        clock.monotonic_ms()
    };
    assert_eq!(std::thread::spawn(update).join().unwrap(), 3_000);
}
