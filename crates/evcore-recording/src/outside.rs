//! Input that a program gets from outside by itself, not through its loop.

use std::io;

use evcore::{Handle, pool::Pool};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    call::{Digest, What},
    handle::RecordedHandle,
    pool::RecordedPool,
    recorder::Recorder,
    replay::Replay,
};

/// The source of the input that a program gets by itself, not through its loop: random numbers,
/// files, threads.
///
/// It is direct, recorded or replayed. A program that gets all such input from an `Outside` can be
/// recorded:
///
/// ```
/// use evcore_recording::{Outside, Recorder, Recording, Replay};
///
/// fn greeting(outside: &Outside) -> String {
///     let pid = outside.value("pid", std::process::id);
///     format!("I am {pid}")
/// }
///
/// let recorder = Recorder::in_memory(1 << 16);
/// let recorded = greeting(&Outside::Recorded(recorder.clone()));
/// assert_eq!(greeting(&Outside::Direct), recorded);
///
/// # recorder.end_turn();
/// // In another process, later:
/// let replay = Replay::new(Recording::read(&recorder.to_bytes())?);
/// assert_eq!(greeting(&Outside::Replayed(replay)), recorded);
/// # Ok::<(), evcore_recording::Refused>(())
/// ```
#[derive(Clone, Debug, Default)]
pub enum Outside {
    /// The program runs without a recording. Each call costs a comparison.
    #[default]
    Direct,
    /// The program runs, and its input is recorded.
    Recorded(Recorder),
    /// The program gets its input from a recording.
    Replayed(Replay),
}

impl Outside {
    /// Returns the value of `get`, or in a replay the recorded value. The value is recorded as
    /// JSON.
    ///
    /// `get` must not use anything that is itself recorded, such as the loop's clock, because a
    /// replay does not call `get` if it has the recorded value. (It calls `get` only after the end
    /// of the recording, after a difference, and if the recorded value cannot be read.)
    ///
    /// # Panics
    ///
    /// In a debug build, if `get` uses something that is itself recorded.
    pub fn value<T>(&self, name: &str, get: impl FnOnce() -> T) -> T
    where
        T: Serialize + DeserializeOwned,
    {
        match self {
            Self::Direct => get(),
            Self::Recorded(recorder) => {
                let before = recorder.position();
                let value = get();
                debug_assert_eq!(before, recorder.position(), "{name} uses what is recorded");
                recorder.call(What::Value, 0, 0, &to_bytes(name, &value));
                value
            }
            Self::Replayed(replay) => {
                let call = replay.call(What::Value, 0, &prefix(name));
                let value = call.ok().and_then(|call| from_bytes(name, &call.bytes));
                value.unwrap_or_else(get)
            }
        }
    }

    /// Returns a value that `get` returns only now and then. A call that returns `None` is counted,
    /// but not recorded. A replay does not call `get`.
    pub fn news<T>(&self, name: &str, get: impl FnOnce() -> Option<T>) -> Option<T>
    where
        T: Serialize + DeserializeOwned,
    {
        match self {
            Self::Direct => get(),
            Self::Recorded(recorder) => {
                let news = get();
                let bytes = news.as_ref().map(|news| to_bytes(name, news));
                recorder.answer(bytes.as_deref().map(|bytes| (What::Value, NEWS, 0, bytes)));
                news
            }
            Self::Replayed(replay) => {
                let prefix = prefix(name);
                let call = replay.lock().take_answer(What::Value, NEWS, &prefix)?;
                from_bytes(name, &call.bytes)
            }
        }
    }

    /// Records a digest of bytes that the program has made, such as its final state. A replay
    /// compares its own bytes with that digest.
    pub fn check(&self, bytes: &[u8]) {
        let digest = || Digest::of(bytes);
        match self {
            Self::Direct => {}
            Self::Recorded(recorder) => recorder.call(What::Check, 0, 0, digest().as_bytes()),
            // A difference is kept for the caller of `Replay::difference`.
            Self::Replayed(replay) => _ = replay.call(What::Check, 0, digest().as_bytes()),
        }
    }

    /// A handle by which other threads reach the loop of `handle`. Give each thread a clone.
    #[must_use]
    pub fn handle(&self, handle: Handle) -> RecordedHandle {
        match self {
            Self::Direct => RecordedHandle::direct(handle),
            Self::Recorded(recorder) => recorder.handle(handle),
            Self::Replayed(replay) => {
                replay.lock().handle = Some(handle);
                RecordedHandle::replayed()
            }
        }
    }

    /// A pool of threads, as [`Pool::new`] makes it. Its threads wake the loop of `handle`. A
    /// replay starts no threads.
    ///
    /// # Errors
    ///
    /// The errors of [`Pool::new`]. In a replay, [`OutOfMemory`](io::ErrorKind::OutOfMemory) if the
    /// recorded pool was not made, and also after the end of the recording or after a difference.
    ///
    /// # Panics
    ///
    /// If `threads` or `limit` is 0, except in a replay.
    pub fn pool<Id, T>(
        &self,
        threads: usize,
        limit: usize,
        handle: RecordedHandle,
    ) -> io::Result<RecordedPool<Id, T>>
    where
        Id: Copy + Send + 'static,
        T: Send + 'static,
    {
        let wake = move || handle.wake();
        match self {
            Self::Direct => Ok(Pool::new(threads, limit, wake)?.into()),
            Self::Recorded(recorder) => {
                let pool = Pool::new(threads, limit, wake);
                self.value("pool", || pool.is_ok());
                Ok(RecordedPool::recorded(recorder.clone(), pool?))
            }
            Self::Replayed(replay) => {
                if !self.value("pool", || false) {
                    return Err(io::ErrorKind::OutOfMemory.into());
                }
                Ok(RecordedPool::replayed(replay.clone(), limit))
            }
        }
    }
}

/// The number of a [`What::Value`] from [`Outside::news`].
const NEWS: u32 = 1;

/// The name of a value, in the form that precedes the value.
fn prefix(name: &str) -> Vec<u8> {
    [name.as_bytes(), b"="].concat()
}

fn to_bytes<T: Serialize>(name: &str, value: &T) -> Vec<u8> {
    let mut bytes = prefix(name);
    // A value that cannot be written as JSON cannot be read by a replay. The replay then calls
    // `get`, or returns no news.
    let _ = serde_json::to_writer(&mut bytes, value);
    bytes
}

fn from_bytes<T: DeserializeOwned>(name: &str, bytes: &[u8]) -> Option<T> {
    serde_json::from_slice(bytes.get(name.len() + 1..)?).ok()
}
