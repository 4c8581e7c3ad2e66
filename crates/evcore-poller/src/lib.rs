#![doc = include_str!("../README.md")]
//!
//! # The main types
//!
//! A [`Poller`] watches descriptors and fills a buffer of [`Events`]. [`Interest`] is what to watch
//! for, [`Ready`] is what the kernel reported, [`Mode`] is how often it is reported, and a
//! [`Waker`] ends a wait from another thread. [`Backend`], [`EventSink`], [`Registration`] and
//! [`WakeChannel`] matter only if you write a backend.
//!
//! # What each backend does
//!
//! | | epoll | kqueue ¹ | event ports ¹ | /dev/poll ¹ | poll | select | `io_uring` ⁷ |
//! |---|---|---|---|---|---|---|---|
//! | systems | Linux | macOS, BSDs | illumos | illumos | all | all except illumos | Linux 6.1 |
//! | `Edge`; before `rearm` it reports | kernel ²; all | kernel ²; all | masking; hang-up ⁵ | masking; hang-up ⁵ | masking; ends ⁶ | masking; nothing | kernel ⁸; all |
//! | `Oneshot` | kernel | kernel | masking | masking | masking | masking | kernel |
//! | `READ_CLOSED` | yes ³ | yes | no: a read of 0 bytes | no: a read of 0 bytes | Linux; else as ports | no: a read of 0 bytes | yes |
//! | `WRITE_CLOSED`, `ERROR` | yes | if the side is watched | yes | yes | yes | no: the side is ready, and fails | yes |
//! | priority data | yes | refused | yes | yes | yes | yes | yes |
//! | a wait costs with | what is ready | what is ready | what is ready, twice | what is ready | what is registered | the highest descriptor | what is ready |
//! | a change costs | one call | goes with the wait | one call | goes with one write before the wait ⁴ | nothing ⁴ | nothing ⁴ | goes with the wait ⁴ |
//! | descriptors | all | all | all | all | all | below 1024 | all |
//! | a regular file, `/dev/null` | refused | by the system | by the system | by the system | always ready | always ready | always ready |
//! | closed without `remove` | silent | silent | silent, or one error event | silent, or one error event | one error event | one error event | the file stays open; silent, or one error event |
//! | its number is another file's | silent | silent | perhaps watched by mistake | perhaps watched by mistake | watched by mistake | watched by mistake | perhaps watched by mistake |
//! | `remove_before_close`, but a duplicate is open | dropped; once, all is registered anew | silent | silent | silent | silent | silent | silent; it is one call |
//! | timeouts | ns below 1 s (`epoll_pwait2`, unless whole ms suffice), else ms, rounded up | ns | ns | ms, rounded up; at least a clock tick | ns on Linux and FreeBSD (`ppoll`), else ms, rounded up | ns on Linux, else µs, rounded up | ns |
//! | `Mode::Exclusive` | yes ³ | refused | refused | refused | refused | refused | refused |
//!
//! 1. Not run on such a system: no such kernel was at hand. Compiled, and tested over a model of the
//!    kernel's calls. poll and select were run on Linux only.
//! 2. An `Edge` that was reported on one side and not rearmed may be repeated when the other side
//!    has news.
//! 3. An exclusive registration reports no `READ_CLOSED`: a read returns 0 bytes.
//! 4. From an empty interest one call, as in `add` (except on `io_uring`): it checks that the descriptor
//!    is open.
//! 5. A report that is not answered costs one call, once (`/dev/poll`: it goes with the write). Errors
//!    too, but illumos' sockets report them as readiness.
//! 6. Hang-up and error; half-close on Linux; nothing on macOS. A descriptor whose report is not
//!    answered keeps its entry until then.
//! 7. Only by its name: [`BackendKind::IoUring`]. The system may refuse it (a sandbox, the sysctl
//!    `kernel.io_uring_disabled`): see [`BackendKind::usable`]. Use it with `Edge`, which costs no
//!    call: a `Level` that has reported is registered again by the next wait. `add` goes with the
//!    wait too. The kernel accepts calls of one thread: if the poller has moved to another, its next
//!    call registers everything anew.
//! 8. An `Edge` is a hint: it may report data that was read, or room that was used, before the wait.

mod backend_kind;
mod event;
mod event_sink;
mod events;
mod id;
mod interest;
mod ready;
mod source;

mod error;

mod availability;
mod backend;
mod entry;
mod fd_set;
mod growth;
mod poller;
mod refill;
mod registry;
mod watch_set;

mod wake_flag;
mod waker;

mod sys;

pub use availability::ParseBackendError;
pub use backend::{Backend, Capabilities, Registration};
pub use backend_kind::BackendKind;
pub use error::{Error, Result};
pub use event::Event;
pub use event_sink::EventSink;
pub use events::{Events, Iter};
pub use id::MAX_ID;
pub use interest::{Interest, Mode};
pub use poller::Poller;
pub use ready::Ready;
pub use source::{Source, Target};
pub use waker::{WakeChannel, Waker};

// Each may be made on one thread and used on another.
const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<Poller>();
    is_send::<Events>();
    is_send::<Waker>();
};
