//! Panics of a test that is run many times.

use std::{
    any::Any,
    cell::{Cell, RefCell},
    panic::{self, AssertUnwindSafe},
    sync::Once,
};

/// The place where a panic began: file, line and column.
pub(crate) type Place = String;

thread_local! {
    /// The place of the last panic of this thread, while it is quiet.
    static LAST: RefCell<Option<Place>> = const { RefCell::new(None) };
    static IS_QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Runs something that may panic.
pub(crate) fn caught(run: impl FnOnce()) -> Result<(), Box<dyn Any + Send>> {
    panic::catch_unwind(AssertUnwindSafe(run))
}

/// Runs something that may panic, without the message of the panic. Returns the place of the panic.
pub(crate) fn place_of_panic(run: impl FnOnce()) -> Option<Place> {
    listen();
    IS_QUIET.set(true);
    let result = caught(run);
    IS_QUIET.set(false);
    let place = LAST.take();
    result.err().map(|_| place.unwrap_or_default())
}

/// Sets a hook that keeps the place of the panic if its thread is quiet, and otherwise calls the
/// previous hook.
fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !IS_QUIET.get() {
                return before(info);
            }
            // The first panic counts; a panic in a destructor comes later.
            LAST.with_borrow_mut(|last| {
                last.get_or_insert_with(|| {
                    info.location()
                        .map_or_else(String::new, ToString::to_string)
                });
            });
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_panics_at_one_place_are_equal_and_others_are_not() {
        let one = |number: u32| assert_eq!(number, 0, "the first");
        let other = |number: u32| assert_eq!(number, 0, "the second");
        let first = place_of_panic(|| one(1));
        assert!(
            first
                .as_ref()
                .is_some_and(|place| place.contains("panics.rs:"))
        );
        assert_eq!(first, place_of_panic(|| one(2)));
        assert_ne!(first, place_of_panic(|| other(1)));
        assert_eq!(place_of_panic(|| one(0)), None);
    }
}
