//! A descriptor that tasks wait for.

use std::cell::RefCell;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::mem;
use std::rc::Rc;
use std::task::{Context, Poll};

use evcore::net::Side;
use evcore::poller::Source;
use evcore::{EdgeStream, Interest, Ready, Token};

use crate::context::{self, LentLoop};
use crate::error::{Evicted, Foreign};
use crate::shared::Shared;
use crate::slot::{self, Activity, Slot};

/// Any non-blocking descriptor that tasks wait for, such as a socket of another library, the end of
/// a pipe, or a pidfd. [`Stream`](crate::Stream), [`Listener`](crate::Listener) and
/// [`UdpSocket`](crate::UdpSocket) are built on this type.
///
/// One task at a time may wait to read, and one to write. If two tasks wait for the same side, only
/// the later one is woken. A task makes at most 128 calls that do not have to wait in one poll, and
/// at most 32 on one side of a descriptor in one turn (iteration) of the loop. After that, the
/// other tasks run. Dropping the value closes the descriptor.
///
/// ```
/// use evcore_async::{Runtime, Watched};
/// use std::{io::Read, os::unix::net::UnixStream, process::{Command, Stdio}};
///
/// Runtime::new()?.block_on(async {
///     let (near, far) = UnixStream::pair()?; // the output of a child process
///     near.set_nonblocking(true)?;
///     let output = Stdio::from(std::os::fd::OwnedFd::from(far));
///     Command::new("echo").arg("hello").stdout(output).spawn()?;
///
///     let output = Watched::new(near)?;
///     let mut buffer = [0; 16];
///     let length = output.read_with(|mut near| near.read(&mut buffer)).await?;
///     assert_eq!(&buffer[..length], b"hello\n");
///     Ok::<(), std::io::Error>(())
/// })??;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Watched<S: 'static> {
    shared: Rc<Shared>,
    token: Token,
    // Invariant: `Some` until the drop.
    edge: Option<RefCell<EdgeStream<S>>>,
}

impl<S: Source> Watched<S> {
    /// Watches a descriptor, which must be non-blocking, until the result is dropped.
    ///
    /// # Errors
    ///
    /// [`QuotaExceeded`](io::ErrorKind::QuotaExceeded) if the loop has reached its limit of
    /// [connections](evcore::Builder::connections), and the errors of the poller.
    ///
    /// # Panics
    ///
    /// Outside a runtime.
    pub fn new(source: S) -> io::Result<Self> {
        Self::with_interest(source, Interest::BOTH)
    }

    pub(crate) fn with_interest(source: S, interest: Interest) -> io::Result<Self> {
        let shared = Shared::current();
        let token = context::with(|lent| lent.add(&source, interest))?;
        shared.insert(token, Slot::Source(slot::Source::default()));
        let edge = Some(RefCell::new(EdgeStream::new(source, token)));
        Ok(Self {
            shared,
            token,
            edge,
        })
    }
}

impl<S> Watched<S> {
    /// Calls `read`, which receives without blocking. If it fails with
    /// [`WouldBlock`](io::ErrorKind::WouldBlock), waits until the descriptor is readable, and calls
    /// it again.
    ///
    /// # Errors
    ///
    /// The errors of `read`, and an error if the calling task belongs to another runtime.
    ///
    /// # Panics
    ///
    /// If `read` uses this `Watched`, and not its argument.
    pub async fn read_with<R>(&self, mut read: impl FnMut(&S) -> io::Result<R>) -> io::Result<R> {
        poll_fn(|cx| self.poll_read_with(cx, &mut read)).await
    }

    /// Calls `write`, which sends without blocking. If it fails with
    /// [`WouldBlock`](io::ErrorKind::WouldBlock), waits until the descriptor is writable, and calls
    /// it again.
    ///
    /// # Errors
    ///
    /// The errors of `write`, and an error if the calling task belongs to another runtime.
    ///
    /// # Panics
    ///
    /// If `write` uses this `Watched`, and not its argument.
    pub async fn write_with<R>(&self, mut write: impl FnMut(&S) -> io::Result<R>) -> io::Result<R> {
        poll_fn(|cx| self.poll_write_with(cx, &mut write)).await
    }

    /// Polls [`read_with`](Self::read_with).
    ///
    /// # Errors
    ///
    /// The errors of [`read_with`](Self::read_with).
    ///
    /// # Panics
    ///
    /// As [`read_with`](Self::read_with).
    pub fn poll_read_with<R>(
        &self,
        cx: &mut Context<'_>,
        read: impl FnMut(&S) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        self.poll_side(cx, Side::Read, |edge, ev| edge.read_with(ev, read))
    }

