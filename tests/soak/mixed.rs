//! Two servers under a mixed load for a long time. The first has only small disturbances. The
//! workers of the second are killed, reloaded and upgraded.
//!
//!     cargo xtask soak MINUTES
//!
//! In each round, clients of all kinds come at a moderate rate. Each response is compared byte by
//! byte. Between two rounds no client is connected, and [`checks`] checks the servers. These losses
//! are allowed:
//!
//! - a session whose worker was killed;
//! - lines of the access log that a killed worker had buffered.

mod checks;
mod exchange;
mod ledger;
mod random;
mod session;
mod site;
mod wire;

use std::{
    env,
    hash::{BuildHasher, RandomState},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Signal, getpid, set_child_subreaper};
use signal_hook::{
    consts::{SIGINT, SIGTERM},
    flag,
};

use self::{
    checks::{Checks, Seen, check_growth},
    random::Random,
    session::{Target, visit},
    site::Site,
};

/// Clients of each server.
const CLIENTS: u64 = 12;

const ROUND: Duration = Duration::from_secs(60);

/// The disturbances that the second server has at least in each round. When the time of a round is
/// over, the test makes those that are still missing.
const DUE: [Disturbance; 3] = [Disturbance::Kill, Disturbance::Kill, Disturbance::Reload];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Disturbance {
    Kill,
    Reload,
    Upgrade,
    /// A small disturbance: the access log is rotated, or a worker is suspended for some time.
    Small,
}

type Watched = (Site, Checks);

#[test]
fn mixed_load_survives_kills_reloads_and_upgrades() {
    let seconds = env::var("SOAK_SECONDS").map_or(10, |text| text.parse().expect("a number"));
    let random = || RandomState::new().hash_one(()) % 1_000_000;
    let seed =
        env::var("SOAK_SEED").map_or_else(|_| random(), |text| text.parse().expect("a seed"));
    // After an upgrade, the new master is an orphan. This process adopts it, to check its exit
    // status.
    set_child_subreaper(Some(getpid())).expect("it is allowed");
    let mut soak = Soak {
        seed,
        time: Duration::from_secs(seconds),
        begun: Instant::now(),
        random: Random::new(seed, 0),
        interrupted: Arc::default(),
    };
    if seconds > 60 {
        soak.ends_by_signals();
    }
    if let Err(what) = soak.run() {
        let time = soak.begun.elapsed().as_secs();
        panic!("{what}; after {time} s of {seconds}, with SOAK_SEED={seed}");
    }
}

struct Soak {
    seed: u64,
    time: Duration,
    begun: Instant,
    random: Random,
    interrupted: Arc<AtomicBool>,
}

/// Ends the clients when it is dropped, also by a failure.
struct EndOnDrop<'a>(&'a [Target]);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.iter().for_each(|target| target.ledger.end());
    }
}

impl Soak {
    /// Makes INT and TERM end the test, and so its servers.
    fn ends_by_signals(&self) {
        for signal in [SIGINT, SIGTERM] {
            flag::register(signal, Arc::clone(&self.interrupted)).expect("it can be handled");
        }
    }

    fn run(&mut self) -> Result<(), String> {
        let started = ["steady", "disturbed"].map(|name| self.start(name));
        let (sites, targets): (Vec<_>, Vec<_>) = started.into_iter().unzip();
        let watch = |site: Site| Checks::of(&site).map(|checks| (site, checks));
        let mut sites: Vec<Watched> = sites.into_iter().map(watch).collect::<Result<_, _>>()?;
        let rounds = self.time.as_secs().div_ceil(ROUND.as_secs()).max(2);
        self.begun = Instant::now();
        thread::scope(|scope| {
            let _end = EndOnDrop(&targets);
            for (target, number) in targets.iter().zip(0..) {
                for client in 1..=CLIENTS {
                    let random = Random::new(self.seed, number * CLIENTS + client);
                    scope.spawn(move || visit(target, random));
                }
            }
            for round in 1..=rounds {
                self.round(round, rounds, &mut sites, &targets)?;
                self.report(&sites, &targets);
            }
            Ok::<_, String>(())
        })?;
        self.finish(rounds, sites, &targets)
    }

    fn start(&mut self, name: &'static str) -> (Site, Target) {
        let policies = ["least-loaded", "mutex", "exclusive", "off", "reuseport"];
        let policy = *self.random.pick(&policies);
        let poller = *self
            .random
            .pick(&["epoll", "epoll", "poll", "epoll-masked"]);
        println!(
            "soak: seed {}: {name} with {policy} and {poller}",
            self.seed
        );
        Site::start(name, policy, poller)
    }

