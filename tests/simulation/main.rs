//! Servers in simulated worlds: a thousand seeds, every fault, and what must hold all the same.
//!
//! `subject` is a small server that uses every part of the loop and keeps an account of it
//! (`audit`); `visitors` are its clients, `setting` is its shape, and a seed decides about all
//! three. `deafness` watches that somebody accepts whoever waits. `httpd` is the example server
//! itself. The bugs under `tests/mutants` show that these tests can fail.
//!
//! A seed that fails is printed with the command that runs it again.

mod audit;
mod deafness;
mod setting;
mod subject;
mod visitors;

use std::time::Duration;

use evcore_sim::{Fault, Workers, World, check};

use deafness::Deafness;
use setting::Setting;
use subject::Subject;
use visitors::{Manners, Visitor};

/// By then everybody has gone: the server's own timeouts see to that.
const LONG: Duration = Duration::from_secs(900);

/// A server, its clients, and its end.
fn live(world: &World, setting: Setting, manners: Manners) -> Vec<Visitor> {
    world.note(&format!("{setting:?}"));
    setting.prepare(world);
    let mut rng = world.rng();
    let (workers, group) = (setting.workers, setting.group(world));
    let mut deafness = Deafness::new(world, setting.patience());
    let mut server = Workers::new(world, workers, move |process, index| {
        Subject::new(process, index, &setting, &group)
    });
    let mut visitors = Vec::new();
    for _ in 0..10 + rng.below(30) {
        visitors.push(Visitor::comes(world, &mut rng, manners));
        // Some come together, so that a batch has several events and a listener several clients.
        if rng.below(3) == 0 {
            let pause = rng.time(&(Duration::ZERO..=Duration::from_secs(6)));
            run_for(&mut server, pause, &mut deafness);
        }
        if manners == Manners::Any && workers > 1 && rng.below(64) == 0 {
            // One leaves, with those who are idle there, and the others go on.
            server.app_mut(0).into_iter().for_each(Subject::send_away);
        }
    }
    let gone = |visitors: &[Visitor]| visitors.iter().all(Visitor::is_gone);
    while !gone(&visitors) {
        assert!(
            world.now() < LONG,
            "somebody was neither answered nor sent away"
        );
        run_for(&mut server, Duration::from_secs(5), &mut deafness);
    }
    end(&mut server, workers);
    visitors.iter().for_each(Visitor::check);
    visitors
}

fn run_for(server: &mut Workers<Subject>, time: Duration, deafness: &mut Deafness) {
    server.run_until(time, |server| {
        deafness.look(server);
        false
    });
}

/// Everybody has gone, so the server can go too; whatever begins again meanwhile is told as well.
fn end(server: &mut Workers<Subject>, workers: usize) {
    for _ in 0..100 {
        for index in 0..workers {
            server
                .app_mut(index)
                .into_iter()
                .for_each(Subject::shut_down);
        }
        if server.run_until(Duration::from_secs(10), Workers::are_done) {
            break;
        }
    }
    assert!(server.are_done(), "it does not come to its end");
    server.apps().for_each(|(_, subject)| subject.check_end());
}

#[test]
fn whatever_goes_wrong_every_promise_is_kept() {
    let (mut content, mut all) = (0, 0);
    let mut counts = [0; Fault::ALL.len()];
    check(
        "whatever_goes_wrong_every_promise_is_kept",
        0..1000,
        |world| {
            let setting = Setting::faulty(&mut world.rng());
            let visitors = live(world, setting, Manners::Any);
            content += visitors.iter().filter(|it| it.is_content()).count();
            all += visitors.len();
            for (count, fault) in counts.iter_mut().zip(Fault::ALL) {
                *count += world.count(fault);
            }
        },
    );
    if std::env::var_os(evcore_sim::SEED_VARIABLE).is_none() {
        // Else it would have shown nothing.
        assert!(content * 4 > all, "only {content} of {all} were served");
        assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
    }
}

/// Workers that look at the listeners only when another worker notifies them.
#[test]
fn every_notification_is_followed() {
    check("every_notification_is_followed", 0..100, |world| {
        let setting = Setting::notifying(&mut world.rng());
        live(world, setting, Manners::Any);
    });
}

#[test]
fn where_nothing_goes_wrong_everybody_is_told_all_that_he_asked_for() {
    let name = "where_nothing_goes_wrong_everybody_is_told_all_that_he_asked_for";
    check(name, 0..200, |world| {
        everybody_is_content(world, Setting::faultless(&mut world.rng()));
    });
}

#[test]
fn what_was_left_of_a_turn_comes_in_the_next() {
    check(
        "what_was_left_of_a_turn_comes_in_the_next",
        0..100,
        |world| {
            everybody_is_content(world, Setting::leaving(&mut world.rng()));
            assert!(world.count(Fault::TurnLeft) > 0);
        },
    );
}

fn everybody_is_content(world: &World, setting: Setting) {
    for visitor in live(world, setting, Manners::Good) {
        assert!(visitor.is_content(), "{visitor:?}");
    }
}
