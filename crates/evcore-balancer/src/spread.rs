//! The spread of a group's open connections over its members, and the number that each gives to
//! others.
//!
//! Each member that has more than the mean gives its surplus to members that have less. In the
//! order of the slots, the surpluses are laid end to end, and the deficits beside them. A member
//! gives to the member whose deficit lies beside its surplus. (This is the north-west corner rule
//! for the transportation problem.) From the same numbers, all members compute the same assignment
//! without communicating. So no member gets more than it lacks, even if many give at the same time.

use crate::worker_id::WorkerId;

/// Connections that one member gives to another.
///
/// ```
/// use evcore_balancer::{Give, WorkerId};
///
/// let give = Give { to: WorkerId::from_slot(3), connections: 17 };
/// assert_eq!(give.to.slot(), 3);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Give {
    /// The member that gets the connections.
    pub to: WorkerId,
    /// Number of connections; never 0.
    pub connections: u32,
}

/// The spread of a group's open connections, as one member sees it.
///
/// ```
/// use evcore_balancer::Spread;
///
/// assert!(!Spread::default().is_uneven);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spread {
    /// The connections are so uneven that some should move: a member differs from the mean by more
    /// than 2 connections plus a 32nd of the mean. A member that cannot take connections does not
    /// count as below the mean.
    pub is_uneven: bool,
    /// This member has fewer connections than the mean.
    pub is_below: bool,
    /// The first part of the connections that this member should give away, and the member that
    /// should get it.
    pub give: Option<Give>,
}

/// The part of a member's state that the spread depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) id: WorkerId,
    pub(crate) open: u32,
    /// True if the member may get connections from the member that reads the spread.
    pub(crate) takes: bool,
}

/// The number of connections that each member should have: from `least` to `most`, which differ by
/// at most 1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mean {
    pub(crate) least: u32,
    pub(crate) most: u32,
}

impl Mean {
    /// Returns the mean; `None` if fewer than two members take part.
    pub(crate) fn of(places: impl Iterator<Item = Place>) -> Option<Self> {
        let [members, sum] = places.fold([0_u64; 2], |[members, sum], place| {
            [members + 1, sum + u64::from(place.open)]
        });
        let word = |connections: u64| u32::try_from(connections).unwrap_or(u32::MAX);
        (members > 1).then(|| Self {
            least: word(sum / members),
            most: word(sum.div_ceil(members)),
        })
    }

    fn surplus(self, place: &Place) -> u64 {
        u64::from(place.open.saturating_sub(self.most))
    }

    fn deficit(self, place: &Place) -> u64 {
        let lacks = self.least.saturating_sub(place.open);
        u64::from(if place.takes { lacks } else { 0 })
    }

    fn margin(self) -> u64 {
        2 + u64::from(self.least / 32)
    }
}

impl Spread {
    /// Returns the spread as the member `me` sees it. `places` returns the members in the order of
    /// their slots. This function makes several passes and calls `places` for each. The numbers may
    /// change between two passes.
    pub(crate) fn of<I: Iterator<Item = Place>>(me: WorkerId, places: impl Fn() -> I) -> Self {
        let own = places().find(|place| place.id == me);
        let (Some(own), Some(mean)) = (own, Mean::of(places())) else {
            return Self::default();
        };
        let is_far = |place: Place| mean.surplus(&place).max(mean.deficit(&place)) > mean.margin();
        Self {
            is_uneven: places().any(is_far),
            is_below: mean.deficit(&own) > 0,
            give: give(mean, &own, places),
        }
    }
}

fn give<I: Iterator<Item = Place>>(
    mean: Mean,
    own: &Place,
    places: impl Fn() -> I,
) -> Option<Give> {
    let surplus = mean.surplus(own);
    if surplus == 0 {
        return None;
    }
    let before = places().take_while(|place| place.id != own.id);
    let begin: u64 = before.map(|place| mean.surplus(&place)).sum();
    let mut end_of_deficit = 0;
    for place in places() {
        end_of_deficit += mean.deficit(&place);
        if end_of_deficit > begin {
            let connections = (end_of_deficit - begin).min(surplus);
            return Some(Give {
                to: place.id,
                connections: u32::try_from(connections).expect("at most the surplus"),
            });
        }
    }
    None
}

