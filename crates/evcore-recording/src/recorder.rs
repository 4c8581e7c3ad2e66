//! Wraps the inputs of a loop, and records what they return.

use std::{
    fmt, io,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{
    call::What,
    file,
    filter::{Filter, MakeFilter},
    requests::Requests,
    writer::{MIN_BYTES, Writer},
};

/// Records what a loop gets from outside.
///
/// The program wraps the clock, the backend and the listeners of its loop once, when it builds the
/// loop. A clone is another handle to the same recording, which has a bounded size. When it is
/// full, nothing more is recorded until [`restart`](Self::restart).
///
/// **The recording contains what clients sent**, even passwords.
///
/// ```
/// use evcore::{EventLoop, Builder, Listener, clock::SystemTimeSource, poller::BackendKind};
/// use evcore_recording::Recorder;
///
/// let recorder = Recorder::in_memory(1 << 20);
/// let listener = Listener::bind("127.0.0.1:0")?;
/// let mut ev = Builder::default()
///     .clock(recorder.clock(SystemTimeSource::new()))
///     .backend(recorder.backend(BackendKind::Poll.open()?))
///     .listener(recorder.listener(listener))
///     .build()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Recorder {
    shared: Arc<Mutex<Shared>>,
}

pub(crate) struct Shared {
    writer: Writer,
    /// Number of queries with the answer "nothing" since the last recorded call.
    quiet: u32,
    pub(crate) requests: Requests,
    numbers: Numbers,
    make_filter: Option<MakeFilter>,
}

/// Numbers of the next stream, listener, connector and pool.
#[derive(Default)]
struct Numbers {
    streams: u32,
    listeners: u32,
    connectors: u32,
    pools: u32,
}

impl Recorder {
    /// Records into memory of this size in bytes, for tests and for a program that stores the
    /// recording.
    ///
    /// # Panics
    ///
    /// If `bytes` is less than 40.
    #[must_use]
    pub fn in_memory(bytes: usize) -> Self {
        assert!(
            bytes >= MIN_BYTES,
            "a recording needs at least {MIN_BYTES} bytes"
        );
        Self::with(Writer::new(Box::new(vec![0; bytes])))
    }

    /// Records into a new file of this size in bytes, which replaces any file at that path. Only
    /// the file's owner may read it. Until its blocks on the disk are allocated, the new file has a
    /// name that ends with `.new`. A file that already has this name is replaced as well.
    ///
    /// The file is mapped memory, so recording makes no system call, and what is recorded survives
    /// a kill of the process.
    ///
    /// # Errors
    ///
    /// If the file cannot be made, or the disk has no room for it.
    ///
    /// # Panics
    ///
    /// If `bytes` is less than 40.
    pub fn create(path: impl AsRef<Path>, bytes: usize) -> io::Result<Self> {
        assert!(
            bytes >= MIN_BYTES,
            "a recording needs at least {MIN_BYTES} bytes"
        );
        Ok(Self::with(Writer::new(Box::new(file::create(
            path.as_ref(),
            bytes,
        )?))))
    }

    fn with(writer: Writer) -> Self {
        let shared = Shared {
            writer,
            quiet: 0,
            requests: Requests::default(),
            numbers: Numbers::default(),
            make_filter: None,
        };
        Self {
            shared: Arc::new(Mutex::new(shared)),
        }
    }

    /// Sets a filter that changes received bytes before they are recorded, for example to blank
    /// secrets. Call this before streams exist, because `make` returns a filter for each new
    /// stream. The filter gets the stream's bytes in the pieces in which they arrive. The program
    /// itself gets the bytes as they are.
    ///
    /// A filter cannot change the number of bytes. It should not change bytes that the program
    /// depends on, because a replay gets the filtered bytes. The first 32 bytes of each send, and
    /// its checksum, are recorded as they are, so the replay of a program that echoes blanked bytes
    /// differs.
    ///
    /// ```
    /// use evcore_recording::Recorder;
    ///
    /// let recorder = Recorder::in_memory(1 << 20);
    /// recorder.set_filter(|| |bytes: &mut [u8]| bytes.fill(b'x')); // blanks all that clients send
    /// ```
    pub fn set_filter<F: FnMut(&mut [u8]) + Send + 'static>(
        &self,
        make: impl Fn() -> F + Send + 'static,
    ) {
        self.lock().make_filter = Some(Box::new(move || Box::new(make())));
    }

    pub(crate) fn filter(&self) -> Filter {
        Filter::new(self.lock().make_filter.as_ref())
    }

    /// Begins the recording anew, and forgets what was recorded. A replay begins with a new loop,
    /// so call this before the program builds a loop. A worker can build a new loop whenever no
    /// connection is open.
    ///
    /// The epoch in the recording's header grows by one.
    pub fn restart(&self) {
        let mut shared = self.lock();
        shared.writer.restart();
        shared.quiet = 0;
        shared.numbers = Numbers::default();
    }

    /// Ends a turn of the recording, so that a kill does not lose the turn. Each wait of a recorded
    /// loop also ends a turn.
    pub fn end_turn(&self) {
        self.lock().writer.seal();
    }

    /// The recording so far.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        self.lock().writer.bytes().to_vec()
    }

    /// Returns whether the recording is full, so that a call was not recorded.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.lock().writer.is_full()
    }

    /// Returns whether half of the room or more is used, so that it is time for a
    /// [`restart`](Self::restart).
    #[must_use]
    pub fn is_half_full(&self) -> bool {
        self.lock().writer.is_half_full()
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Shared> {
        // A poisoned lock is ignored, because a recording is most useful after a panic.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a call that every replay must make as well.
    pub(crate) fn call(&self, what: What, of: u32, result: i64, bytes: &[u8]) {
        self.lock().call(what, of, result, bytes);
    }

    pub(crate) fn position(&self) -> (u64, usize) {
        self.lock().writer.position()
    }

    /// Records the answer to a query, or counts the query if the answer is "nothing".
    pub(crate) fn answer(&self, answer: Option<(What, u32, i64, &[u8])>) {
        let mut shared = self.lock();
        let Some((what, of, result, bytes)) = answer else {
            shared.quiet += 1;
            return;
        };
        if shared.quiet > 0 {
            let quiet = i64::from(shared.quiet);
            shared.call(What::Quiet, 0, quiet, &[]);
        }
        shared.call(what, of, result, bytes);
    }
}

impl Shared {
    pub(crate) fn call(&mut self, what: What, of: u32, result: i64, bytes: &[u8]) {
        self.quiet = 0;
        self.writer.call(what, of, result, bytes);
    }

    pub(crate) fn set_capabilities(&mut self, capabilities: u32) {
        self.writer.set_capabilities(capabilities);
    }

    pub(crate) fn next_listener(&mut self) -> u32 {
        self.numbers.listeners += 1;
        self.numbers.listeners - 1
    }

    pub(crate) fn next_connector(&mut self) -> u32 {
        self.numbers.connectors += 1;
        self.numbers.connectors - 1
    }

    pub(crate) fn next_stream(&mut self) -> u32 {
        self.numbers.streams += 1;
        self.numbers.streams - 1
    }

    pub(crate) fn next_pool(&mut self) -> u32 {
        self.numbers.pools += 1;
        self.numbers.pools - 1
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder")
            .field("is_full", &self.is_full())
            .finish_non_exhaustive()
    }
}
