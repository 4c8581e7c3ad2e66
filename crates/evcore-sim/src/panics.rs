//! Catches the panics of a test that runs many times, and finds the place of each.

use std::{
    any::Any,
    cell::{Cell, RefCell},
    panic::{self, AssertUnwindSafe},
    sync::Once,
};

/// The place where a panic began: file, line and column.
pub(crate) type Place = String;

thread_local! {
    /// The panics of this thread while `IS_QUIET` is set: the text and the place of each.
    static PANICS: RefCell<Vec<(String, Place)>> = const { RefCell::new(Vec::new()) };
    static IS_QUIET: Cell<bool> = const { Cell::new(false) };
}

pub(crate) fn caught(run: impl FnOnce()) -> Result<(), Box<dyn Any + Send>> {
    panic::catch_unwind(AssertUnwindSafe(run))
}

/// Runs something that may panic, without printing a message. Returns the place of the panic.
pub(crate) fn place_of_panic(run: impl FnOnce()) -> Option<Place> {
    listen();
    IS_QUIET.set(true);
    let result = caught(run);
    IS_QUIET.set(false);
    let panics = PANICS.take();
    // `run` may have caught other panics itself, before this one or in a destructor.
    let text = text_of(&*result.err()?);
    let last = panics.iter().rfind(|(other, _)| *other == text);
    Some(last.map(|(_, place)| place.clone()).unwrap_or_default())
}

/// The text of a panic, which is empty if the payload is not a text.
fn text_of(panic: &dyn Any) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_default()
}

/// Sets a hook that keeps the text and the place of a panic if `IS_QUIET` is set for its thread,
/// and otherwise calls the previous hook.
fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !IS_QUIET.get() {
                return before(info);
            }
            let place = info.location().map(ToString::to_string);
            let panic = (text_of(info.payload()), place.unwrap_or_default());
            PANICS.with_borrow_mut(|panics| panics.push(panic));
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

    #[test]
    fn a_panic_that_was_caught_is_not_the_failure() {
        struct Panics;
        impl Drop for Panics {
            fn drop(&mut self) {
                assert!(caught(|| panic!("in a destructor")).is_err());
            }
        }
        let fails = |number: u32| assert_eq!(number, 0, "the failure");
        let place = place_of_panic(|| fails(1));
        let also = place_of_panic(|| {
            assert!(caught(|| panic!("a job")).is_err());
            let _panics = Panics;
            fails(1);
        });
        assert!(place.is_some());
        assert_eq!(place, also);
    }
}