#[cfg(all(test, not(evcore_loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn places(opens: &[(u32, bool)]) -> Vec<Place> {
        let place = |(slot, &(open, takes))| Place {
            id: WorkerId::from_slot(slot),
            open,
            takes,
        };
        opens.iter().enumerate().map(place).collect()
    }

    fn seen(opens: &[(u32, bool)], slot: usize) -> Spread {
        let places = places(opens);
        Spread::of(WorkerId::from_slot(slot), || places.iter().copied())
    }

    #[test]
    fn three_loaded_members_fill_the_new_one_together() {
        let opens = [(400, true), (0, true), (400, true), (400, true)];
        let give = |connections| {
            let to = WorkerId::from_slot(1);
            Some(Give { to, connections })
        };
        for slot in [0, 2, 3] {
            assert_eq!(seen(&opens, slot).give, give(100));
        }
        let new = seen(&opens, 1);
        assert!(new.is_below && new.is_uneven && new.give.is_none());
    }

    #[test]
    fn a_member_that_is_alone_or_takes_no_part_gives_nothing() {
        assert_eq!(seen(&[(9, true)], 0), Spread::default());
        assert_eq!(seen(&[(900, true), (0, true)], 7), Spread::default());
    }

    #[test]
    fn two_and_a_32nd_of_the_mean_are_even_enough() {
        assert!(!seen(&[(103, true), (97, true)], 0).is_uneven);
        assert!(!seen(&[(105, true), (95, true)], 0).is_uneven);
        assert!(seen(&[(106, true), (94, true)], 0).is_uneven);
        assert!(!seen(&[(4, true), (0, true)], 0).is_uneven);
        assert!(seen(&[(6, true), (0, true)], 0).is_uneven);
    }

    fn members() -> impl Strategy<Value = Vec<(u32, bool)>> {
        let open = prop_oneof![0..20_u32, 0..10_000_u32];
        prop::collection::vec((open, prop::bool::weighted(0.8)), 1..70)
    }

    proptest! {
        /// All members give at the same time, again and again, until no member gives.
        #[test]
        fn all_that_give_together_meet_at_the_mean(opens in members()) {
            let mut now = opens.clone();
            let mean = Mean::of(places(&opens).into_iter());
            let Some(mean) = mean else { return Ok(()); };
            let surplus: u64 = places(&opens).iter().map(|place| mean.surplus(place)).sum();
            let mut moved = 0;
            for round in 0.. {
                let gives: Vec<_> = (0..now.len()).map(|slot| seen(&now, slot).give).collect();
                if gives.iter().all(Option::is_none) {
                    break;
                }
                prop_assert!(round < 2 * now.len(), "the members give for ever");
                for (slot, give) in gives.into_iter().enumerate() {
                    let Some(give) = give else { continue };
                    prop_assert!(give.connections > 0 && give.to.slot() != slot);
                    prop_assert!(now[give.to.slot()].1, "the receiver takes no connections");
                    now[slot].0 -= give.connections;
                    now[give.to.slot()].0 += give.connections;
                    moved += u64::from(give.connections);
                }
                for (slot, (open, takes)) in now.iter().enumerate() {
                    // No giver falls below the mean, and no receiver rises above it.
                    let begun = opens[slot].0;
                    prop_assert!(*open >= begun.min(mean.most));
                    prop_assert!(*open <= begun.max(mean.least) && (*takes || *open <= begun));
                }
            }
            prop_assert!(moved <= surplus, "{moved} of {surplus}");
            if opens.iter().all(|(_, takes)| *takes) {
                let (least, most) = (now.iter().min().unwrap().0, now.iter().max().unwrap().0);
                prop_assert!(!seen(&now, 0).is_uneven || most - least <= 1);
            }
        }
    }
}
