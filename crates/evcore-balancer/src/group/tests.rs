//! Tests the group protocol in one process, with real descriptors.

use std::mem;

use proptest::prelude::*;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::*;
use crate::policy::Policy;

fn id(slot: usize) -> WorkerId {
    WorkerId::from_slot(slot)
}

fn load(active: u32) -> Load {
    Load {
        active,
        capacity: 64,
    }
}

const FULL: Load = Load {
    active: 64,
    capacity: 64,
};

fn group(workers: usize) -> WorkerGroup {
    WorkerGroup::new(Policy::least_loaded(), workers).unwrap()
}

/// A group of members that have published these loads.
fn joined<const N: usize>(loads: [Load; N]) -> (WorkerGroup, [Member; N]) {
    let group = group(N);
    let mut slots = 0..N;
    let members = loads.map(|load| {
        let member = group.join(id(slots.next().unwrap()));
        let _ = member.sync(load);
        member
    });
    (group, members)
}

fn is_woken(member: &Member) -> bool {
    let Some(Notifier::Descriptor(fd)) = member.notifier() else {
        panic!("the member has no descriptor as its notifier");
    };
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec::default())).unwrap() == 1
}

fn peer(slot: usize, active: u32) -> Option<Peer> {
    let id = id(slot);
    Some(Peer { id, active })
}

fn leaders<const N: usize>(members: &[Member; N]) -> [Leader; N] {
    members.each_ref().map(|member| member.sync(load(0)).leader)
}

#[test]
fn the_least_loaded_is_another_member_with_room_that_answers() {
    let (_group, [one, _, three, four]) = joined([load(0), FULL, load(9), load(5)]);
    assert_eq!(one.sync(load(0)).least_loaded, peer(3, 5));
    one.notify(four.id());
    assert_eq!(one.sync(load(0)).least_loaded, peer(2, 9));
    one.notify(three.id());
    assert_eq!(one.sync(load(0)).least_loaded, None);
    let _ = four.sync(load(6));
    assert_eq!(one.sync(load(0)).least_loaded, peer(3, 6));
    let _ = three.sync(FULL);
    assert_eq!(one.sync(load(0)).least_loaded, peer(3, 6));
}

#[test]
fn the_pending_member_is_the_least_loaded_that_has_not_answered() {
    let (_group, [one, two, _three, four]) = joined([load(0), load(7), load(5), load(6)]);
    assert_eq!(one.sync(load(0)).pending, None);
    one.notify(two.id());
    one.notify(four.id());
    assert_eq!(one.sync(load(0)).pending, peer(3, 6));
    assert_eq!(one.sync(load(0)).least_loaded, peer(2, 5));
    let _ = four.sync(FULL);
    assert_eq!(one.sync(load(0)).pending, peer(1, 7));
    assert_eq!(two.sync(load(7)).pending, None, "it has answered");
    assert_eq!(one.sync(load(0)).pending, None);
}

#[test]
fn of_members_with_equal_loads_each_chooses_the_next() {
    let (_group, members) = joined([load(1); 4]);
    let least = members
        .each_ref()
        .map(|member| member.sync(load(1)).least_loaded);
    assert_eq!(least, [peer(1, 1), peer(2, 1), peer(3, 1), peer(0, 1)]);
}

#[test]
fn a_member_that_has_not_synced_is_not_chosen() {
    let (group, [one]) = joined([load(0)]);
    drop(group);
    assert_eq!(one.sync(load(0)).least_loaded, None);
    let group = self::group(3);
    let one = group.join(id(0));
    let _two = group.join(id(1));
    assert_eq!(one.sync(load(0)).least_loaded, None);
}

#[test]
fn a_member_is_alone_while_no_other_is_a_member() {
    let group = group(3);
    let one = group.join(id(1));
    assert!(one.sync(load(0)).alone);
    for slot in [0, 2] {
        let another = group.join(id(slot));
        assert!(!one.sync(load(0)).alone);
        drop(another);
        assert!(one.sync(load(0)).alone);
        mem::forget(group.join(id(slot)));
        assert!(!one.sync(load(0)).alone, "the dead member was not released");
        assert!(group.release_dead(id(slot)));
        assert!(one.sync(load(0)).alone);
    }
}

