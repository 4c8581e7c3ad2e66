//! The front over a backend that writes down what it is asked and answers from a script.

use std::{
    collections::VecDeque,
    io::stdin,
    sync::{Arc, Mutex, MutexGuard},
};

use super::*;
use crate::{Abilities, WakeChannel};

const SECOND: Duration = Duration::from_secs(1);

/// As epoll.
const ALL: Abilities = Abilities {
    edge: true,
    oneshot: true,
};
/// As poll.
const NOTHING: Abilities = Abilities {
    edge: false,
    oneshot: false,
};

#[derive(Debug, Default)]
struct Script {
    /// What was asked since the last look.
    calls: Vec<Call>,
    /// What the next waits answer; after the last of them, nothing and at once.
    answers: VecDeque<Answer>,
    /// Keys that `add` and `modify` refuse.
    refuses: Vec<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Add(u64, Interest),
    Modify(u64, Interest),
    Remove(u64, Interest),
    Forget(u64),
    Wait(Option<Duration>),
}
use Call::{Add, Forget, Modify, Remove, Wait};

#[derive(Debug)]
enum Answer {
    Events(Vec<(u64, Ready)>),
    Interrupted,
    Broken,
}

fn reports<const N: usize>(events: [(u64, Ready); N]) -> Answer {
    Answer::Events(events.to_vec())
}

#[derive(Debug)]
struct Scripted {
    abilities: Abilities,
    script: Arc<Mutex<Script>>,
    wake: WakeChannel,
}

fn out_of_memory() -> Error {
    Error::os("pretending")(rustix::io::Errno::NOMEM)
}

impl Scripted {
    fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().expect("no test panics with the script")
    }

    fn tell(&self, key: u64, call: Call) -> Result<()> {
        let mut script = self.script();
        script.calls.push(call);
        if script.refuses.contains(&key) {
            return Err(out_of_memory());
        }
        Ok(())
    }
}

impl Backend for Scripted {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn abilities(&self) -> Abilities {
        self.abilities
    }

    fn add(&mut self, new: &Registration) -> Result<()> {
        assert!(!new.interest.is_empty());
        self.tell(new.key, Add(new.key, new.interest))
    }

    fn modify(&mut self, new: &Registration) -> Result<()> {
        assert!(!new.interest.is_empty());
        self.tell(new.key, Modify(new.key, new.interest))
    }

    fn remove(&mut self, old: &Registration) -> Result<()> {
        assert!(!old.interest.is_empty());
        self.tell(old.key, Remove(old.key, old.interest))
    }

    fn forget(&mut self, old: &Registration) {
        self.script().calls.push(Forget(old.key));
    }

    fn wait(&mut self, events: &mut Events, timeout: Option<Duration>) -> Result<()> {
        let mut script = self.script();
        script.calls.push(Wait(timeout));
        match script.answers.pop_front() {
            None => Ok(()),
            Some(Answer::Interrupted) => Err(Error::Interrupted),
            Some(Answer::Broken) => Err(out_of_memory()),
            Some(Answer::Events(list)) => {
                for (key, ready) in list {
                    events.push(key, ready);
                }
                Ok(())
            }
        }
    }

    fn waker(&self) -> Waker {
        self.wake.waker()
    }
}

/// A poller and its script.
struct Stage {
    poller: Poller,
    script: Arc<Mutex<Script>>,
    events: Events,
}

impl Stage {
    fn new(abilities: Abilities) -> Self {
        let script = Arc::<Mutex<Script>>::default();
        let backend = Scripted {
            abilities,
            script: Arc::clone(&script),
            wake: WakeChannel::new().expect("a channel"),
        };
        Self {
            poller: Poller::from_backend(Box::new(backend)),
            script,
            events: Events::with_capacity(4),
        }
    }

    fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().expect("no test panics with the script")
    }

    fn add(&mut self, key: u64, interest: Interest, mode: Mode) -> Result<()> {
        // Only the number of the descriptor matters, and standard input always has one.
        let added = self.poller.add(stdin(), key, interest, mode);
        self.poller.registry.verify();
        added
    }

    fn modify(&mut self, key: u64, interest: Interest) {
        self.poller.modify(key, interest).expect("registered");
        self.poller.registry.verify();
    }

    /// Waits; what the backend answers is `answer`. Returns the events.
    fn wait(&mut self, answer: Answer) -> Vec<(u64, Ready)> {
        self.script().answers.push_back(answer);
        self.idle()
    }

    /// Waits, and the backend has nothing to say of its own. Returns the events.
    fn idle(&mut self) -> Vec<(u64, Ready)> {
        let count = self.poller.wait(&mut self.events, None).expect("a wait");
        self.poller.registry.verify();
        assert_eq!(count, self.events.len());
        self.events.iter().map(|it| (it.key, it.ready)).collect()
    }

    /// What the backend was asked since the last look.
    fn calls(&self) -> Vec<Call> {
        std::mem::take(&mut self.script().calls)
    }
}

#[test]
fn add_and_remove_act_at_once() {
    let mut stage = Stage::new(ALL);
    stage.add(3, Interest::READ, Mode::Level).expect("add");
    assert_eq!(stage.calls(), [Add(3, Interest::READ)]);
    stage.poller.remove(3).expect("remove");
    assert_eq!(stage.calls(), [Remove(3, Interest::READ)]);
}

#[test]
fn modify_waits_for_the_wait_and_is_merged() {
    let mut stage = Stage::new(ALL);
    stage.add(3, Interest::READ, Mode::Level).expect("add");
    stage.modify(3, Interest::WRITE);
    stage.modify(3, Interest::BOTH);
    assert_eq!(stage.calls(), [Add(3, Interest::READ)]);
    stage.idle();
    assert_eq!(stage.calls(), [Modify(3, Interest::BOTH), Wait(None)]);
    stage.idle();
    assert_eq!(stage.calls(), [Wait(None)], "told once");
}

#[test]
fn modify_that_is_taken_back_costs_no_call() {
    for mode in [Mode::Level, Mode::Edge] {
        let mut stage = Stage::new(ALL);
        stage.add(3, Interest::READ, mode).expect("add");
        stage.calls();
        stage.modify(3, Interest::NONE);
        stage.modify(3, Interest::READ);
        stage.idle();
        assert_eq!(stage.calls(), [Wait(None)], "{mode:?}");
    }
}

#[test]
fn an_empty_interest_is_removed_and_comes_back_as_an_addition() {
    let mut stage = Stage::new(ALL);
    stage.add(3, Interest::READ, Mode::Level).expect("add");
    stage.calls();
    stage.modify(3, Interest::NONE);
    stage.idle();
    assert_eq!(stage.calls(), [Remove(3, Interest::READ), Wait(None)]);
    stage.modify(3, Interest::WRITE);
    stage.idle();
    assert_eq!(stage.calls(), [Add(3, Interest::WRITE), Wait(None)]);
}

#[test]
fn nothing_asked_is_nothing_told() {
    let mut stage = Stage::new(ALL);
    stage.add(3, Interest::NONE, Mode::Level).expect("add");
    stage.idle();
    stage.poller.remove(3).expect("remove");
    stage.add(3, Interest::NONE, Mode::Level).expect("add");
    stage.poller.forget(3).expect("forget");
    assert_eq!(stage.calls(), [Wait(None)]);
}

#[test]
fn remove_names_what_the_backend_knows_not_what_is_pending() {
    let mut stage = Stage::new(ALL);
    stage.add(3, Interest::READ, Mode::Level).expect("add");
    stage.modify(3, Interest::NONE);
    stage.poller.remove(3).expect("remove");
    stage.idle();
    let expected = [
        Add(3, Interest::READ),
        Remove(3, Interest::READ),
        Wait(None),
    ];
    assert_eq!(stage.calls(), expected);
}

