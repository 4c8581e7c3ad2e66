//! Counts the open descriptors of processes, so that a test finds those that leak.

use std::{collections::BTreeMap, fs};

use evcore_tests::eventually;

/// Number of open descriptors of a process, by kind. The descriptors of its log do not count,
/// because a process may open its log again when it writes to it.
pub(super) fn descriptors(pid: u32) -> BTreeMap<String, usize> {
    let mut kinds = BTreeMap::new();
    let entries = fs::read_dir(format!("/proc/{pid}/fd"));
    let entries = entries.into_iter().flatten().flatten();
    let links = entries.filter_map(|entry| fs::read_link(entry.path()).ok());
    let log = fs::read_link(format!("/proc/{pid}/fd/2")).unwrap_or_default();
    for link in links.filter(|link| *link != log) {
        let link = link.to_string_lossy();
        let kind = link.split_once(":[").map_or(&*link, |(kind, _)| kind);
        *kinds.entry(kind.to_owned()).or_default() += 1;
    }
    kinds
}

/// Waits until all these processes have the same descriptors, and returns their number by kind.
/// Call it when no client is left.
pub(super) fn settled(workers: &[u32]) -> BTreeMap<String, usize> {
    let mut all = Vec::new();
    eventually("all processes have the same descriptors", || {
        let before = std::mem::take(&mut all);
        all.extend(workers.iter().map(|worker| descriptors(*worker)));
        all == before && all.windows(2).all(|two| two[0] == two[1])
    });
    all.swap_remove(0)
}