#[test]
fn lead_replaces_the_leader_and_step_down_leaves_none() {
    let (_group, members) = joined([load(0), load(0)]);
    assert_eq!(leaders(&members), [Leader::None; 2]);
    members[0].lead();
    assert_eq!(leaders(&members), [Leader::Me, Leader::Other]);
    members[1].lead();
    assert_eq!(leaders(&members), [Leader::Other, Leader::Me]);
    members[0].step_down();
    assert_eq!(
        leaders(&members),
        [Leader::Other, Leader::Me],
        "another member leads"
    );
    members[1].step_down();
    assert_eq!(leaders(&members), [Leader::None; 2]);
}

#[test]
fn a_notification_wakes_the_member_until_it_is_answered() {
    let (_group, [one, two, three]) = joined([load(0); 3]);
    one.notify(two.id());
    assert!(is_woken(&two) && two.is_notified());
    assert!(!is_woken(&one) && !one.is_notified());
    assert!(!is_woken(&three) && !three.is_notified());
    two.clear_notifier();
    assert!(!is_woken(&two) && two.is_notified());
    one.notify(two.id());
    assert!(
        !is_woken(&two),
        "the member has not answered the first notification"
    );
    assert!(two.sync(load(0)).notified);
    assert!(!two.is_notified());
    assert!(!two.sync(load(0)).notified, "it has answered");
    one.notify(two.id());
    assert!(is_woken(&two));
}

#[test]
fn members_share_the_lock_of_the_group() {
    let (group, [one, two]) = joined([load(0); 2]);
    assert!(one.try_lock() && !two.try_lock());
    assert_eq!(group.mutex().owner(), Some(one.id()));
    one.unlock();
    assert!(two.try_lock());
    drop(two);
    assert_eq!(group.mutex().owner(), None);
}

#[test]
fn a_member_that_panics_releases_the_lock_and_leaves() {
    let (group, [one, two]) = joined([load(0); 2]);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
        assert!(one.try_lock());
        one.lead();
        let _dropped_by_the_panic = one;
        // Unlike `panic!`, this prints nothing.
        std::panic::resume_unwind(Box::new(()));
    }));
    assert!(panicked.is_err());
    assert_eq!(group.mutex().owner(), None);
    let view = two.sync(load(0));
    assert!(view.alone && view.leader == Leader::None);
}

#[test]
fn release_dead_frees_all_that_the_dead_worker_held() {
    let (group, [one, two, three]) = joined([load(3), load(4), load(5)]);
    two.lead();
    assert!(two.try_lock());
    one.notify(two.id());
    mem::forget(two);

    assert!(group.release_dead(id(1)));
    assert_eq!(group.mutex().owner(), None);
    let view = three.sync(load(5));
    assert_eq!((view.leader, view.least_loaded), (Leader::None, None));
    let _ = one.sync(load(3));
    assert_eq!(three.sync(load(5)).least_loaded, peer(0, 3));
    assert!(!group.release_dead(id(1)), "there is nothing left");
    assert!(!group.join(id(1)).is_notified());
}

#[test]
fn release_dead_of_another_worker_keeps_leader_and_lock() {
    let (group, [one, two]) = joined([load(0); 2]);
    one.lead();
    assert!(one.try_lock());
    mem::forget(two);
    assert!(group.release_dead(id(1)));
    assert_eq!(one.sync(load(0)).leader, Leader::Me);
    assert_eq!(group.mutex().owner(), Some(id(0)));
}

#[test]
fn when_the_leader_has_died_the_least_loaded_is_notified() {
    let (group, [one, two, three]) = joined([load(3), load(2), load(1)]);
    one.lead();
    mem::forget(one);
    assert!(group.release_dead(id(0)));
    assert!(is_woken(&three) && !is_woken(&two));
}

#[test]
fn after_a_death_the_least_loaded_is_notified_even_if_it_leads() {
    let (group, [one, two]) = joined([load(0); 2]);
    two.lead();
    mem::forget(one);
    assert!(group.release_dead(id(0)));
    assert!(is_woken(&two) && two.is_notified());
    assert_eq!(two.sync(load(0)).leader, Leader::Me);
}

