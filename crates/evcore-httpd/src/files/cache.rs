//! Files that are kept open for the next request (after nginx's `open_file_cache`).
//!
//! The cache serves a file for a second after it was opened. Then its name is opened again, so a
//! file that was replaced or removed is served for at most a second more. A file that is changed in
//! place is served with its present bytes, but for at most a second with the old length, tag and
//! date. Errors are not kept.

use std::{collections::HashMap, sync::Arc};

use evcore::token::{LruList, Table, Token};

use super::OpenFile;

const VALID_MS: u64 = 1000;

#[derive(Debug)]
pub struct OpenFiles {
    // Invariant: it has the tokens of exactly the entries of `table`.
    by_name: HashMap<Arc<[u8]>, Token>,
    table: Table<Entry>,
    // Invariant: it has the indexes of exactly the entries of `table`.
    order: LruList,
}

#[derive(Debug)]
struct Entry {
    name: Arc<[u8]>,
    file: Arc<OpenFile>,
    opened_ms: u64,
    used_ms: u64,
}

impl OpenFiles {
    /// Creates an empty cache of at most `limit` files. With a limit of 0, it keeps no file.
    pub fn new(limit: u32) -> Self {
        Self {
            by_name: HashMap::new(),
            table: Table::bounded(limit),
            order: LruList::new(),
        }
    }

    /// Returns the file with this name, if the cache has it and it was opened within the last
    /// second.
    pub fn get(&mut self, name: &[u8], now_ms: u64) -> Option<Arc<OpenFile>> {
        let token = *self.by_name.get(name)?;
        let entry = self.table.get_mut(token)?;
        if now_ms.saturating_sub(entry.opened_ms) >= VALID_MS {
            return None;
        }
        entry.used_ms = now_ms;
        self.order.touch(token.index());
        Some(Arc::clone(&entry.file))
    }

    /// Keeps a file that was just opened.
    pub fn insert(&mut self, name: &[u8], file: &Arc<OpenFile>, now_ms: u64) {
        self.remove(name);
        if self.table.is_full() {
            self.remove_oldest();
        }
        let name = Arc::from(name);
        let entry = Entry {
            name: Arc::clone(&name),
            file: Arc::clone(file),
            opened_ms: now_ms,
            used_ms: now_ms,
        };
        // The table is still full only if its limit is 0.
        if let Ok(token) = self.table.insert(entry) {
            self.order.touch(token.index());
            self.by_name.insert(name, token);
        }
    }

    pub fn remove(&mut self, name: &[u8]) {
        if let Some(token) = self.by_name.remove(name) {
            self.order.remove(token.index());
            self.table.remove(token);
        }
    }

    /// Removes all files. Returns whether the cache had any.
    pub fn clear(&mut self) -> bool {
        let had_some = !self.is_empty();
        while self.remove_oldest() {}
        had_some
    }

    /// Removes the files that were last used before a time, in milliseconds of monotonic time, so
    /// that the disk space of a removed file becomes free.
    pub fn close_unused(&mut self, before_ms: u64) {
        while self
            .oldest()
            .is_some_and(|oldest| oldest.used_ms < before_ms)
        {
            self.remove_oldest();
        }
    }

    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    fn oldest(&self) -> Option<&Entry> {
        self.table.get(self.table.token_at(self.order.oldest()?)?)
    }

    fn remove_oldest(&mut self) -> bool {
        let name = self.oldest().map(|oldest| Arc::clone(&oldest.name));
        if let Some(name) = &name {
            self.remove(name);
        }
        name.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::tests::open_file;

    fn names(cache: &OpenFiles) -> Vec<String> {
        let name = |index| {
            let token = cache.table.token_at(index)?;
            let name = cache.table.get(token)?.name.to_vec();
            assert_eq!(cache.by_name.get(name.as_slice()), Some(&token));
            String::from_utf8(name).ok()
        };
        let names: Vec<_> = cache.order.iter().filter_map(name).collect();
        assert_eq!(names.len(), cache.by_name.len());
        assert_eq!(names.len(), cache.table.len() as usize);
        names
    }

    #[test]
    fn a_file_is_served_for_a_second() {
        let mut cache = OpenFiles::new(2);
        let file = open_file();
        assert!(cache.get(b"a", 0).is_none());
        cache.insert(b"a", &file, 5_000);
        assert!(cache.get(b"a", 5_000).is_some());
        assert!(cache.get(b"b", 5_000).is_none());
        assert!(cache.get(b"a", 5_999).is_some());
        assert!(cache.get(b"a", 6_000).is_none());
        cache.insert(b"a", &file, 6_000);
        assert!(cache.get(b"a", 6_000).is_some());
        assert_eq!(Arc::strong_count(&file), 2);
    }

    #[test]
    fn the_least_recently_used_file_makes_room() {
        let mut cache = OpenFiles::new(2);
        cache.insert(b"a", &open_file(), 0);
        cache.insert(b"b", &open_file(), 0);
        assert!(cache.get(b"a", 1).is_some());
        cache.insert(b"c", &open_file(), 2);
        assert_eq!(names(&cache), ["a", "c"]);
        cache.insert(b"c", &open_file(), 3);
        assert_eq!(names(&cache), ["a", "c"]);
        cache.remove(b"a");
        cache.remove(b"b");
        assert_eq!(names(&cache), ["c"]);
    }

    #[test]
    fn a_limit_of_0_keeps_no_file() {
        let mut cache = OpenFiles::new(0);
        cache.insert(b"a", &open_file(), 0);
        assert!(cache.get(b"a", 0).is_none());
        assert!(!cache.clear());
    }

    #[test]
    fn files_that_are_not_used_are_closed() {
        let mut cache = OpenFiles::new(9);
        let file = open_file();
        for (name, ms) in [(b"a", 0), (b"b", 10), (b"c", 20)] {
            cache.insert(name, &file, ms);
        }
        assert!(cache.get(b"a", 15).is_some());
        cache.close_unused(15);
        assert_eq!(names(&cache), ["c", "a"]);
        assert!(cache.clear());
        assert!(cache.is_empty() && !cache.clear());
        assert_eq!(Arc::strong_count(&file), 1);
    }
}