#[test]
fn forget_says_so_to_the_backend() {
    let mut stage = Stage::new(ALL);
    stage.add(3, Interest::READ, Mode::Level).expect("add");
    stage.poller.forget(3).expect("forget");
    assert_eq!(stage.calls(), [Add(3, Interest::READ), Forget(3)]);
    assert!(stage.poller.remove(3).is_err(), "it is gone");
}

#[test]
fn a_one_shot_is_armed_by_every_modify_where_the_kernel_keeps_it() {
    let mut stage = Stage::new(ALL);
    stage.add(3, Interest::READ, Mode::Oneshot).expect("add");
    stage.calls();
    stage.wait(reports([(3, Ready::READABLE)]));
    stage.modify(3, Interest::READ);
    stage.idle();
    let expected = [Wait(None), Modify(3, Interest::READ), Wait(None)];
    assert_eq!(stage.calls(), expected);
}

#[test]
fn a_one_shot_that_reported_is_masked_until_modify() {
    let mut stage = Stage::new(NOTHING);
    stage.add(3, Interest::BOTH, Mode::Oneshot).expect("add");
    stage.calls();
    stage.wait(reports([(3, Ready::READABLE)]));
    stage.poller.rearm(3, Interest::BOTH).expect("registered");
    stage.idle();
    stage.modify(3, Interest::BOTH);
    stage.idle();
    let expected = [
        Wait(None),
        Remove(3, Interest::BOTH),
        Wait(None),
        Add(3, Interest::BOTH),
        Wait(None),
    ];
    assert_eq!(stage.calls(), expected);
}

#[test]
fn an_edge_that_reported_is_masked_on_that_side_until_rearmed() {
    let mut stage = Stage::new(NOTHING);
    stage.add(3, Interest::BOTH, Mode::Edge).expect("add");
    stage.calls();
    stage.wait(reports([(3, Ready::WRITABLE)]));
    stage.idle();
    assert_eq!(
        stage.calls(),
        [Wait(None), Modify(3, Interest::READ), Wait(None)]
    );
    stage.poller.rearm(3, Interest::READ).expect("registered");
    stage.idle();
    assert_eq!(stage.calls(), [Wait(None)], "it was not that side");
    stage.poller.rearm(3, Interest::WRITE).expect("registered");
    stage.idle();
    assert_eq!(stage.calls(), [Modify(3, Interest::BOTH), Wait(None)]);
}

#[test]
fn an_edge_rearmed_before_the_next_wait_costs_no_call() {
    let mut stage = Stage::new(NOTHING);
    stage.add(3, Interest::READ, Mode::Edge).expect("add");
    stage.calls();
    stage.wait(reports([(3, Ready::READABLE)]));
    stage.poller.rearm(3, Interest::READ).expect("registered");
    stage.idle();
    assert_eq!(stage.calls(), [Wait(None), Wait(None)]);
}

#[test]
fn an_edge_stays_masked_when_modify_is_taken_back_and_starts_afresh_when_not() {
    let mut stage = Stage::new(NOTHING);
    stage.add(3, Interest::READ, Mode::Edge).expect("add");
    stage.wait(reports([(3, Ready::READABLE)]));
    stage.calls();
    stage.modify(3, Interest::NONE);
    stage.modify(3, Interest::READ);
    stage.idle();
    assert_eq!(stage.calls(), [Remove(3, Interest::READ), Wait(None)]);
    stage.modify(3, Interest::BOTH);
    stage.idle();
    assert_eq!(stage.calls(), [Add(3, Interest::BOTH), Wait(None)]);
}