#[test]
fn a_death_between_word_and_descriptor_loses_no_notification() {
    let (group, [one, two]) = joined([load(0); 2]);
    // Worker one sets the word that notifies worker two, and dies before it writes to worker two's
    // descriptor.
    two.shared()
        .words(two.id())
        .notified
        .store(1, Ordering::Relaxed);
    mem::forget(one);
    assert!(group.release_dead(id(0)));
    assert!(is_woken(&two));
}

#[test]
fn a_death_while_leaving_loses_no_notification() {
    let (group, [one, two]) = joined([load(0); 2]);
    // The worker has left the group, and dies before it notifies another member.
    let (was_member, _) = one.shared().clear(one.id());
    assert!(was_member);
    mem::forget(one);
    assert!(!group.release_dead(id(0)));
    assert!(is_woken(&two));
}

#[test]
fn a_member_that_leaves_with_a_notification_notifies_another() {
    let (_group, [one, two, three]) = joined([load(0), load(0), load(5)]);
    three.lead();
    three.notify(one.id());
    drop(one);
    assert!(is_woken(&two));
}

#[test]
fn a_leader_that_leaves_notifies_another() {
    let (_group, [one, two]) = joined([load(0); 2]);
    one.lead();
    drop(one);
    assert!(is_woken(&two));
}

#[test]
fn a_member_that_neither_leads_nor_is_notified_leaves_quietly() {
    let (_group, [one, two, three]) = joined([load(0); 3]);
    three.lead();
    drop(one);
    assert!(!is_woken(&two) && !is_woken(&three));
}

#[test]
fn a_full_member_is_never_notified() {
    let (group, [one, two]) = joined([load(0), FULL]);
    assert_eq!(one.sync(load(0)).least_loaded, None);
    one.lead();
    mem::forget(one);
    assert!(group.release_dead(id(0)));
    assert!(!is_woken(&two));
    assert_eq!(two.sync(FULL).leader, Leader::None);
}

#[test]
fn dropping_a_membership_of_another_process_changes_nothing() {
    let (_group, [mut one, two]) = joined([load(0); 2]);
    one.lead();
    let (shared, slot) = (Arc::clone(&one.group.shared), one.id());
    one.lock.move_to_another_process();
    drop(one);
    assert_eq!(two.sync(load(0)).leader, Leader::Other);
    assert!(shared.has_joined(slot));
}

#[test]
fn join_clears_what_a_predecessor_has_left() {
    let (group, [one, two]) = joined([load(0); 2]);
    two.notify(one.id());
    one.lead();
    mem::forget(one);
    // `release_dead` was not called.
    let again = group.join(id(0));
    assert!(!is_woken(&again));
    assert_eq!(two.sync(load(0)).least_loaded, None);
    let view = again.sync(load(0));
    assert_eq!(view.leader, Leader::None);
    assert!(view.notified, "a notification is for the slot");
}

#[test]
fn a_policy_that_uses_no_group_makes_no_descriptors() {
    let group = WorkerGroup::new(Policy::Off, 2).unwrap();
    let [one, two] = [0, 1].map(|slot| group.join(id(slot)));
    assert!(!one.in_group() && one.notifier().is_none());
    assert!(one.try_lock());
    assert_eq!(two.sync(load(0)), GroupView::alone());
    one.clear_notifier();
    mem::forget(one);
    assert!(group.release_dead(id(0)));
    assert_eq!(group.mutex().owner(), None);
}

#[test]
fn a_member_has_the_policy_of_its_group() {
    for policy in [Policy::exclusive(), Policy::mutex()] {
        let group = WorkerGroup::new(policy, 1).unwrap();
        assert_eq!(group.join(id(0)).policy(), Some(policy));
    }
}

#[test]
fn the_members_of_a_group_have_descriptors_and_see_each_other() {
    let (_group, [one, two]) = joined([load(0), load(1)]);
    assert!(one.in_group() && two.in_group());
    let peer = two
        .sync(load(1))
        .least_loaded
        .expect("a member sees the other one");
    assert_eq!(peer.id, one.id());
}

