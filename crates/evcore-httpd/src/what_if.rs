//! Simulates how evenly the workers of a recorded server would have shared their clients under
//! another accept policy.
//!
//! The recordings of all workers contain the times at which each connection was accepted and
//! closed, and at which its bytes arrived. The same clients then run in the simulator, against the
//! same number of workers, which follow the other policy.

use std::{
    collections::HashMap,
    fmt,
    net::SocketAddr,
    ops::{Add, RangeInclusive, Sub},
    time::Duration,
};

use evcore::{
    EventLoop, Interest, Mode, Step, Token, TokenMap,
    balancer::{Policy, WorkerId},
};
use evcore_recording::{Call, Recording, What};
use evcore_sim::{
    App, Client, ClientCx, ClientEvent, Process, Sim, SimConfig, SimGroup, SimListener, SimStream,
    Workers,
};

const SAMPLE_INTERVAL: Duration = Duration::from_millis(10);

const NEAR: RangeInclusive<Duration> = Duration::from_micros(5)..=Duration::from_micros(30);

const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// The least average number of open connections of a worker at which the balance is meaningful.
const LEAST_OPEN: u64 = 4;

const SERVER: SocketAddr = SocketAddr::new(
    std::net::IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1)),
    80,
);

/// A recorded connection. Times count from the first accept of all workers.
#[derive(Clone, Debug)]
struct Life {
    begins: Duration,
    ends: Duration,
    bytes_at: Vec<Duration>,
}

/// The recorded workers of one server, each with its connections.
#[derive(Debug)]
pub struct Recorded {
    workers: Vec<Vec<Life>>,
    turns: Turns,
    /// The time that all recordings cover. A recording may begin late, because it was restarted, or
    /// end early.
    common: RangeInclusive<Duration>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Turns {
    all: u64,
    /// Turns (iterations of the event loop) in which a worker met a client: it accepted, read, sent
    /// or closed.
    useful: u64,
}

impl Turns {
    /// Counts the turns of a recording within these times.
    fn of(recording: &Recording, times: &RangeInclusive<Duration>) -> Self {
        let meets = |call: &Call| match call.what {
            What::Accept | What::Recv | What::Send | What::SendFile => call.result >= 0,
            What::Close => true,
            _ => false,
        };
        let (mut now, mut turns) = (Duration::ZERO, Self::default());
        for calls in recording.turns() {
            now = calls.iter().filter_map(time_of).fold(now, Duration::max);
            let counts = times.contains(&now);
            turns.all += u64::from(counts);
            turns.useful += u64::from(counts && calls.iter().any(meets));
        }
        turns
    }
}

impl Add for Turns {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            all: self.all + other.all,
            useful: self.useful + other.useful,
        }
    }
}

impl Sub for Turns {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            all: self.all - earlier.all,
            useful: self.useful - earlier.useful,
        }
    }
}

/// The evenness of the spread of connections, and its cost in turns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Balance {
    /// The mean of Jain's index of the open connections, over the times with enough connections.
    pub jain: f64,
    /// Turns of all workers for each connection that began.
    pub turns: f64,
    /// The part of `turns` in which the worker met no client.
    pub idle_turns: f64,
}

impl fmt::Display for Balance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            jain,
            turns,
            idle_turns,
        } = self;
        write!(
            f,
            "Jain index {jain:.3}, {turns:.2} turns a connection, {idle_turns:.2} of them without a client"
        )
    }
}

#[derive(Default)]
struct Mean {
    sum: f64,
    samples: u32,
}

impl Mean {
    fn sample(&mut self, open: &[u64]) {
        let (n, sum) = (open.len() as f64, open.iter().sum::<u64>());
        if sum > 0 && sum >= LEAST_OPEN * open.len() as u64 {
            let squares: f64 = open.iter().map(|open| (*open as f64).powi(2)).sum();
            self.sum += (sum as f64).powi(2) / (n * squares);
            self.samples += 1;
        }
    }

    fn value(&self) -> Option<f64> {
        (self.samples > 0).then(|| self.sum / f64::from(self.samples))
    }
}

impl Recorded {
    /// Reads the recordings of all workers of one server. Returns `None` if they have no time in
    /// common, or more than a day.
    pub fn new(recordings: &[Recording]) -> Option<Self> {
        let (mut workers, mut all_times) = (Vec::new(), Vec::new());
        for recording in recordings {
            let (lives, times) = lives_of(recording);
            workers.push(lives);
            all_times.extend(times);
        }
        let begins = workers.iter().flatten().map(|life| life.begins);
        let start = begins.min().unwrap_or_default();
        for life in workers.iter_mut().flatten() {
            life.begins = life.begins.saturating_sub(start);
            life.ends = life.ends.saturating_sub(start);
            for at in &mut life.bytes_at {
                *at = at.saturating_sub(start);
            }
        }
        let from = *all_times.iter().map(|times| times.start()).max()?;
        let until = *all_times.iter().map(|times| times.end()).min()?;
        let times = from..=until;
        let common = from.saturating_sub(start)..=until.saturating_sub(start);
        let is_usable = !common.is_empty() && *common.end() - *common.start() <= LONGEST;
        is_usable.then_some(Self {
            workers,
            turns: recordings
                .iter()
                .map(|recording| Turns::of(recording, &times))
                .fold(Turns::default(), Add::add),
            common,
        })
    }