    /// Polls [`write_with`](Self::write_with).
    ///
    /// # Errors
    ///
    /// The errors of [`write_with`](Self::write_with).
    ///
    /// # Panics
    ///
    /// As [`write_with`](Self::write_with).
    pub fn poll_write_with<R>(
        &self,
        cx: &mut Context<'_>,
        write: impl FnMut(&S) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        self.poll_side(cx, Side::Write, |edge, ev| edge.write_with(ev, write))
    }

    /// Makes a call for one side. If the call would block, waits until this side is ready.
    #[inline]
    pub(crate) fn poll_side<R>(
        &self,
        cx: &mut Context<'_>,
        side: Side,
        call: impl FnOnce(&mut EdgeStream<S>, &mut LentLoop) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        if !context::has_entered(self.shared.id()) {
            return Poll::Ready(Err(Foreign.into()));
        }
        if !self.shared.may_call(cx.waker()) {
            return Poll::Pending;
        }
        let mut edge = self.edge().borrow_mut();
        let (ready, is_evicted) = self.with_slot(|slot| {
            let ready = mem::replace(&mut slot.ready, Ready::NONE);
            let is_evicted = side == Side::Read && slot.activity == Activity::Evicted;
            (ready, is_evicted)
        });
        edge.on_ready(ready);
        if is_evicted {
            // An evicted connection fails only if nothing has arrived. To find that out, `call` has
            // to try to read, and it does so only if the stream counts as readable.
            edge.on_ready(Ready::READABLE);
        }
        let result = call(&mut edge, &mut LentLoop);
        if !matches!(&result, Err(error) if error.kind() == io::ErrorKind::WouldBlock) {
            return Poll::Ready(result);
        }
        let is_put_off = match side {
            Side::Read => edge.is_readable(),
            Side::Write => edge.is_writable(),
        };
        if is_evicted && !is_put_off {
            return Poll::Ready(Err(Evicted.into()));
        }
        drop(edge);
        if !is_put_off {
            // A call that only waits moves no bytes, so it does not count. If it did, a task that
            // waits for many streams could use up its calls on the first ones in each poll, and
            // never reach the others.
            self.shared.give_back_call();
        }
        let waker = cx.waker().clone();
        let _replaced = self.with_slot(|slot| {
            slot.is_put_off |= is_put_off;
            match side {
                Side::Read => slot.reader.replace(waker),
                Side::Write => slot.writer.replace(waker),
            }
        });
        Poll::Pending
    }

    /// Calls `call` with the value that owns the descriptor, for example to read a socket option.
    ///
    /// # Panics
    ///
    /// If `call` reads or writes through this `Watched`.
    pub fn with<R>(&self, call: impl FnOnce(&S) -> R) -> R {
        call(self.edge().borrow().get_ref())
    }

    /// Stops watching the descriptor and returns it; it stays open.
    ///
    /// If the call is made outside the runtime of this value, the loop watches the descriptor until
    /// the loop's next step. Keep the descriptor open until then, because the loop refuses another
    /// descriptor with the same number.
    #[must_use]
    pub fn into_inner(mut self) -> S {
        let edge = self.edge.take().expect("it is taken once");
        self.shared.end(self.token, ());
        self.shared.awaiting_room.wake_all();
        edge.into_inner().into_inner()
    }

    /// Marks the connection as idle or busy. The loop may evict an idle connection.
    pub(crate) fn set_idle(&self, is_idle: bool) {
        let is_here = context::has_entered(self.shared.id());
        let activity = match is_idle && is_here {
            true => Activity::Idle,
            false => Activity::Busy,
        };
        self.with_slot(|slot| slot.activity = activity);
        if is_here {
            context::with(|lent| lent.set_idle(self.token, is_idle));
        }
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    fn edge(&self) -> &RefCell<EdgeStream<S>> {
        self.edge.as_ref().expect("it is taken at the end")
    }

    fn with_slot<R>(&self, call: impl FnOnce(&mut slot::Source) -> R) -> R {
        let called = self.shared.with_slot(self.token, |slot| match slot {
            Slot::Source(source) => call(source),
            _ => unreachable!("it is the token of a source"),
        });
        called.expect("the slot is there until the drop")
    }
}

impl<S> Drop for Watched<S> {
    fn drop(&mut self) {
        if let Some(edge) = self.edge.take() {
            self.shared.end(self.token, edge);
            self.shared.awaiting_room.wake_all();
        }
    }
}

impl<S: fmt::Debug> fmt::Debug for Watched<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.edge.fmt(f)
    }
}
