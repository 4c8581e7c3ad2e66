//! Idle connections, the longest idle first. Connections that became idle just before a shutdown
//! get a *grace*: they are evicted later than the others.
//!
//! A time for each connection would take memory. Instead, the list has a few marks among the
//! connections, each with the time at which it was set. The connections between a mark and the next
//! one became idle within one period (an eighth of the grace) after the mark was set.

use crate::lru::LruList;

const NEVER: u64 = u64::MAX;

/// The number of periods in the grace.
const PERIODS: u64 = 8;

/// The number of marks that can be set within the grace and one period.
const MARKS: u32 = 9;

/// A list of idle connections by their index, the longest idle first.
///
/// A server that stops closes (*evicts*) its idle connections. Connections that became idle within
/// a *grace* before the stop are evicted only after a further grace, because their next request may
/// be on its way. The idle time of a connection is measured with a precision of an eighth of the
/// grace. Times are in nanoseconds of the caller's clock. Each index up to the highest takes 8
/// bytes, as in [`LruList`]. The calls for one connection are O(1), except when the table grows.
///
/// ```
/// use evcore_token::IdleList;
///
/// let mut idle = IdleList::with_expected(100, 1_000);
/// idle.touch(7, 0);
/// idle.touch(3, 5_000);
/// assert_eq!(idle.oldest(), Some(7));
///
/// assert_eq!(idle.begin_shutdown(5_500), Some(1_000));
/// assert_eq!(idle.next_of_shutdown(), Some(7));
/// idle.remove(7);
/// assert_eq!(idle.next_of_shutdown(), None); // connection 3 became idle just before the shutdown
/// idle.end_grace();
/// assert_eq!(idle.next_of_shutdown(), Some(3));
/// ```
#[derive(Debug)]
pub struct IdleList {
    // Invariant: an id below `MARKS` is a mark; any other is the index of a connection plus
    // `MARKS`.
    list: LruList,
    // Invariant: the number of listed marks.
    marks: u32,
    grace_ns: u64,
    period_ns: u64,
    set_at_ns: [u64; MARKS as usize],
    /// The mark that was set last.
    newest: u32,
    next_mark_ns: u64,
    // Invariant: both marks are listed.
    waiting: Option<SparedRange>,
}

/// The two marks around the connections that a shutdown does not evict yet.
#[derive(Clone, Copy, Debug)]
struct SparedRange {
    after: u32,
    before: u32,
}

impl IdleList {
    /// The highest index that can be listed.
    pub const MAX_INDEX: u32 = LruList::MAX_ID - MARKS;

    /// Creates an empty list for about this many connections. Allocates nothing yet.
    #[must_use]
    pub fn with_expected(connections: u32, grace_ns: u64) -> Self {
        Self {
            list: LruList::with_expected(connections.saturating_add(MARKS)),
            marks: 0,
            grace_ns,
            period_ns: grace_ns.div_ceil(PERIODS),
            set_at_ns: [0; MARKS as usize],
            newest: MARKS - 1,
            next_mark_ns: if grace_ns == 0 { NEVER } else { 0 },
            waiting: None,
        }
    }

    /// Lists a connection as the one that became idle last.
    ///
    /// # Panics
    ///
    /// If `index` is above [`MAX_INDEX`](Self::MAX_INDEX).
    #[inline]
    pub fn touch(&mut self, index: u32, now_ns: u64) {
        if now_ns >= self.next_mark_ns {
            self.set_mark(now_ns);
        }
        self.list.touch(id_of(index));
    }

    /// Removes a connection. Returns false if it was not in the list.
    #[inline]
    pub fn remove(&mut self, index: u32) -> bool {
        self.list.remove(id_of(index))
    }

    /// Returns whether a connection is in the list.
    #[inline]
    #[must_use]
    pub fn contains(&self, index: u32) -> bool {
        self.list.contains(id_of(index))
    }

    /// The number of idle connections.
    #[inline]
    #[must_use]
    pub fn len(&self) -> u32 {
        self.list.len() - self.marks
    }

