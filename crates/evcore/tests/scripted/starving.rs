//! Floods of steps. No source of steps may starve another: each gets its steps within a few turns
//! (iterations of the loop), however long a flood lasts.

use std::time::Duration;

use evcore::{Budgets, Ready, Timer, Token};

use crate::{
    fake_backend::Recorded,
    fixture::{Fixture, readable},
};

/// An action that is repeated without end.
#[derive(Clone, Copy, Debug)]
enum Flood {
    PostsItself,
    PostsItselfForTheNextTurn,
    /// The handler arms a timer that is due at once.
    RearmsForNoTime,
    IsAlwaysReadable,
    /// More clients than a turn accepts wait at the first listener.
    OfClients,
    /// A handle posts the same token again and again. Its posts merge.
    OfPosts,
    /// The program marks the connection idle again after each step, and does not close it when it
    /// is evicted.
    NeverLeaves,
}

use Flood::{
    IsAlwaysReadable, NeverLeaves, OfClients, OfPosts, PostsItself, PostsItselfForTheNextTurn,
    RearmsForNoTime,
};

const FLOODS: [Flood; 7] = [
    PostsItself,
    PostsItselfForTheNextTurn,
    RearmsForNoTime,
    IsAlwaysReadable,
    OfClients,
    OfPosts,
    NeverLeaves,
];

const BUDGETS: Budgets = Budgets {
    batch: 3,
    accepts: 2,
    expired: 2,
    posted: 2,
    evictions: 2,
};

/// A loop with floods of steps, which begin before all other steps.
struct Flooded {
    fixture: Fixture,
    floods: Vec<(Flood, Token)>,
}

impl Flooded {
    fn new(kinds: &[Flood], locks: bool) -> Self {
        let mut fixture = Fixture::built(2, |builder, backend| {
            let builder = builder.budgets(BUDGETS);
            if locks {
                let policy = evcore::balancer::Policy::mutex();
                builder.policy(policy).group(backend.clone())
            } else {
                builder
            }
        });
        let floods: Vec<_> = kinds.iter().map(|kind| (*kind, fixture.join())).collect();
        let mut flooded = Self { fixture, floods };
        for at in 0..flooded.floods.len() {
            flooded.continue_flood(at);
        }
        flooded.fixture.pass_ms(1);
        flooded
    }

    fn continue_flood(&mut self, at: usize) {
        let (flood, token) = self.floods[at];
        let fixture = &mut self.fixture;
        match flood {
            PostsItself => assert!(fixture.ev.post(token, Ready::PRIORITY)),
            PostsItselfForTheNextTurn => assert!(fixture.ev.post_next(token, Ready::PRIORITY)),
            RearmsForNoTime => assert!(fixture.ev.arm(token, Timer::READ, Duration::ZERO)),
            OfPosts => {
                for _ in 0..2 * BUDGETS.posted {
                    fixture.ev.handle().post(token, Ready::PRIORITY);
                }
            }
            NeverLeaves => assert!(fixture.ev.set_idle(token)),
            IsAlwaysReadable | OfClients => {}
        }
    }

    /// Queues a wait that reports the floods and these events.
    fn report(&mut self, others: &[(Token, Ready)]) {
        let mut reported = Vec::new();
        for (flood, token) in self.floods.clone() {
            match flood {
                IsAlwaysReadable => reported.push((self.fixture.fd(token), Ready::READABLE)),
                OfClients if self.fixture.ev.stats().listening => {
                    self.fixture.connect(0, 2 * BUDGETS.accepts);
                    reported.push((self.fixture.listener_fd(0), Ready::READABLE));
                }
                _ => {}
            }
        }
        let others = others
            .iter()
            .map(|(token, ready)| (self.fixture.fd(*token), *ready));
        reported.extend(others);
        self.fixture.backend.report(reported);
    }

