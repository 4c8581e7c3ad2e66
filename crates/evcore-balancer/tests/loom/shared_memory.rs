//! Plain memory in place of `src/shared_memory.rs`. The threads of a model share it anyway.

use std::{io, ops::Deref};

#[derive(Debug)]
pub(crate) struct SharedSlice<T>(Box<[T]>);

impl<T: Default> SharedSlice<T> {
    #[allow(clippy::unnecessary_wraps, reason = "the real one can fail")]
    pub(crate) fn new(len: usize) -> io::Result<Self> {
        Ok(Self((0..len).map(|_| T::default()).collect()))
    }
}

impl<T> Deref for SharedSlice<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}