    /// Runs a load with disturbances, and then the checks without clients.
    fn round(
        &mut self,
        round: u64,
        rounds: u64,
        sites: &mut [Watched],
        targets: &[Target],
    ) -> Result<(), String> {
        let end = self.time.mul_f64(round as f64 / rounds as f64);
        let mut pause_ms = 300..600;
        let mut due = DUE.to_vec();
        if is_upgraded_in(round, rounds) {
            due.insert(0, Disturbance::Upgrade);
        }
        while self.begun.elapsed() < end || !due.is_empty() {
            self.random.pause(pause_ms.clone());
            pause_ms = 300..(self.time.as_millis() as usize / 10).clamp(600, 4000);
            if self.interrupted.load(Relaxed) {
                return Err("it was interrupted".to_owned());
            }
            for (target, (site, _)) in targets.iter().zip(&*sites) {
                let of_site = |what| format!("{}: {what}", site.name);
                target.ledger.failure().map_err(of_site)?;
            }
            let is_over = self.begun.elapsed() >= end;
            let at = match is_over {
                true => sites.len() - 1,
                false => self.random.within(0..sites.len()),
            };
            let ((site, _), target) = (&mut sites[at], &targets[at]);
            let disturbance = match site.name {
                "steady" => Disturbance::Small,
                _ => self.choose(&due, is_over),
            };
            self.disturb(disturbance, site, target)
                .map_err(|what| format!("{}: {what}", site.name))?;
            if let Some(done) = due.iter().position(|due| *due == disturbance) {
                due.remove(done);
            }
        }
        for (target, (site, checks)) in targets.iter().zip(sites) {
            let _no_client = target.ledger.gate.write().expect("no client panics");
            let checked = target.ledger.failure();
            let checked = checked.and_then(|()| checks.check(site, target));
            checked.map_err(|what| format!("{}: {what}", site.name))?;
        }
        Ok(())
    }

    fn choose(&mut self, due: &[Disturbance], is_over: bool) -> Disturbance {
        match due.first() {
            Some(first) if is_over || *first == Disturbance::Upgrade => *first,
            _ => match self.random.within(0..10) {
                0..=4 => Disturbance::Kill,
                5..=6 => Disturbance::Reload,
                _ => Disturbance::Small,
            },
        }
    }

    fn disturb(
        &mut self,
        disturbance: Disturbance,
        site: &mut Site,
        target: &Target,
    ) -> Result<(), String> {
        match disturbance {
            Disturbance::Kill => site.kill(target, &mut self.random)?,
            Disturbance::Reload => site.reload(target, &mut self.random)?,
            Disturbance::Upgrade => site.upgrade(target, &mut self.random)?,
            Disturbance::Small if self.random.once_in(3) => site.rotate()?,
            Disturbance::Small => site.stop_for(50..1000, &mut self.random),
        }
        Ok(())
    }

    fn report(&self, sites: &[Watched], targets: &[Target]) {
        let mut line = format!("soak: {} s", self.begun.elapsed().as_secs());
        for ((site, checks), Target { ledger, .. }) in sites.iter().zip(targets) {
            let [master, worker] = checks.memory.last().expect("just measured");
            line += &format!(
                "; {}: {} requests, {} connections, {} kills cost {} sessions, {}, memory {master} and {worker} KiB",
                site.name,
                ledger.requests.get(),
                ledger.connections.get(),
                ledger.kills.count(),
                ledger.killed_sessions.get(),
                site.done
            );
        }
        println!("{line}");
    }

    fn finish(&self, rounds: u64, sites: Vec<Watched>, targets: &[Target]) -> Result<(), String> {
        let mut most = [0; 2];
        for ((mut site, checks), target) in sites.into_iter().zip(targets) {
            let name = site.name;
            let of_site = |what| format!("{name}: {what}");
            target.ledger.failure().map_err(of_site)?;
            if name == "steady" {
                most = check_growth(&checks.memory).map_err(of_site)?;
            } else if let Some(large) = checks.memory.iter().find(|sample| is_large(sample, &most))
            {
                return Err(of_site(format!("{large:?} KiB of memory, steady {most:?}")));
            }
            site.signal(Signal::QUIT);
            site.wait_for_end("the server ends").map_err(of_site)?;
            let seen = checks.check_end(&site, target).map_err(of_site)?;
            if name != "steady" {
                check_seen(seen, rounds).map_err(of_site)?;
            }
        }
        println!(
            "soak: all is right after {} s",
            self.begun.elapsed().as_secs()
        );
        Ok(())
    }
}

/// Returns whether the server is upgraded in a round: in every other round of the first half.
fn is_upgraded_in(round: u64, rounds: u64) -> bool {
    round % 2 == 1 && round <= rounds.div_ceil(2)
}

/// Compares the disturbances that the server has logged with those that are [`DUE`] in this many
/// rounds.
fn check_seen(seen: Seen, rounds: u64) -> Result<(), String> {
    let due = |disturbance| DUE.iter().filter(|due| **due == disturbance).count() as u64 * rounds;
    let least = Seen {
        deaths: due(Disturbance::Kill),
        reloads: due(Disturbance::Reload),
        upgrades: (1..=rounds)
            .filter(|round| is_upgraded_in(*round, rounds))
            .count() as u64,
    };
    match seen.deaths >= least.deaths
        && seen.reloads >= least.reloads
        && seen.upgrades >= least.upgrades
    {
        true => Ok(()),
        false => Err(format!("it has logged {seen:?}, of {least:?} at least")),
    }
}

fn is_large(memory: &[u64; 2], most: &[u64; 2]) -> bool {
    memory
        .iter()
        .zip(most)
        .any(|(memory, most)| *memory > 2 * most + 4096)
}