    /// Returns whether no connection is idle. O(1), because there are at most nine marks.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.oldest().is_none()
    }

    /// The connection that has been idle the longest.
    #[must_use]
    pub fn oldest(&self) -> Option<u32> {
        self.iter().next()
    }

    /// Iterates over the idle connections, the longest idle first.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        self.list.iter().filter_map(|id| id.checked_sub(MARKS))
    }

    /// The connections that became idle longer ago than the grace, the longest idle first.
    /// Connections that exceed the grace by less than an eighth of it may be left out.
    pub fn longer_than_grace(&self, now_ns: u64) -> impl Iterator<Item = u32> {
        let is_recent_mark = move |id: u32| id < MARKS && self.is_recent(id, now_ns);
        let ids = self.list.iter().take_while(move |id| !is_recent_mark(*id));
        ids.filter_map(|id| id.checked_sub(MARKS))
    }

    /// Begins a shutdown. Returns the grace in nanoseconds if connections became idle within a
    /// grace before `now_ns` and wait for [`end_grace`](Self::end_grace), and `None` otherwise. A
    /// further call changes nothing.
    pub fn begin_shutdown(&mut self, now_ns: u64) -> Option<u64> {
        if self.waiting.is_some() {
            return Some(self.grace_ns); // the shutdown has begun before
        }
        self.next_mark_ns = NEVER;
        let by_age = (1..=MARKS).map(|n| (self.newest + n) % MARKS);
        let after = by_age
            .into_iter()
            .find(|mark| self.is_recent(*mark, now_ns));
        for mark in (0..MARKS).filter(|mark| Some(*mark) != after) {
            self.remove_mark(mark);
        }
        let after = after?;
        if self.list.newer_than(after).is_none() {
            self.remove_mark(after);
            return None;
        }
        let before = (after + 1) % MARKS;
        self.add_mark(before);
        self.waiting = Some(SparedRange { after, before });
        Some(self.grace_ns)
    }

    /// The connection that a shutdown evicts next. Connections that became idle just before the
    /// shutdown are left out until [`end_grace`](Self::end_grace).
    #[must_use]
    pub fn next_of_shutdown(&self) -> Option<u32> {
        let Some(SparedRange { after, before }) = self.waiting else {
            return self.oldest(); // skips marks
        };
        let earlier = self.list.oldest().filter(|id| *id != after);
        let id = earlier.or_else(|| self.list.newer_than(before))?;
        Some(id - MARKS)
    }

    /// Ends the grace of a shutdown, so that the connections that were left out are evicted, too.
    pub fn end_grace(&mut self) {
        if let Some(SparedRange { after, before }) = self.waiting.take() {
            self.remove_mark(after);
            self.remove_mark(before);
        }
    }

    #[cold]
    #[inline(never)]
    fn set_mark(&mut self, now_ns: u64) {
        self.newest = (self.newest + 1) % MARKS;
        self.add_mark(self.newest);
        self.set_at_ns[self.newest as usize] = now_ns;
        self.next_mark_ns = now_ns.saturating_add(self.period_ns);
    }

    fn add_mark(&mut self, mark: u32) {
        self.marks += u32::from(!self.list.contains(mark));
        self.list.touch(mark);
    }

    fn remove_mark(&mut self, mark: u32) {
        self.marks -= u32::from(self.list.remove(mark));
    }

    /// Returns whether a connection that follows a mark may have become idle within the grace.
    fn is_recent(&self, mark: u32, now_ns: u64) -> bool {
        let next_ns = self.set_at_ns[mark as usize].saturating_add(self.period_ns);
        self.list.contains(mark) && next_ns.saturating_add(self.grace_ns) > now_ns
    }
}

