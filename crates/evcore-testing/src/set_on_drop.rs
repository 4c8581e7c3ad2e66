use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Sets a flag when it is dropped, even by a panic. So other threads that check the flag can stop.
#[derive(Debug)]
pub struct SetOnDrop<'a>(pub &'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}
