use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Sets a flag when it is dropped, even if its thread panics, so that threads that look at the flag
/// end.
#[derive(Debug)]
pub struct SetOnDrop<'a>(pub &'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}
