//! Whoever would have the loop for himself, and those who must get their steps all the same: each
//! within so many turns, however long it goes on.

use std::time::Duration;

use evcore::{Budgets, Ready, Timer, Token};

use crate::{
    script::Did,
    stage::{Stage, readable},
};

/// What a handler does again and again, or clients and threads do.
#[derive(Clone, Copy, Debug)]
enum Hog {
    PostsItself,
    PostsItselfForTheNextTurn,
    /// Its timer is due whenever it is armed.
    RearmsForNoTime,
    IsAlwaysReadable,
    /// More clients than a turn accepts wait at the first listener.
    FloodOfClients,
    /// More posts than a turn takes in come from other threads.
    FloodOfPosts,
    /// It is idle again each time that it is told to go.
    NeverLeaves,
}

use Hog::{
    FloodOfClients, FloodOfPosts, IsAlwaysReadable, NeverLeaves, PostsItself,
    PostsItselfForTheNextTurn, RearmsForNoTime,
};

const HOGS: [Hog; 7] = [
    PostsItself,
    PostsItselfForTheNextTurn,
    RearmsForNoTime,
    IsAlwaysReadable,
    FloodOfClients,
    FloodOfPosts,
    NeverLeaves,
];

const BUDGETS: Budgets = Budgets {
    batch: 3,
    accepts: 2,
    expired: 2,
    posted: 2,
    evictions: 2,
};

/// A loop with some hogs in it, who begin before everybody else.
struct Trough {
    stage: Stage,
    hogs: Vec<(Hog, Token)>,
}

impl Trough {
    fn new(kinds: &[Hog], locks: bool) -> Self {
        let mut stage = Stage::built(2, |builder, script| {
            let builder = builder.budgets(BUDGETS);
            if locks {
                let policy = evcore::balancer::Policy::mutex();
                builder.policy(policy).group(script.clone())
            } else {
                builder
            }
        });
        let hogs: Vec<_> = kinds.iter().map(|kind| (*kind, stage.join())).collect();
        let mut trough = Self { stage, hogs };
        for at in 0..trough.hogs.len() {
            trough.goes_on(at);
        }
        trough.stage.pass_ms(1);
        trough
    }

    fn goes_on(&mut self, at: usize) {
        let (hog, token) = self.hogs[at];
        let stage = &mut self.stage;
        match hog {
            PostsItself => assert!(stage.ev.post(token, Ready::PRIORITY)),
            PostsItselfForTheNextTurn => assert!(stage.ev.post_next(token, Ready::PRIORITY)),
            RearmsForNoTime => assert!(stage.ev.arm(token, Timer::READ, Duration::ZERO)),
            FloodOfPosts => {
                for _ in 0..2 * BUDGETS.posted {
                    stage.ev.handle().post(token, Ready::PRIORITY).unwrap();
                }
            }
            NeverLeaves => assert!(stage.ev.set_idle(token)),
            IsAlwaysReadable | FloodOfClients => {}
        }
    }

    /// What the kernel says next: of whoever is always there, and of these.
    fn report(&mut self, others: &[(Token, Ready)]) {
        let mut reported = Vec::new();
        for (hog, token) in self.hogs.clone() {
            match hog {
                IsAlwaysReadable => reported.push((self.stage.fd(token), Ready::READABLE)),
                FloodOfClients if self.stage.ev.status().listening => {
                    self.stage.connect(0, 2 * BUDGETS.accepts);
                    reported.push((self.stage.listener_fd(0), Ready::READABLE));
                }
                _ => {}
            }
        }
        let others = others
            .iter()
            .map(|(token, ready)| (self.stage.fd(*token), *ready));
        reported.extend(others);
        self.stage.script.report(reported);
    }