    pub fn connections(&self) -> usize {
        self.workers.iter().map(Vec::len).sum()
    }

    /// The times at which a connection begins or ends at a worker, in order. Of several changes at
    /// one time, the beginnings come first.
    fn changes(&self) -> Vec<(Duration, bool, usize)> {
        let lives = self.workers.iter().enumerate();
        let lives = lives.flat_map(|(worker, lives)| lives.iter().map(move |life| (worker, life)));
        let ends = |(worker, life): (usize, &Life)| {
            [(life.begins, false, worker), (life.ends, true, worker)]
        };
        let mut changes: Vec<_> = lives.flat_map(ends).collect();
        changes.sort_unstable();
        changes
    }

    fn balance(&self, mean: &Mean, turns: Turns) -> Option<Balance> {
        let lives = self.workers.iter().flatten();
        let begun = lives.filter(|life| self.common.contains(&life.begins));
        let begun = begun.count() as f64;
        let for_each = |turns: u64| turns as f64 / begun;
        (begun > 0.0).then_some(Balance {
            jain: mean.value()?,
            turns: for_each(turns.all),
            idle_turns: for_each(turns.all - turns.useful),
        })
    }

    /// The balance that was recorded; `None` if there were never enough connections, or none began.
    pub fn seen(&self) -> Option<Balance> {
        let mut mean = Mean::default();
        let mut changes = self.changes().into_iter().peekable();
        let mut open = vec![0; self.workers.len()];
        let mut now = *self.common.start();
        while self.common.contains(&now) {
            while let Some((_, has_ended, worker)) = changes.next_if(|(at, ..)| *at <= now) {
                match has_ended {
                    false => open[worker] += 1,
                    true => open[worker] -= 1,
                }
            }
            mean.sample(&open);
            now += SAMPLE_INTERVAL;
        }
        self.balance(&mean, self.turns)
    }

    /// The balance of the same clients under another policy, simulated.
    pub fn under(&self, policy: Policy) -> Option<Balance> {
        // With an even seed, the simulated kernel has exclusive wake-ups.
        let sim = Sim::new(0);
        sim.set_config(SimConfig {
            latency: NEAR,
            ..SimConfig::default()
        });
        let group = sim.group(policy, self.workers.len());
        let most = u32::try_from(self.connections()).unwrap_or(u32::MAX);
        let start = move |process: &Process, index: usize| {
            Worker::start(process, WorkerId::from_slot(index), &group, policy, most)
        };
        let mut workers = Workers::new(&sim, self.workers.len(), start);
        for life in self.workers.iter().flatten() {
            sim.add_client(Visitor::new(life.clone()));
        }
        let mut mean = Mean::default();
        let turns_of = |workers: &Workers<Worker>| {
            let turns = workers.apps().map(|(_, worker)| worker.turns());
            turns.fold(Turns::default(), Add::add)
        };
        workers.run_for(*self.common.start());
        let before = turns_of(&workers);
        while self.common.contains(&sim.now()) {
            let open = workers.apps().map(|(_, worker)| worker.open());
            mean.sample(&open.collect::<Vec<_>>());
            workers.run_for(SAMPLE_INTERVAL);
        }
        self.balance(&mean, turns_of(&workers) - before)
    }
}

/// The monotonic time that a call has read.
fn time_of(call: &Call) -> Option<Duration> {
    (call.what == What::Monotonic).then(|| Duration::from_nanos(call.result.unsigned_abs()))
}

/// Returns the connections of a recording, and its first and last time. A connection that is open
/// at the end of the recording ends there. A recorded time that goes back is ignored.
fn lives_of(recording: &Recording) -> (Vec<Life>, Option<RangeInclusive<Duration>>) {
    let (mut first, mut now) = (None, Duration::ZERO);
    let (mut open, mut lives) = (HashMap::new(), Vec::new());
    for call in recording.turns().flatten() {
        let at = now;
        match call.what {
            What::Monotonic => {
                now = now.max(time_of(&call).unwrap_or_default());
                first.get_or_insert(now);
            }
            What::Accept if call.result >= 0 => {
                open.insert(call.result, lives.len());
                lives.push(Life {
                    begins: at,
                    ends: Duration::MAX,
                    bytes_at: Vec::new(),
                });
            }
            What::Recv if call.result > 0 => {
                if let Some(life) = open.get(&i64::from(call.of)) {
                    lives[*life].bytes_at.push(at);
                }
            }
            What::Close => {
                if let Some(life) = open.remove(&i64::from(call.of)) {
                    lives[life].ends = at;
                }
            }
            _ => {}
        }
    }
    for life in open.into_values() {
        lives[life].ends = now;
    }
    (lives, first.map(|first| first..=now))
}

struct Worker {
    ev: EventLoop<SimListener>,
    streams: TokenMap<SimStream>,
    useful_turns: u64,
    /// The number of the last turn with a step.
    last_useful: u64,
}