#[test]
fn a_group_is_for_one_to_4096_workers() {
    assert_eq!(group(1).workers(), 1);
    for workers in [0, 4097, usize::MAX] {
        let error = WorkerGroup::new(Policy::least_loaded(), workers).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert!(error.to_string().contains("from 1 to 4096"), "{error}");
    }
}

#[test]
#[should_panic(expected = "there is no worker 2 in a group of 2")]
fn a_slot_beyond_the_group_panics() {
    let _ = group(2).join(id(2));
}

#[test]
fn a_late_member_is_not_chosen_while_another_is_on_time() {
    let (_group, [one, two, three]) = joined([load(0), load(1), load(9)]);
    two.set_late(true);
    let view = one.sync(load(0));
    assert_eq!((view.least_loaded, view.outpaced), (peer(2, 9), false));
    let view = two.sync(load(1));
    assert_eq!((view.least_loaded, view.outpaced), (peer(0, 0), true));
    drop(one);
    assert!(is_woken(&three) && !is_woken(&two));
}

#[test]
fn late_and_full_members_choose_a_late_one_if_no_other_has_room() {
    let (_group, [one, two]) = joined([load(0), load(1)]);
    two.set_late(true);
    assert_eq!(
        one.sync(load(0)).least_loaded,
        None,
        "a member on time hands nothing over to a late one"
    );
    assert_eq!(one.sync(FULL).least_loaded, peer(1, 1));
    one.set_late(true);
    let view = one.sync(load(5));
    assert_eq!((view.least_loaded, view.outpaced), (peer(1, 1), false));
    one.set_late(false);
    drop(one);
    assert!(is_woken(&two));
}

#[test]
fn a_late_member_gets_connections_only_from_a_late_one() {
    let (_group, [one, two]) = joined([load(0), load(100)]);
    one.publish_open(Some(0));
    two.publish_open(Some(100));
    let gives = |one_is_late, two_is_late| {
        one.set_late(one_is_late);
        two.set_late(two_is_late);
        two.spread(&[]).give.map(|give| give.connections)
    };
    assert_eq!(gives(false, false), Some(50));
    assert_eq!(gives(true, false), None);
    assert_eq!(gives(false, true), Some(50));
    assert_eq!(gives(true, true), Some(50));
}

#[test]
fn a_successor_is_not_late() {
    let (group, [one, two]) = joined([load(0); 2]);
    one.set_late(true);
    mem::forget(one);
    let successor = group.join(id(0));
    let _ = successor.sync(load(0));
    let view = two.sync(load(0));
    assert!(!view.outpaced && !two.shared().is_late(id(0)));
}

proptest! {
    #[test]
    fn the_least_loaded_agrees_with_a_plain_search(
        loads in prop::collection::vec((prop::option::of(0_u32..5), any::<bool>()), 1..8),
        me in 0_usize..8,
    ) {
        let me = me % loads.len();
        let group = group(loads.len());
        let members: Vec<_> = (0..loads.len()).map(|slot| group.join(id(slot))).collect();
        let shown = |shown: Option<u32>| shown.map_or(FULL, load);
        for (member, (active, late)) in members.iter().zip(&loads) {
            let _ = member.sync(shown(*active));
            member.set_late(*late);
        }
        let view = members[me].sync(shown(loads[me].0));
        let least = |counts_late| {
            let others = loads.iter().enumerate().filter(|(slot, _)| *slot != me);
            let others = others.filter(|(_, (_, late))| counts_late || !late);
            others.filter_map(|(_, (active, _))| *active).min()
        };
        let needs_any = loads[me].0.is_none() || loads[me].1;
        let expected = least(false).or_else(|| least(true).filter(|_| needs_any));
        let found = view.least_loaded;
        prop_assert_eq!(found.map(|peer| peer.active), expected);
        prop_assert_eq!(view.outpaced, loads[me].1 && least(false).is_some());
        if let Some(peer) = found {
            prop_assert_eq!(loads[peer.id.slot()].0, Some(peer.active));
        }
    }
}
