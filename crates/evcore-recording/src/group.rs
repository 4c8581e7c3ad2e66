//! Records and replays what one worker reads from the memory that its worker group shares.

use std::{fmt, io};

use evcore::balancer::{
    Give, GroupMember, GroupView, Leader, Load, Notifier, Peer, Policy, Spread, WorkerId,
};

use crate::{call::What, recorder::Recorder, replay::Replay};

/// The number that stands for "no worker" in place of a slot, the index of a worker in its group.
const NOBODY: u32 = u32::MAX;

/// Number of slots that a recording may refer to.
const MAX_SLOT: u32 = 1 << 16;

impl Recorder {
    /// Wraps a member of the worker group, and records what the member reads from the group. Also
    /// set the loop's [policy](evcore::Builder::policy), because a replay has no group that could
    /// provide it.
    #[must_use]
    pub fn member<M: GroupMember + 'static>(&self, member: M) -> impl GroupMember + use<M> {
        RecordedMember::new(self.clone(), Box::new(member))
    }
}

#[derive(Debug)]
struct RecordedMember {
    recorder: Recorder,
    member: Box<dyn GroupMember>,
}

impl RecordedMember {
    fn new(recorder: Recorder, member: Box<dyn GroupMember>) -> Self {
        let has_notifier = member.notifier().is_some();
        let flags = i64::from(member.in_group()) | i64::from(has_notifier) << 1;
        recorder.call(What::Group, 1, flags, &[]);
        Self { recorder, member }
    }
}

impl GroupMember for RecordedMember {
    fn policy(&self) -> Option<Policy> {
        self.member.policy()
    }

    fn try_lock(&self) -> bool {
        let is_locked = self.member.try_lock();
        self.recorder.call(What::Lock, 0, is_locked.into(), &[]);
        is_locked
    }

    fn unlock(&self) {
        self.member.unlock();
    }

    fn in_group(&self) -> bool {
        self.member.in_group()
    }

    fn is_notified(&self) -> bool {
        let is_notified = self.member.is_notified();
        let answer = is_notified.then_some((What::Notified, 0, 1, &[][..]));
        self.recorder.answer(answer);
        is_notified
    }

    fn sync(&self, load: Load) -> GroupView {
        let view = self.member.sync(load);
        let words = Words::of_view(&view);
        self.recorder.call(What::Group, 0, 0, &words.to_bytes());
        view
    }

    fn set_late(&self, late: bool) {
        self.member.set_late(late);
    }

    fn add_clients(&self, accepted: u32) {
        self.member.add_clients(accepted);
    }

    fn set_resting(&self, rests: bool) {
        self.member.set_resting(rests);
    }

    fn rouse(&self) {
        self.member.rouse();
    }

    fn publish_open(&self, open: Option<u32>) {
        self.member.publish_open(open);
    }

    fn spread(&self, without: &[WorkerId]) -> Spread {
        let spread = self.member.spread(without);
        let words = Words::of_spread(spread);
        self.recorder.call(What::Spread, 0, 0, &words.to_bytes());
        spread
    }

    fn rouse_loaded(&self) {
        self.member.rouse_loaded();
    }

    fn lead(&self) {
        self.member.lead();
    }

    fn step_down(&self) {
        self.member.step_down();
    }

    fn notify(&self, peer: WorkerId) {
        self.member.notify(peer);
    }

    fn notifier(&self) -> Option<Notifier<'_>> {
        self.member.notifier()
    }

    fn clear_notifier(&self) {
        self.member.clear_notifier();
    }
}

impl Replay {
    /// The recorded member of a worker group. Also set the loop's
    /// [policy](evcore::Builder::policy).
    #[must_use]
    pub fn member(&self) -> impl GroupMember + use<> {
        ReplayedMember::new(self.clone())
    }
}

/// A member without a group, which returns what the recorded member read from its group.
struct ReplayedMember {
    replay: Replay,
    in_group: bool,
    /// The simulated descriptor of its notifier.
    notifier: Option<u32>,
}

impl ReplayedMember {
    fn new(replay: Replay) -> Self {
        let flags = replay.call(What::Group, 1, &[]);
        let flags = flags.map_or(0, |call| call.result);
        let notifier = (flags & 2 != 0).then(|| replay.lock().new_target());
        Self {
            replay,
            in_group: flags & 1 != 0,
            notifier,
        }
    }

    fn words(&self, what: What) -> io::Result<Words> {
        let call = self.replay.call(what, 0, &[])?;
        Ok(Words::from_bytes(&call.bytes))
    }
}

impl GroupMember for ReplayedMember {
    fn try_lock(&self) -> bool {
        let call = self.replay.call(What::Lock, 0, &[]);
        call.is_ok_and(|call| call.result == 1)
    }

    fn unlock(&self) {}

    fn in_group(&self) -> bool {
        self.in_group
    }

    fn is_notified(&self) -> bool {
        let mut tape = self.replay.lock();
        tape.take_answer(What::Notified, 0, &[]).is_some()
    }

    fn sync(&self, _: Load) -> GroupView {
        let words = self.words(What::Group);
        words.map_or_else(|_| GroupView::alone(), Words::to_view)
    }