impl Worker {
    fn start(
        process: &Process,
        id: WorkerId,
        group: &SimGroup,
        policy: Policy,
        connections: u32,
    ) -> Self {
        let builder = process.builder().listener(process.listen(SERVER));
        let builder = builder.connections(connections.max(1)).policy(policy);
        let ev = builder.group(group.join(process, id)).build();
        Self {
            ev: ev.expect("a simulated loop"),
            streams: TokenMap::new(),
            useful_turns: 0,
            last_useful: 0,
        }
    }

    fn turns(&self) -> Turns {
        Turns {
            all: self.ev.stats().turns,
            useful: self.useful_turns,
        }
    }

    fn open(&self) -> u64 {
        self.ev.stats().active as u64
    }

    fn read(&mut self, token: Token) {
        while let Some(stream) = self.streams.get(token) {
            match stream.recv(&mut [0; 64]) {
                Ok(1..) => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
                _ => _ = self.streams.close(&mut self.ev, token),
            }
        }
    }
}

impl App for Worker {
    fn event_loop(&mut self) -> &mut EventLoop<SimListener> {
        &mut self.ev
    }

    fn on_step(&mut self, step: Step<SimStream>) {
        let turn = self.ev.stats().turns;
        let is_first = std::mem::replace(&mut self.last_useful, turn) != turn;
        self.useful_turns += u64::from(is_first);
        match step {
            Step::Accepted(new) => {
                // An error would close the connection, but the loop has room for all.
                let _ = self
                    .streams
                    .add(&mut self.ev, new.stream, Interest::READ, Mode::Level);
            }
            Step::Ready(token, _) => self.read(token),
            _ => {}
        }
    }
}

#[derive(Debug)]
struct Visitor {
    life: Life,
    sent: usize,
}

impl Visitor {
    fn new(life: Life) -> Self {
        Self { life, sent: 0 }
    }

    fn wait(&self, cx: &mut ClientCx<'_>) {
        let next = self.life.bytes_at.get(self.sent).unwrap_or(&self.life.ends);
        cx.arm(next.saturating_sub(cx.now()));
    }
}

impl Client for Visitor {
    fn on_event(&mut self, event: ClientEvent, cx: &mut ClientCx<'_>) {
        match event {
            ClientEvent::Started => cx.arm(self.life.begins),
            ClientEvent::Expired if !cx.is_connected() => cx.connect(SERVER),
            ClientEvent::Connected => self.wait(cx),
            ClientEvent::Expired if self.sent < self.life.bytes_at.len() => {
                let _ = cx.send(b"x");
                self.sent += 1;
                self.wait(cx);
            }
            ClientEvent::Expired => cx.close(),
            ClientEvent::Ready(_) => {}
            _ => cx.exit(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(all: u64) -> Turns {
        let useful = all / 2;
        Turns { all, useful }
    }

    fn life(begins_ms: u64, ends_ms: u64) -> Life {
        Life {
            begins: Duration::from_millis(begins_ms),
            ends: Duration::from_millis(ends_ms),
            bytes_at: vec![Duration::from_millis(begins_ms)],
        }
    }

    fn uneven() -> Recorded {
        let lives = (0..100).map(|n| life(10 * n, 5_000));
        Recorded {
            workers: vec![lives.collect(), Vec::new()],
            turns: turns(300),
            common: Duration::ZERO..=Duration::from_secs(5),
        }
    }

    #[test]
    fn the_recorded_balance_is_that_of_the_open_connections() {
        let seen = uneven().seen().expect("enough connections");
        assert!((seen.jain - 0.5).abs() < 1e-9, "{seen}");
        assert!((seen.turns - 3.0).abs() < 1e-9, "{seen}");
        assert!((seen.idle_turns - 1.5).abs() < 1e-9, "{seen}");
        assert!(Recorded::new(&[]).is_none());
    }

    #[test]
    fn under_least_loaded_each_worker_would_have_got_half() {
        let balance = uneven().under(Policy::least_loaded());
        let balance = balance.expect("enough connections");
        assert!(balance.jain > 0.99, "{balance}");
        assert!((2.0..6.0).contains(&balance.turns), "{balance}");
    }

    #[test]
    fn the_balance_is_of_the_time_that_all_workers_have_recorded() {
        let workers = [vec![life(0, 4_000); 8], vec![life(1_000, 4_000); 8]];
        let recorded = |common: [u64; 2]| Recorded {
            workers: workers.to_vec(),
            turns: turns(16),
            common: Duration::from_millis(common[0])..=Duration::from_millis(common[1]),
        };
        let even = recorded([1_000, 3_000]).seen().expect("enough connections");
        assert!(even.jain > 0.999, "{even}");
        // Of the 16 connections, 8 begin at 1,000 ms.
        assert!((even.turns - 2.0).abs() < 1e-9, "{even}");
        let no_beginning = recorded([2_000, 3_000]).seen();
        assert_eq!(no_beginning, None, "there is no number of turns for each");
        let uneven = recorded([0, 1_000]).seen().expect("enough connections");
        assert!(uneven.jain < 0.6, "{uneven}");
    }
}
