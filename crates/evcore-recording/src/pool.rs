//! A thread pool whose results are recorded.

use std::{collections::HashMap, fmt, thread};

use evcore::pool::Pool;
use serde::{Serialize, de::DeserializeOwned};

use crate::{call::What, recorder::Recorder, replay::Replay};

/// A [`Pool`] whose results are recorded and replayed. [`Outside::pool`](crate::Outside::pool)
/// makes it.
///
/// A replay runs no job: the results come from the recording. In a replay, the payload of a panic
/// is the text of the panic, as a `String`.
pub struct RecordedPool<Id, T> {
    way: Way<Id, T>,
}

enum Way<Id, T> {
    Direct(Pool<Id, T>),
    Recorded {
        recorder: Recorder,
        /// The number of the pool, and of its next job.
        numbers: (u32, u32),
        pool: Pool<(u32, Id), T>,
    },
    Replayed {
        replay: Replay,
        numbers: (u32, u32),
        limit: usize,
        /// The jobs whose results are not taken yet.
        jobs: HashMap<u32, Id>,
    },
}

/// Wraps a pool without recording it.
impl<Id, T> From<Pool<Id, T>> for RecordedPool<Id, T> {
    fn from(pool: Pool<Id, T>) -> Self {
        let way = Way::Direct(pool);
        Self { way }
    }
}

impl<Id: Copy + Send + 'static, T: Send + 'static> RecordedPool<Id, T> {
    pub(crate) fn recorded(recorder: Recorder, pool: Pool<(u32, Id), T>) -> Self {
        let number = recorder.lock().next_pool();
        let way = Way::Recorded {
            recorder,
            numbers: (number, 0),
            pool,
        };
        Self { way }
    }

    pub(crate) fn replayed(replay: Replay, limit: usize) -> Self {
        let number = replay.lock().pools;
        replay.lock().pools += 1;
        let way = Way::Replayed {
            replay,
            numbers: (number, 0),
            limit,
            jobs: HashMap::new(),
        };
        Self { way }
    }

    /// Submits a job, as [`Pool::submit`] does.
    ///
    /// # Errors
    ///
    /// The job, if the pool has as many jobs as its limit.
    pub fn submit<F>(&mut self, id: Id, job: F) -> Result<(), F>
    where
        F: FnOnce() -> T + Send + 'static,
    {
        match &mut self.way {
            Way::Direct(pool) => pool.submit(id, job),
            Way::Recorded { numbers, pool, .. } => {
                pool.submit((numbers.1, id), job)?;
                numbers.1 += 1;
                Ok(())
            }
            Way::Replayed { limit, jobs, .. } if jobs.len() >= *limit => Err(job),
            Way::Replayed { numbers, jobs, .. } => {
                jobs.insert(numbers.1, id);
                numbers.1 += 1;
                Ok(())
            }
        }
    }
}

impl<Id: Copy, T: Serialize + DeserializeOwned> RecordedPool<Id, T> {
    /// Takes a result, as [`Pool::next_result`] does.
    pub fn next_result(&mut self) -> Option<(Id, thread::Result<T>)> {
        match &mut self.way {
            Way::Direct(pool) => pool.next_result(),
            Way::Recorded {
                recorder,
                numbers: (number, _),
                pool,
            } => {
                let Some(((job, id), result)) = pool.next_result() else {
                    recorder.answer(None);
                    return None;
                };
                let bytes = to_bytes(&result);
                recorder.answer(Some((What::Job, *number, job.into(), &bytes)));
                Some((id, result))
            }
            Way::Replayed {
                replay,
                numbers: (number, _),
                jobs,
                ..
            } => {
                let call = replay.lock().take_answer(What::Job, *number, &[])?;
                let id = jobs.remove(&u32::try_from(call.result).ok()?)?;
                Some((id, from_bytes(&call.bytes)))
            }
        }
    }
}

fn text_of(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("the job panicked")
}

fn to_bytes<T: Serialize>(result: &thread::Result<T>) -> Vec<u8> {
    let result = result.as_ref().map_err(|panic| text_of(&**panic));
    serde_json::to_vec(&result).unwrap_or_default()
}

fn from_bytes<T: DeserializeOwned>(bytes: &[u8]) -> thread::Result<T> {
    match serde_json::from_slice::<Result<T, String>>(bytes) {
        Ok(result) => result.map_err(|text| Box::new(text) as _),
        Err(error) => Err(Box::new(error.to_string())),
    }
}

impl<Id, T> RecordedPool<Id, T> {
    /// Number of jobs whose results are not taken.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.way {
            Way::Direct(pool) => pool.len(),
            Way::Recorded { pool, .. } => pool.len(),
            Way::Replayed { jobs, .. } => jobs.len(),
        }
    }

    /// Returns whether every result is taken.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<Id, T> fmt::Debug for RecordedPool<Id, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordedPool")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}