    /// In how many turns all of this comes, and that no turn is long.
    fn turns_until(&mut self, mut missing: Vec<Did>, reported: &[(Token, Ready)]) -> usize {
        let mut turns = 0;
        while !missing.is_empty() {
            turns += 1;
            assert!(turns < 100, "{missing:?} starves beside {:?}", self.hogs);
            self.report(if turns == 1 { reported } else { &[] });
            self.stage.wait();
            let mut steps = 0;
            while let Some(did) = self.stage.step() {
                missing.retain(|other| *other != did);
                steps += 1;
                for at in 0..self.hogs.len() {
                    self.goes_on(at);
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
            self.stage.pass_ms(1);
        }
        turns
    }

    /// One step of every kind for somebody who comes last to each.
    fn last_of_all(&mut self, shuts_down: bool) -> (Vec<Did>, Vec<(Token, Ready)>) {
        let stage = &mut self.stage;
        let [ready, timed, posted, put_off, outside, idle] = [(); 6].map(|()| stage.join());
        stage.arm_ms(timed, Timer::WRITE, 1);
        stage.ev.post(posted, Ready::READABLE);
        stage.ev.post_next(put_off, Ready::READABLE);
        stage.ev.handle().post(outside, Ready::READABLE).unwrap();
        stage.ev.handle().wake();
        stage.ev.set_idle(idle);
        let mut missing = [ready, posted, put_off, outside].map(readable).to_vec();
        missing.extend([Did::Woken, Did::Expired(timed, Timer::WRITE)]);
        if shuts_down {
            stage.ev.shutdown(Duration::from_secs(1000));
            missing.push(Did::Evict(idle));
        }
        (missing, vec![(ready, Ready::READABLE)])
    }
}

#[test]
fn nobody_starves_beside_any_of_them() {
    for hog in HOGS {
        for (locks, shuts_down) in [(false, false), (false, true), (true, false), (true, true)] {
            let mut trough = Trough::new(&[hog], locks);
            let (missing, reported) = trough.last_of_all(shuts_down);
            let turns = trough.turns_until(missing, &reported);
            // Three are posted, and there is room for two in a turn.
            assert!(turns <= 3, "{turns} turns beside {hog:?}");
        }
    }
}

#[test]
fn nor_beside_all_of_them_at_once() {
    for (locks, shuts_down) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut trough = Trough::new(&HOGS, locks);
        let (missing, reported) = trough.last_of_all(shuts_down);
        let turns = trough.turns_until(missing, &reported);
        // The flood of posts goes before one of them, and of what can be posted hogs take the half.
        assert!(turns <= 5, "{turns} turns");
    }
}

#[test]
fn each_of_them_gets_its_own_steps_too() {
    for locks in [false, true] {
        let mut trough = Trough::new(&HOGS, locks);
        let token = |trough: &Trough, at: usize| trough.hogs[at].1;
        for _ in 0..10 {
            let missing = vec![
                Did::Ready(token(&trough, 0), Ready::PRIORITY),
                Did::Ready(token(&trough, 1), Ready::PRIORITY),
                Did::Expired(token(&trough, 2), Timer::READ),
                readable(token(&trough, 3)),
                Did::Accepted(0),
                Did::Ready(token(&trough, 5), Ready::PRIORITY),
            ];
            let turns = trough.turns_until(missing, &[]);
            assert!(turns <= 2, "{turns} turns");
        }
    }
}

#[test]
fn a_client_of_another_listener_does_not_wait_for_the_end_of_a_flood() {
    for locks in [false, true] {
        let mut trough = Trough::new(&HOGS, locks);
        trough.stage.turn();
        trough.stage.connect(1, 1);
        for turn in 0.. {
            assert!(turn < 4, "it starves");
            let (first, second) = (trough.stage.listener_fd(0), trough.stage.listener_fd(1));
            trough.stage.connect(0, 2 * BUDGETS.accepts);
            let both = [first, second].map(|fd| (fd, Ready::READABLE));
            trough.stage.script.report(both.to_vec());
            if trough.stage.turn().contains(&Did::Accepted(1)) {
                break;
            }
        }
    }
}