#[test]
fn nothing_is_masked_where_the_kernel_keeps_the_mode() {
    for mode in [Mode::Level, Mode::Edge, Mode::Oneshot] {
        let mut stage = Stage::new(ALL);
        stage.add(3, Interest::BOTH, mode).expect("add");
        stage.calls();
        stage.wait(reports([(3, Ready::READABLE | Ready::ERROR)]));
        stage.poller.rearm(3, Interest::BOTH).expect("registered");
        stage.idle();
        assert_eq!(stage.calls(), [Wait(None), Wait(None)], "{mode:?}");
    }
}

#[test]
fn level_is_never_masked() {
    let mut stage = Stage::new(NOTHING);
    stage.add(3, Interest::READ, Mode::Level).expect("add");
    stage.calls();
    stage.wait(reports([(3, Ready::READABLE)]));
    stage.idle();
    assert_eq!(stage.calls(), [Wait(None), Wait(None)]);
}

#[test]
fn an_error_or_hang_up_alone_is_told_to_the_sides_of_interest() {
    for abilities in [ALL, NOTHING] {
        for (interest, sides) in [
            (Interest::READ, Ready::READABLE),
            (Interest::WRITE, Ready::WRITABLE),
            (Interest::BOTH, Ready::READABLE | Ready::WRITABLE),
        ] {
            for bit in [Ready::ERROR, Ready::WRITE_CLOSED] {
                let mut stage = Stage::new(abilities);
                stage.add(3, interest, Mode::Level).expect("add");
                assert_eq!(stage.wait(reports([(3, bit)])), [(3, bit | sides)]);
            }
        }
    }
}

#[test]
fn an_error_masks_every_side_that_was_told_of_it() {
    let mut stage = Stage::new(NOTHING);
    stage.add(3, Interest::BOTH, Mode::Edge).expect("add");
    stage.wait(reports([(3, Ready::ERROR)]));
    stage.calls();
    stage.idle();
    assert_eq!(stage.calls(), [Remove(3, Interest::BOTH), Wait(None)]);
}

#[test]
fn an_event_of_what_is_gone_is_left_as_it_is() {
    let old = (1 << 32) | 3;
    let mut stage = Stage::new(NOTHING);
    stage
        .add(2 << 32 | 3, Interest::BOTH, Mode::Oneshot)
        .expect("add");
    stage.calls();
    let events = stage.wait(reports([(old, Ready::ERROR), (77, Ready::ERROR)]));
    assert_eq!(events, [(old, Ready::ERROR), (77, Ready::ERROR)]);
    stage.idle();
    assert_eq!(
        stage.calls(),
        [Wait(None), Wait(None)],
        "nothing was masked"
    );
}

#[test]
fn both_halves_of_a_key_must_match() {
    let (old, new) = ((1 << 32) | 3, (2 << 32) | 3);
    let mut stage = Stage::new(NOTHING);
    stage.add(old, Interest::READ, Mode::Edge).expect("add");
    assert!(matches!(
        stage.add(new, Interest::READ, Mode::Edge),
        Err(Error::AlreadyRegistered { key }) if key == new
    ));
    let poller = &mut stage.poller;
    for refused in [
        poller.modify(new, Interest::READ),
        poller.rearm(new, Interest::READ),
        poller.remove(new),
        poller.forget(new),
    ] {
        assert!(matches!(refused, Err(Error::NotRegistered { key }) if key == new));
    }
    poller.remove(old).expect("remove");
    stage
        .add(new, Interest::READ, Mode::Edge)
        .expect("the id is free");
}

#[test]
fn rearm_checks_the_key_where_it_has_nothing_else_to_do() {
    let mut stage = Stage::new(ALL);
    assert!(matches!(
        stage.poller.rearm(3, Interest::READ),
        Err(Error::NotRegistered { key: 3 })
    ));
}

#[test]
fn ids_end_at_the_limit() {
    let mut stage = Stage::new(ALL);
    let key = u64::from(MAX_ID) + 1;
    assert!(matches!(
        stage.add(key, Interest::READ, Mode::Level),
        Err(Error::IdTooLarge { key: refused }) if refused == key
    ));
    assert_eq!(stage.calls(), []);
    let highest = (7 << 32) | u64::from(MAX_ID);
    stage
        .add(highest, Interest::READ, Mode::Level)
        .expect("add");
}

