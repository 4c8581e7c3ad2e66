//! The system's allocator, which counts the allocations of each thread.

#![allow(unsafe_code, reason = "an allocator that counts is an allocator")]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    sync::atomic::{AtomicUsize, Ordering},
};

thread_local! {
    // Made at compile time, so that they need no allocation themselves.
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
    static BYTES: Cell<usize> = const { Cell::new(0) };
    static WATCHED: Cell<bool> = const { Cell::new(false) };
}

static WATCHED_ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator with counters. A test program installs it:
///
/// ```
/// use evcore_testing::{CountingAllocator, allocations};
///
/// #[global_allocator]
/// static ALLOCATOR: CountingAllocator = CountingAllocator;
///
/// let before = allocations();
/// let _box = Box::new(7);
/// assert_eq!(allocations() - before, 1);
/// ```
#[derive(Debug)]
pub struct CountingAllocator;

/// How often this thread has allocated, growing included.
#[must_use]
pub fn allocations() -> usize {
    ALLOCATIONS.get()
}

/// The bytes that this thread has allocated and not freed; meaningful as a difference.
#[must_use]
pub fn bytes_in_use() -> usize {
    BYTES.get()
}

/// Counts the allocations of this thread, from here on, for
/// [`watched_allocations`] on any thread.
pub fn watch_this_thread() {
    WATCHED.set(true);
}

/// How often the watched threads have allocated since they are watched.
#[must_use]
pub fn watched_allocations() -> usize {
    WATCHED_ALLOCATIONS.load(Ordering::Relaxed)
}

fn count(allocated: usize, freed: usize) {
    // At the very end of a thread its locals are gone: what it does then is not counted.
    let _ = BYTES.try_with(|bytes| {
        bytes.set(bytes.get().wrapping_add(allocated).wrapping_sub(freed));
    });
    if allocated == 0 {
        return;
    }
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
    if WATCHED.try_with(Cell::get).unwrap_or(false) {
        WATCHED_ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
    }
}

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: the caller keeps the contract of `alloc`, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(0, layout.size());
        // SAFETY: `at` came from `alloc` here, which is the system's.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size, layout.size());
        // SAFETY: `at` came from `alloc` here, which is the system's.
        unsafe { System.realloc(at, layout, size) }
    }
}