    /// Returns the number of turns until all of these steps have come. Checks that no turn exceeds
    /// its budgets.
    fn turns_until(&mut self, mut missing: Vec<Recorded>, reported: &[(Token, Ready)]) -> usize {
        let mut turns = 0;
        while !missing.is_empty() {
            turns += 1;
            assert!(turns < 100, "{missing:?} is starved by {:?}", self.floods);
            self.report(if turns == 1 { reported } else { &[] });
            self.fixture.wait();
            let mut steps = 0;
            while let Some(recorded) = self.fixture.step() {
                missing.retain(|other| *other != recorded);
                steps += 1;
                for at in 0..self.floods.len() {
                    self.continue_flood(at);
                }
            }
            let Budgets {
                batch,
                accepts,
                expired,
                posted,
                evictions,
            } = BUDGETS;
            assert!(steps <= batch + accepts + expired + posted + evictions + 1);
            self.fixture.pass_ms(1);
        }
        turns
    }

    /// Causes one step of each source except the listeners, behind all other steps of that source.
    /// An eviction is among them only in a shutdown.
    fn last_of_all(&mut self, shuts_down: bool) -> (Vec<Recorded>, Vec<(Token, Ready)>) {
        let fixture = &mut self.fixture;
        let [ready, timed, posted, put_off, outside, idle] = [(); 6].map(|()| fixture.join());
        fixture.arm_ms(timed, Timer::WRITE, 1);
        fixture.ev.post(posted, Ready::READABLE);
        fixture.ev.post_next(put_off, Ready::READABLE);
        fixture.ev.handle().post(outside, Ready::READABLE);
        fixture.ev.handle().wake();
        fixture.ev.set_idle(idle);
        let mut missing = [ready, posted, put_off, outside].map(readable).to_vec();
        missing.extend([Recorded::Woken, Recorded::Expired(timed, Timer::WRITE)]);
        if shuts_down {
            fixture.ev.shutdown(Duration::from_secs(1000));
            missing.push(Recorded::Evict(idle));
        }
        (missing, vec![(ready, Ready::READABLE)])
    }
}

#[test]
fn no_source_of_steps_starves_in_any_flood() {
    for flood in FLOODS {
        for (locks, shuts_down) in [(false, false), (false, true), (true, false), (true, true)] {
            let mut flooded = Flooded::new(&[flood], locks);
            let (missing, reported) = flooded.last_of_all(shuts_down);
            let turns = flooded.turns_until(missing, &reported);
            // Three steps are posted, and a turn has room for two.
            assert!(turns <= 3, "{turns} turns in the flood {flood:?}");
        }
    }
}

#[test]
fn no_source_of_steps_starves_in_all_floods_at_once() {
    for (locks, shuts_down) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut flooded = Flooded::new(&FLOODS, locks);
        let (missing, reported) = flooded.last_of_all(shuts_down);
        let turns = flooded.turns_until(missing, &reported);
        // The flood's post by a handle comes before that of `last_of_all`, and floods take half of
        // the posted steps.
        assert!(turns <= 5, "{turns} turns");
    }
}

#[test]
fn each_flood_gets_its_own_steps_among_all_floods() {
    for locks in [false, true] {
        let mut flooded = Flooded::new(&FLOODS, locks);
        let token = |flooded: &Flooded, at: usize| flooded.floods[at].1;
        for _ in 0..10 {
            // `NeverLeaves` is missing, because without a shutdown it is not evicted.
            let missing = vec![
                Recorded::Ready(token(&flooded, 0), Ready::PRIORITY),
                Recorded::Ready(token(&flooded, 1), Ready::PRIORITY),
                Recorded::Expired(token(&flooded, 2), Timer::READ),
                readable(token(&flooded, 3)),
                Recorded::Accepted(0),
                Recorded::Ready(token(&flooded, 5), Ready::PRIORITY),
            ];
            let turns = flooded.turns_until(missing, &[]);
            assert!(turns <= 2, "{turns} turns");
        }
    }
}

#[test]
fn a_flooded_listener_does_not_starve_another() {
    for locks in [false, true] {
        let mut flooded = Flooded::new(&FLOODS, locks);
        flooded.fixture.turn();
        flooded.fixture.connect(1, 1);
        for turn in 0.. {
            assert!(turn < 4, "it starves");
            let (first, second) = (
                flooded.fixture.listener_fd(0),
                flooded.fixture.listener_fd(1),
            );
            flooded.fixture.connect(0, 2 * BUDGETS.accepts);
            let both = [first, second].map(|fd| (fd, Ready::READABLE));
            flooded.fixture.backend.report(both.to_vec());
            if flooded.fixture.turn().contains(&Recorded::Accepted(1)) {
                break;
            }
        }
    }
}