#[test]
fn what_the_backend_refuses_to_add_is_not_registered() {
    let mut stage = Stage::new(ALL);
    stage.script().refuses.push(3);
    assert!(stage.add(3, Interest::READ, Mode::Level).is_err());
    assert!(stage.poller.remove(3).is_err());
    stage.script().refuses.clear();
    stage.add(3, Interest::READ, Mode::Level).expect("add");
}

#[test]
fn an_id_that_still_waits_to_be_told_may_be_reused() {
    let (old, new) = ((1 << 32) | 3, (2 << 32) | 3);
    let mut stage = Stage::new(ALL);
    stage.add(old, Interest::READ, Mode::Level).expect("add");
    stage.modify(old, Interest::BOTH);
    stage.poller.remove(old).expect("remove");
    stage.add(new, Interest::WRITE, Mode::Level).expect("add");
    stage.calls();
    stage.idle();
    assert_eq!(
        stage.calls(),
        [Wait(None)],
        "the new one has nothing to tell"
    );
    stage.modify(new, Interest::READ);
    stage.idle();
    assert_eq!(stage.calls(), [Modify(new, Interest::READ), Wait(None)]);
}

#[test]
fn a_new_registration_inherits_no_mask() {
    let mut stage = Stage::new(NOTHING);
    stage.add(3, Interest::READ, Mode::Oneshot).expect("add");
    stage.wait(reports([(3, Ready::READABLE)]));
    stage.poller.remove(3).expect("remove");
    stage.add(3, Interest::READ, Mode::Oneshot).expect("add");
    stage.calls();
    stage.idle();
    assert_eq!(stage.calls(), [Wait(None)]);
}

#[test]
fn a_change_that_is_refused_comes_back_as_an_error_event_at_once() {
    let mut stage = Stage::new(ALL);
    stage.add(3, Interest::READ, Mode::Level).expect("add");
    stage.script().refuses.push(3);
    stage.calls();
    stage.modify(3, Interest::BOTH);
    let sides = Ready::READABLE | Ready::WRITABLE;
    assert_eq!(stage.idle(), [(3, Ready::ERROR | sides)]);
    let expected = [Modify(3, Interest::BOTH), Wait(Some(Duration::ZERO))];
    assert_eq!(stage.calls(), expected);
    assert_eq!(stage.idle(), [], "said once");
}

#[test]
fn a_change_that_was_refused_is_tried_again_by_the_next_modify() {
    let mut stage = Stage::new(ALL);
    stage.add(3, Interest::READ, Mode::Level).expect("add");
    stage.script().refuses.push(3);
    stage.modify(3, Interest::BOTH);
    stage.idle();
    stage.script().refuses.clear();
    stage.calls();
    stage.modify(3, Interest::BOTH);
    stage.idle();
    assert_eq!(stage.calls(), [Add(3, Interest::BOTH), Wait(None)]);
}

#[test]
fn a_refused_silence_is_silence_all_the_same() {
    let mut stage = Stage::new(ALL);
    stage.add(3, Interest::READ, Mode::Level).expect("add");
    stage.script().refuses.push(3);
    stage.modify(3, Interest::NONE);
    assert_eq!(stage.idle(), []);
}

#[test]
fn refusals_that_do_not_fit_come_with_the_next_wait() {
    let mut stage = Stage::new(ALL);
    for key in 0..5 {
        stage.add(key, Interest::READ, Mode::Level).expect("add");
        stage.script().refuses.push(key);
        stage.modify(key, Interest::WRITE);
    }
    let mut keys: Vec<_> = stage.idle().iter().map(|event| event.0).collect();
    assert_eq!(keys.len(), 4, "as many as fit");
    keys.extend(stage.idle().iter().map(|event| event.0));
    keys.sort_unstable();
    assert_eq!(keys, [0, 1, 2, 3, 4]);
}

