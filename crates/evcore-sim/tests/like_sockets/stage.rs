//! One course, on a simulated pair and on a real one.

use std::{
    io,
    time::{Duration, Instant},
};

use evcore::{Interest, Mode, Ready, poller::Events};

use crate::{
    course::{Act, Side},
    ends::{End, Family, Pair},
};

/// Only a difference waits this long: what one end does, the other does not always see at once.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often what is full is looked at again: the kernel moves bytes on while it is filled.
const LOOKS: u32 = 50;

/// Runs a course on both, and compares after every act.
#[track_caller]
pub(crate) fn compare(family: Family, mode: Mode, course: &[Act]) {
    let mut simulated = Stage::new(Pair::simulated(family), mode);
    let mut real = Stage::new(Pair::real(family), mode);
    for (place, act) in course.iter().enumerate() {
        let at = format!("{family:?}, {mode:?}, act {place} of {course:?}");
        let expected = simulated.act(*act);
        assert_eq!(real.act(*act), expected, "{at}: the outcome");
        match mode {
            Mode::Level => same_levels(&mut simulated, &mut real, &at),
            _ => same_edges(&mut simulated, &mut real, &at),
        }
    }
}

/// What holds is the same.
#[track_caller]
fn same_levels(simulated: &mut Stage, real: &mut Stage, at: &str) {
    let expected = simulated.look();
    let deadline = Instant::now() + PATIENCE;
    let mut found = real.look();
    while found != expected && Instant::now() < deadline {
        found = real.look();
    }
    assert_eq!(found, expected, "{at}: what holds, by side");
}

/// What the simulated poller reports, the real one does too. Beyond that the real one repeats
/// itself (a Unix socket, where its peer has read), and says nothing new.
#[track_caller]
fn same_edges(simulated: &mut Stage, real: &mut Stage, at: &str) {
    let before = real.told;
    let reported = simulated.look();
    let deadline = Instant::now() + PATIENCE;
    let mut found = real.look();
    while is_missing(&reported, &found) && Instant::now() < deadline {
        let more = real.look();
        for (found, more) in found.iter_mut().zip(more) {
            *found = more.or(*found);
        }
    }
    for side in [0, 1] {
        match (reported[side], found[side]) {
            (Some(expected), found) => {
                assert_eq!(found, Some(expected), "{at}: the edge of side {side}");
            }
            (None, Some(found)) => {
                let was_told = before[side];
                // Less may hold than was told before: an edge is not for that.
                assert_eq!(
                    was_told | found,
                    was_told,
                    "{at}: an edge of side {side} is missing"
                );
            }
            (None, None) => {}
        }
    }
}

fn is_missing(reported: &[Option<Ready>; 2], found: &[Option<Ready>; 2]) -> bool {
    reported
        .iter()
        .zip(found)
        .any(|(reported, found)| reported.is_some() && found != reported)
}

/// A pair, watched.
struct Stage {
    pair: Pair,
    events: Events,
    /// What was reported of each side last.
    told: [Ready; 2],
}

impl Stage {
    fn new(mut pair: Pair, mode: Mode) -> Self {
        for (side, end) in pair.ends.iter().enumerate() {
            let end = end.as_deref().expect("it is open");
            pair.poller
                .add(end, side as u64, Interest::BOTH, mode)
                .expect("it can be watched");
        }
        let mut stage = Self {
            pair,
            events: Events::with_capacity(8),
            told: [Ready::NONE; 2],
        };
        // What holds from the beginning.
        assert_eq!(stage.look(), [Some(Ready::WRITABLE); 2]);
        stage
    }

    /// What a poller reports now, by side.
    fn look(&mut self) -> [Option<Ready>; 2] {
        let waited = self
            .pair
            .poller
            .wait(&mut self.events, Some(Duration::ZERO));
        waited.expect("a wait");
        let mut found = [None; 2];
        for event in &self.events {
            let side = usize::try_from(event.key).expect("0 or 1");
            found[side] = Some(event.ready);
            self.told[side] = event.ready;
        }
        found
    }

    /// Does it, and says what came of it; nothing where that end is closed already.
    fn act(&mut self, act: Act) -> Option<String> {
        let side = act.side();
        let end = self.pair.ends[side as usize].as_deref()?;
        let outcome = match act {
            Act::Send(_, count) => told(end.send(&[b'x'; 64][..count])),
            Act::Receive(_, count) => told(end.recv(&mut [0; 64][..count])),
            Act::FinishWriting(_) => told(end.finish_writing()),
            Act::TakeError(_) => told(end.take_error().map(|error| error.map(|it| it.kind()))),
            Act::Fill(_) => told(fill(end)),
            Act::Empty(_) => told(empty(end)),
            Act::Close(side) => {
                drop(self.take(side));
                told(Ok(()))
            }
            Act::Reset(side) => {
                self.take(side).reset();
                told(Ok(()))
            }
        };
        Some(outcome)
    }

    fn take(&mut self, side: Side) -> Box<dyn End> {
        let removed = self.pair.poller.remove(side as u64);
        removed.expect("it was watched");
        self.pair.ends[side as usize].take().expect("it is open")
    }
}

/// The result, as far as it is to be the same.
fn told<T: std::fmt::Debug>(result: io::Result<T>) -> String {
    format!("{:?}", result.map_err(|error| error.kind()))
}

/// Sends until nothing more is taken.
fn fill(end: &dyn End) -> io::Result<()> {
    let mut looks = 0;
    while looks < LOOKS {
        match end.send(&[b'x'; 16 * 1024]) {
            Ok(_) => looks = 0,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => looks += 1,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Receives until nothing more comes.
fn empty(end: &dyn End) -> io::Result<&'static str> {
    let (mut looks, mut buffer) = (0, vec![0; 64 * 1024]);
    while looks < LOOKS {
        match end.recv(&mut buffer) {
            Ok(0) => return Ok("at its end"),
            Ok(_) => looks = 0,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => looks += 1,
            Err(error) => return Err(error),
        }
    }
    Ok("empty")
}
