//! A worker whose input is recorded (`--record`), so that `evcore-replay` can repeat its run.
//!
//! When half of the file is written and no connection is open, the recording begins anew. The
//! process then makes a new loop and a new server, because a replay begins with these. If a
//! connection is always open, the recording ends when the file is full, and the end is logged.

use std::{
    cell::{Cell, RefCell},
    error::Error,
    fs, io, mem,
    os::fd::AsFd,
    path::{Path, PathBuf},
    time::Duration,
};

use evcore::{
    Builder, Listener,
    balancer::WorkerId,
    clock::{Clock, SystemTimeSource},
    poller::{Backend, BackendKind},
};
use evcore_recording::{Outside, RecordedListener, Recorder};
use evcore_serve::Parts;

use crate::{
    log::log,
    repeatable::{Ended, Repeatable, START, Signals, Start},
    secret_headers::SecretHeaders,
    worker::Setup,
};

/// Serves as a worker that is recorded, until a signal stops it.
///
/// # Errors
///
/// If the recording cannot be made, or the worker fails.
pub fn serve(setup: &Setup, parts: &mut Parts) -> Result<(), Box<dyn Error + Send + Sync>> {
    let Some(path) = &setup.options.record else {
        return Err("--record FILE is missing".into());
    };
    let path = path_of(path, setup, parts);
    let recorder = create(&path, setup.options.record_size)
        .map_err(|error| format!("--record {}: {error}", path.display()))?;
    if setup.options.record_blank {
        recorder.set_filter(|| {
            let mut headers = SecretHeaders::default();
            move |bytes: &mut [u8]| headers.blank(bytes)
        });
    }
    let listeners = mem::take(&mut parts.listeners);
    // Without a master, the worker takes the samples of its history. Their clock is not recorded.
    let sampler = (setup.options.workers() == 0).then(|| {
        let clock = Clock::system();
        RefCell::new((setup.sampler(&clock), clock))
    });
    loop {
        let was_full = Cell::new(false);
        let mut worker = begin(&recorder, setup, parts, &listeners)?;
        parts.ready();
        let signals = || {
            if recorder.is_full() && !was_full.replace(true) {
                report_full(&path);
            }
            if let Some(sampler) = &sampler {
                let (sampler, clock) = &mut *sampler.borrow_mut();
                clock.update();
                sampler.sample(clock);
            }
            Signals {
                reopen_count: parts.supervised.reopen_count(),
                stop_within_ms: parts.stop_within().map(milliseconds),
            }
        };
        // A worker that stops begins no new recording, so that the file has the turns before the
        // stop.
        let is_due = || recorder.is_half_full() && parts.stop_within().is_none();
        let ended = worker.run(signals, is_due);
        drop(worker);
        recorder.end_turn();
        if ended? == Ended::Stopped {
            return Ok(());
        }
        recorder.restart();
    }
}

fn report_full(path: &Path) {
    log(format_args!(
        "httpd: --record {}: the file is full, and the recording ends here; after a reload, or when \
         no connection is open, another one begins; --record-size allows more",
        path.display()
    ));
}

/// Returns the path of the worker's recording. If there is a master, the path ends with the
/// worker's index.
fn path_of(path: &Path, setup: &Setup, parts: &Parts) -> PathBuf {
    if setup.options.workers() == 0 {
        return path.to_owned();
    }
    with_end(path, &parts.supervised.index().get().to_string())
}

fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(".");
    path.push(end);
    path.into()
}

/// Creates the file. The recording of the previous worker gets the ending `.old`, because that
/// worker may have crashed.
fn create(path: &Path, bytes: usize) -> io::Result<Recorder> {
    if fs::metadata(path).is_ok_and(|there| !there.is_file()) {
        let why = "it exists, and is not a file; choose another path";
        return Err(io::Error::other(why));
    }
    match fs::rename(path, with_end(path, "old")) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Recorder::create(path, bytes),
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn begin(
    recorder: &Recorder,
    setup: &Setup,
    parts: &Parts,
    listeners: &[Listener],
) -> Result<Repeatable<RecordedListener<Listener>>, Box<dyn Error + Send + Sync>> {
    let outside = Outside::Recorded(recorder.clone());
    let index = parts.supervised.index().get();
    let arguments = std::env::args_os().skip(1);
    outside.value(START, || Start {
        arguments: arguments
            .map(|text| text.to_string_lossy().into_owned())
            .collect(),
        workers: setup.options.workers(),
        index,
        listeners: listeners.len(),
    });
    let mut builder = Builder::default()
        .clock(recorder.clock(SystemTimeSource::new()))
        .group(recorder.member(parts.member()))
        .backend(recorder.backend(open(setup.options.poller)?));
    for listener in listeners {
        let again = listener.as_fd().try_clone_to_owned()?;
        builder = builder.listener(recorder.listener(Listener::from_fd(again)?));
    }
    let slot = WorkerId::from_slot(parts.supervised.slot());
    let (worker, handle) = Repeatable::new(builder, setup, (slot, index), &outside)?;
    if let Some(lent) = handle.with_descriptor(|fd| parts.supervised.wake_fd(fd)) {
        lent?;
    }
    Ok(worker)
}

fn open(kind: Option<BackendKind>) -> evcore::poller::Result<Box<dyn Backend>> {
    let Some(kind) = kind else {
        let mut kinds = BackendKind::available().iter();
        let opened = kinds.find_map(|kind| kind.open().ok());
        return opened.map_or_else(|| BackendKind::Poll.open(), Ok);
    };
    kind.open()
}