#[test]
fn a_refusal_of_what_was_removed_meanwhile_is_not_reported() {
    let mut stage = Stage::new(ALL);
    for key in 0..5 {
        stage.add(key, Interest::READ, Mode::Level).expect("add");
        stage.script().refuses.push(key);
        stage.modify(key, Interest::WRITE);
    }
    let told: Vec<_> = stage.idle().iter().map(|event| event.0).collect();
    let rest = (0..5)
        .find(|key| !told.contains(key))
        .expect("one did not fit");
    stage.poller.forget(rest).expect("forget");
    stage.script().refuses.clear();
    stage.add(rest, Interest::READ, Mode::Level).expect("add");
    assert_eq!(stage.idle(), []);
}

#[test]
fn a_refusal_is_not_lost_when_the_wait_beside_it_fails() {
    for failure in [Answer::Interrupted, Answer::Broken] {
        let mut stage = Stage::new(ALL);
        stage.poller.see_signals(true);
        stage.add(3, Interest::READ, Mode::Level).expect("add");
        stage.script().refuses.push(3);
        stage.modify(3, Interest::WRITE);
        assert_eq!(stage.wait(failure), [(3, Ready::ERROR | Ready::WRITABLE)]);
    }
}

#[test]
fn an_interrupted_wait_goes_on_to_the_same_deadline() {
    let mut stage = Stage::new(ALL);
    stage
        .script()
        .answers
        .extend([Answer::Interrupted, Answer::Interrupted]);
    let timeout = Some(SECOND);
    stage
        .poller
        .wait(&mut stage.events, timeout)
        .expect("a wait");
    let [Wait(Some(first)), Wait(Some(second)), Wait(Some(third))] = stage.calls()[..] else {
        panic!("one wait, and one after each signal");
    };
    assert_eq!(first, SECOND);
    assert!(second < first && third < second);
}

#[test]
fn an_interrupted_wait_without_a_deadline_is_repeated_as_it_was() {
    for timeout in [None, Some(Duration::ZERO), Some(Duration::MAX)] {
        let mut stage = Stage::new(ALL);
        stage.script().answers.push_back(Answer::Interrupted);
        stage
            .poller
            .wait(&mut stage.events, timeout)
            .expect("a wait");
        assert_eq!(stage.calls(), [Wait(timeout), Wait(timeout)]);
    }
}

#[test]
fn who_asks_to_see_signals_sees_them() {
    let mut stage = Stage::new(ALL);
    stage.poller.see_signals(true);
    stage.script().answers.push_back(Answer::Interrupted);
    let seen = stage.poller.wait(&mut stage.events, None);
    assert!(matches!(seen, Err(Error::Interrupted)));
    assert_eq!(stage.calls(), [Wait(None)]);
}

#[test]
fn an_error_of_the_wait_is_returned() {
    let mut stage = Stage::new(ALL);
    stage.script().answers.push_back(Answer::Broken);
    let broken = stage.poller.wait(&mut stage.events, None);
    assert!(matches!(broken, Err(Error::Os { .. })));
    assert!(stage.events.is_empty());
}

#[test]
fn a_buffer_of_no_capacity_is_refused_and_nothing_is_told() {
    let mut stage = Stage::new(ALL);
    stage.add(3, Interest::READ, Mode::Level).expect("add");
    stage.modify(3, Interest::WRITE);
    stage.calls();
    let refused = stage.poller.wait(&mut Events::with_capacity(0), None);
    assert!(matches!(refused, Err(Error::NoRoom)));
    assert_eq!(stage.calls(), []);
    stage.idle();
    assert_eq!(stage.calls(), [Modify(3, Interest::WRITE), Wait(None)]);
}