/// The id of a connection. If the index is too high, the id is above [`LruList::MAX_ID`].
#[inline]
fn id_of(index: u32) -> u32 {
    index.saturating_add(MARKS)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn evicted_at_once(list: &mut IdleList) -> Vec<u32> {
        std::iter::from_fn(|| {
            let index = list.next_of_shutdown()?;
            list.remove(index).then_some(index)
        })
        .collect()
    }

    #[test]
    fn a_mark_is_neither_counted_nor_the_oldest() {
        let mut list = IdleList::with_expected(10, 1000);
        assert!(list.is_empty() && list.oldest().is_none());
        list.touch(7, 0);
        assert_eq!((list.len(), list.oldest()), (1, Some(7)));
        for now_ns in [500, 1000, 2000] {
            list.touch(3, now_ns);
        }
        assert!(list.iter().eq([7, 3]));
        assert!(list.remove(3) && list.remove(7) && !list.remove(7));
        assert!(list.is_empty());
        assert_eq!(list.len(), 0);
    }

    #[test]
    fn without_a_grace_no_mark_is_set() {
        let mut list = IdleList::with_expected(10, 0);
        list.touch(0, 5);
        assert_eq!(list.list.len(), 1);
        assert_eq!(list.begin_shutdown(5), None);
        assert_eq!(evicted_at_once(&mut list), [0]);
    }

    #[test]
    fn a_connection_that_becomes_idle_in_a_shutdown_does_not_wait() {
        let mut list = IdleList::with_expected(10, 1000);
        list.touch(0, 100);
        assert_eq!(list.begin_shutdown(100), Some(1000));
        assert_eq!(list.next_of_shutdown(), None);
        list.touch(1, 2000);
        assert_eq!(evicted_at_once(&mut list), [1]);
        list.end_grace();
        assert_eq!(evicted_at_once(&mut list), [0]);
        assert!(list.list.is_empty());
    }

    #[test]
    fn after_a_shutdown_without_idle_connections_none_waits() {
        let mut list = IdleList::with_expected(10, 1000);
        list.touch(0, 0);
        list.remove(0);
        assert_eq!(list.begin_shutdown(100), None);
        list.touch(1, 150);
        assert_eq!(list.begin_shutdown(200), None);
        assert_eq!(evicted_at_once(&mut list), [1]);
    }

    #[test]
    fn a_second_shutdown_does_not_change_which_connections_wait() {
        let mut list = IdleList::with_expected(10, 1000);
        list.touch(0, 0);
        list.touch(1, 500);
        assert_eq!(list.begin_shutdown(1_200), Some(1000));
        for now_ns in [1_300, 9_000] {
            assert_eq!(list.begin_shutdown(now_ns), Some(1000));
        }
        assert_eq!(list.next_of_shutdown(), Some(0));
        list.remove(0);
        assert_eq!(list.next_of_shutdown(), None);
        list.end_grace();
        assert_eq!(evicted_at_once(&mut list), [1]);
    }

    #[test]
    fn an_index_that_is_too_high_is_not_in_the_list() {
        let mut list = IdleList::with_expected(1, 1000);
        list.touch(1, 0);
        for index in IdleList::MAX_INDEX..=u32::MAX {
            assert!(!list.contains(index) && !list.remove(index), "{index}");
        }
        assert_eq!((list.len(), list.oldest()), (1, Some(1)));
    }

    #[test]
    #[should_panic(expected = "is above")]
    fn an_index_that_is_too_high_is_refused() {
        IdleList::with_expected(1, 1000).touch(u32::MAX - MARKS + 1, 0); // would wrap to a mark
    }

    proptest! {
        /// A connection that is idle for less than the grace waits for the end of the grace. A
        /// connection that exceeds the grace by a period is evicted at once.
        #[test]
        fn a_shutdown_evicts_connections_idle_longer_than_the_grace(
            touches in prop::collection::vec((0..20_u32, 0..400_u64, any::<bool>()), 0..100),
            grace_ns in 1..2000_u64,
            later_ns in 0..3000_u64,
        ) {
            let mut list = IdleList::with_expected(20, grace_ns);
            let (mut now_ns, mut oracle) = (0, Vec::new());
            for (index, passes_ns, removes) in touches {
                now_ns += passes_ns;
                oracle.retain(|(other, _)| *other != index);
                if removes {
                    list.remove(index);
                } else {
                    list.touch(index, now_ns);
                    oracle.push((index, now_ns));
                }
                prop_assert!(list.iter().eq(oracle.iter().map(|(index, _)| *index)));
                prop_assert_eq!(list.len() as usize, oracle.len());
            }
            now_ns += later_ns;
            let longer: Vec<_> = list.longer_than_grace(now_ns).collect();
            list.begin_shutdown(now_ns);
            let evicted = evicted_at_once(&mut list);
            prop_assert_eq!(&longer, &evicted);
            let (at_once, rest) = oracle.split_at(evicted.len());
            prop_assert_eq!(list.len() as usize, rest.len());
            prop_assert!(at_once.iter().all(|(_, since_ns)| now_ns - since_ns > grace_ns));
            let longest_ns = grace_ns + grace_ns.div_ceil(PERIODS);
            prop_assert!(rest.iter().all(|(_, since_ns)| now_ns - since_ns < longest_ns));
            prop_assert!(at_once.iter().map(|(index, _)| *index).eq(evicted));
            list.end_grace();
            prop_assert_eq!(list.len() as usize, rest.len());
            prop_assert!(rest.iter().map(|(index, _)| *index).eq(evicted_at_once(&mut list)));
        }
    }
}
