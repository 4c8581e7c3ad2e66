//! An allocator that counts the allocations of each thread.

#![allow(unsafe_code, reason = "implementing an allocator needs it")]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    sync::atomic::{AtomicUsize, Ordering},
};

thread_local! {
    // `const`, so that creating these variables does not allocate.
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
    static BYTES: Cell<usize> = const { Cell::new(0) };
    static WATCHED: Cell<bool> = const { Cell::new(false) };
}

static WATCHED_ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

/// An allocator that counts the allocations, and calls the system's. A test program installs it:
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

/// The number of allocations of this thread, including reallocations.
#[must_use]
pub fn allocations() -> usize {
    ALLOCATIONS.get()
}

/// The bytes that this thread has allocated, minus those that it has freed. Only differences are
/// meaningful, because threads free each other's memory.
#[must_use]
pub fn bytes_in_use() -> usize {
    BYTES.get()
}

/// Makes [`watched_allocations`] include the allocations of this thread from now on.
pub fn watch_this_thread() {
    WATCHED.set(true);
}

/// The number of allocations of all watched threads, each since its call of [`watch_this_thread`].
#[must_use]
pub fn watched_allocations() -> usize {
    WATCHED_ALLOCATIONS.load(Ordering::Relaxed)
}

fn count(allocated: usize, freed: usize) {
    // `try_with`, because an allocator must not panic when the thread has destroyed its variables.
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

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: the caller keeps the contract of `alloc`, and the system allocator has the same
        // one.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(0, layout.size());
        // SAFETY: `at` came from `alloc` or `realloc` here, which call the system's allocator.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size, layout.size());
        // SAFETY: `at` came from `alloc` or `realloc` here, which call the system's allocator.
        unsafe { System.realloc(at, layout, size) }
    }
}
