//! Runs one scenario on a simulated pair and on a real one.

use std::{
    io,
    time::{Duration, Instant},
};

use evcore::{Interest, Mode, Ready, poller::Events};

use crate::{
    endpoints::{Endpoint, Family, Pair},
    scenario::{Op, Side},
};

/// The longest time for which a real pair may differ from the simulated one. It may differ for a
/// moment, because an action on a real endpoint reaches the other endpoint a little later.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Number of retries if a buffer is full or empty, because the kernel may still be moving bytes.
const RETRIES: u32 = 50;

#[track_caller]
pub(crate) fn compare(family: Family, mode: Mode, scenario: &[Op]) {
    let mut simulated = Fixture::new(Pair::simulated(family), mode);
    let mut real = Fixture::new(Pair::real(family), mode);
    for (place, op) in scenario.iter().enumerate() {
        let at = format!("{family:?}, {mode:?}, op {place} of {scenario:?}");
        let expected = simulated.op(*op);
        assert_eq!(real.op(*op), expected, "{at}: the outcome");
        match mode {
            Mode::Level => same_levels(&mut simulated, &mut real, &at),
            _ => same_edges(&mut simulated, &mut real, &at),
        }
    }
}

/// Asserts that both pollers report the same levels.
#[track_caller]
fn same_levels(simulated: &mut Fixture, real: &mut Fixture, at: &str) {
    let expected = simulated.poll();
    let deadline = Instant::now() + TIMEOUT;
    let mut found = real.poll();
    while found != expected && Instant::now() < deadline {
        found = real.poll();
    }
    assert_eq!(found, expected, "{at}: the readiness of each side");
}

/// Asserts that the real poller reports the edges that the simulated one reports. The real poller
/// may also repeat an earlier report (of a Unix socket, when its peer has read).
#[track_caller]
fn same_edges(simulated: &mut Fixture, real: &mut Fixture, at: &str) {
    let before = real.reported;
    let reported = simulated.poll();
    let deadline = Instant::now() + TIMEOUT;
    let mut found = real.poll();
    while is_missing(&reported, &found) && Instant::now() < deadline {
        let more = real.poll();
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
                let earlier = before[side];
                // Less readiness than before is not an edge.
                assert_eq!(
                    earlier | found,
                    earlier,
                    "{at}: the simulation lacks an edge of side {side}"
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

struct Fixture {
    pair: Pair,
    events: Events,
    /// The last report of each side.
    reported: [Ready; 2],
}

impl Fixture {
    fn new(mut pair: Pair, mode: Mode) -> Self {
        for (side, end) in pair.endpoints.iter().enumerate() {
            let end = end.as_deref().expect("it is open");
            pair.poller
                .add(end, side as u64, Interest::BOTH, mode)
                .expect("it can be watched");
        }
        let mut fixture = Self {
            pair,
            events: Events::bounded(8),
            reported: [Ready::NONE; 2],
        };
        assert_eq!(fixture.poll(), [Some(Ready::WRITABLE); 2]);
        fixture
    }

    fn poll(&mut self) -> [Option<Ready>; 2] {
        let waited = self
            .pair
            .poller
            .wait(&mut self.events, Some(Duration::ZERO));
        waited.expect("a wait");
        let mut found = [None; 2];
        for event in &self.events {
            let side = usize::try_from(event.key).expect("0 or 1");
            found[side] = Some(event.ready);
            self.reported[side] = event.ready;
        }
        found
    }

    /// Runs an operation and returns its outcome, or `None` if that endpoint is closed.
    fn op(&mut self, op: Op) -> Option<String> {
        let side = op.side();
        let end = self.pair.endpoints[side as usize].as_deref()?;
        let outcome = match op {
            Op::Send(_, count) => outcome_of(end.send(&[b'x'; 64][..count])),
            Op::Recv(_, count) => outcome_of(end.recv(&mut [0; 64][..count])),
            Op::ShutdownWrite(_) => outcome_of(end.shutdown_write()),
            Op::TakeError(_) => outcome_of(
                end.take_error()
                    .map(|error| error.map(|error| error.kind())),
            ),
            Op::Fill(_) => outcome_of(fill(end)),
            Op::Drain(_) => outcome_of(drain(end)),
            Op::Close(side) => {
                drop(self.take(side));
                outcome_of(Ok(()))
            }
            Op::Reset(side) => {
                self.take(side).reset();
                outcome_of(Ok(()))
            }
        };
        Some(outcome)
    }

    fn take(&mut self, side: Side) -> Box<dyn Endpoint> {
        let removed = self.pair.poller.remove(side as u64);
        removed.expect("it was watched");
        self.pair.endpoints[side as usize]
            .take()
            .expect("it is open")
    }
}

fn outcome_of<T: std::fmt::Debug>(result: io::Result<T>) -> String {
    format!("{:?}", result.map_err(|error| error.kind()))
}

fn fill(end: &dyn Endpoint) -> io::Result<()> {
    let mut retries = 0;
    while retries < RETRIES {
        match end.send(&[b'x'; 16 * 1024]) {
            Ok(_) => retries = 0,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => retries += 1,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn drain(end: &dyn Endpoint) -> io::Result<&'static str> {
    let (mut retries, mut buffer) = (0, vec![0; 64 * 1024]);
    while retries < RETRIES {
        match end.recv(&mut buffer) {
            Ok(0) => return Ok("at its end"),
            Ok(_) => retries = 0,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => retries += 1,
            Err(error) => return Err(error),
        }
    }
    Ok("empty")
}