    fn spread(&self, _: &[WorkerId]) -> Spread {
        let words = self.words(What::Spread);
        words.map_or_else(|_| Spread::default(), Words::to_spread)
    }

    fn notifier(&self) -> Option<Notifier<'_>> {
        self.notifier.map(Notifier::Simulated)
    }
}

impl fmt::Debug for ReplayedMember {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplayedMember").finish_non_exhaustive()
    }
}

/// The values that a member reads from its group, as numbers.
#[derive(Clone, Copy)]
struct Words([u32; 6]);

impl Words {
    fn to_bytes(self) -> [u8; 24] {
        let mut bytes = [0; 24];
        for (word, bytes) in self.0.iter().zip(bytes.chunks_exact_mut(4)) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// Decodes these bytes as words. Missing words are 0.
    fn from_bytes(bytes: &[u8]) -> Self {
        let mut words = [0; 6];
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(4)) {
            *word = u32::from_le_bytes(bytes.try_into().unwrap_or_default());
        }
        Self(words)
    }

    fn of_view(view: &GroupView) -> Self {
        let leader = match view.leader {
            Leader::None => 0,
            Leader::Me => 1,
            Leader::Other => 2,
        };
        let flags = [
            view.notified,
            view.alone,
            view.outpaced,
            view.others_rest,
            view.roused,
        ];
        let [least, least_active] = words_of(view.least_loaded);
        let [pending, pending_active] = words_of(view.pending);
        let flags = leader | bits(flags) << 2;
        Self([
            flags,
            least,
            least_active,
            pending,
            pending_active,
            view.clients,
        ])
    }

    fn to_view(self) -> GroupView {
        let [flags, least, least_active, pending, pending_active, clients] = self.0;
        let has = |bit: u32| flags & (4 << bit) != 0;
        GroupView {
            leader: match flags & 3 {
                0 => Leader::None,
                1 => Leader::Me,
                _ => Leader::Other,
            },
            least_loaded: peer(least, least_active),
            pending: peer(pending, pending_active),
            notified: has(0),
            alone: has(1),
            outpaced: has(2),
            clients,
            others_rest: has(3),
            roused: has(4),
        }
    }

    fn of_spread(spread: Spread) -> Self {
        let (to, connections) = match spread.give {
            Some(give) => (slot_of(give.to), give.connections),
            None => (NOBODY, 0),
        };
        let flags = bits([spread.is_uneven, spread.is_below]);
        Self([flags, to, connections, 0, 0, 0])
    }

    fn to_spread(self) -> Spread {
        let [flags, to, connections, ..] = self.0;
        Spread {
            is_uneven: flags & 1 != 0,
            is_below: flags & 2 != 0,
            give: worker(to).map(|to| Give { to, connections }),
        }
    }
}

fn bits<const N: usize>(flags: [bool; N]) -> u32 {
    let flags = flags.into_iter().zip(0..);
    flags.fold(0, |bits, (has, bit)| bits | u32::from(has) << bit)
}

fn slot_of(worker: WorkerId) -> u32 {
    u32::try_from(worker.slot()).unwrap_or(NOBODY)
}

fn worker(slot: u32) -> Option<WorkerId> {
    // A damaged recording must not cause a panic.
    (slot < MAX_SLOT).then(|| WorkerId::from_slot(slot as usize))
}

fn words_of(peer: Option<Peer>) -> [u32; 2] {
    peer.map_or([NOBODY, 0], |peer| [slot_of(peer.id), peer.active])
}

fn peer(slot: u32, active: u32) -> Option<Peer> {
    worker(slot).map(|id| Peer { id, active })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_peer() -> impl Strategy<Value = Option<Peer>> {
        prop::option::of((0..1024_u32, any::<u32>()))
            .prop_map(|one| one.and_then(|(slot, active)| peer(slot, active)))
    }

    fn any_view() -> impl Strategy<Value = GroupView> {
        let leader = prop_oneof![Just(Leader::None), Just(Leader::Me), Just(Leader::Other)];
        let peers = (any_peer(), any_peer());
        (leader, peers, any::<[bool; 5]>(), any::<u32>()).prop_map(
            |(leader, (least_loaded, pending), flags, clients)| GroupView {
                leader,
                least_loaded,
                pending,
                notified: flags[0],
                alone: flags[1],
                outpaced: flags[2],
                clients,
                others_rest: flags[3],
                roused: flags[4],
            },
        )
    }

    proptest! {
        #[test]
        fn the_view_of_a_group_comes_back(view in any_view()) {
            let bytes = Words::of_view(&view).to_bytes();
            prop_assert_eq!(Words::from_bytes(&bytes).to_view(), view);
        }

        #[test]
        fn the_spread_of_a_group_comes_back(
            is_uneven: bool, is_below: bool, to in any_peer(),
        ) {
            let give = to.map(|to| Give { to: to.id, connections: to.active });
            let spread = Spread { is_uneven, is_below, give };
            let bytes = Words::of_spread(spread).to_bytes();
            prop_assert_eq!(Words::from_bytes(&bytes).to_spread(), spread);
        }
    }
}
