//! Handles a step (an event of the loop) for a connection: moves bytes between its stream and the
//! [`Connection`], and arms its timers.

use std::{
    io::{self, ErrorKind},
    mem,
    os::fd::AsFd,
    sync::Arc,
};

use evcore::{Acceptor, EdgeStream, EventLoop, Listener, Ready, Timer, Token, Transport};

use crate::{
    connection::{Changes, Connection, Cx, Expiry, Task},
    files::{DiskRead, OpenFile},
    shared::Shared,
    timers::{Change, RECEIVE, SEND},
};

/// A connection during a step, with its stream and its loop.
#[derive(Debug)]
pub struct Session<'a, L: Acceptor<Stream: Transport> = Listener> {
    pub stream: &'a mut EdgeStream<L::Stream>,
    pub connection: &'a mut Connection,
    pub ev: &'a mut EventLoop<L>,
    pub shared: &'a mut Shared,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Disposition {
    Keep,
    /// The caller removes the token from the loop, and closes the stream.
    Close,
}

enum Progress {
    More,
    /// The connection waits for the kernel, the disk or a timer.
    Blocked,
    Done,
}

impl<L: Acceptor<Stream: Transport>> Session<'_, L> {
    pub fn on_accepted(&mut self) {
        let changes = self.connection.handle_accepted(self.shared);
        self.apply(changes);
    }

    /// Continues a connection that has arrived from another worker, or has come back. The loop
    /// already watches the stream, and will report the bytes that have arrived meanwhile.
    pub fn on_arrived(&mut self) -> Disposition {
        self.end_step()
    }

    /// Handles that the stream is ready, or that the server has posted the connection
    /// (`EventLoop::post` makes the loop return a step for it). The stream has recorded the
    /// readiness.
    pub fn on_ready(&mut self, ready: Ready) -> Disposition {
        if ready.is_error() || ready.is_write_closed() {
            // No response could reach the client.
            return Disposition::Close;
        }
        self.proceed()
    }

    pub fn on_timer(&mut self, timer: Timer) -> Disposition {
        let mut cx = cx(self.stream.token(), self.ev, self.shared);
        match self.connection.handle_timer(timer, &mut cx) {
            Expiry::Respond => self.proceed(),
            Expiry::Evict => {
                // The loop also marks a connection as busy before it evicts it.
                self.ev.set_busy(self.stream.token());
                self.on_evict()
            }
            Expiry::Close => Disposition::Close,
        }
    }

    /// Handles an eviction by the loop. The connection is closed unless a request has just arrived,
    /// or the connection has a reason to [stay](Connection::handle_eviction).
    pub fn on_evict(&mut self) -> Disposition {
        // Bytes may have arrived since the loop's last wait.
        self.stream.on_ready(Ready::READABLE);
        let disposition = self.proceed();
        // The loop counts the connection as idle again only if a response was sent.
        let was_served = !self.connection.is_idle() || self.ev.is_idle(self.stream.token());
        if disposition == Disposition::Close || was_served {
            return disposition;
        }
        // If the kernel does not report delivery, waiting would be useless.
        let is_delivered = self.stream.get_ref().is_delivered().unwrap_or(true);
        match self.connection.handle_eviction(is_delivered, self.shared) {
            Some(changes) => {
                self.apply(changes);
                Disposition::Keep
            }
            None => Disposition::Close,
        }
    }

    /// Handles that the queue of disk reads has room again.
    pub fn on_disk_room(&mut self) -> Disposition {
        self.connection.handle_disk_read(DiskRead::None);
        self.proceed()
    }

    /// Sends, serves and receives until a call would block, then updates timers and counters.
    fn proceed(&mut self) -> Disposition {
        loop {
            match self.run_task() {
                Ok(Progress::More) => {}
                Ok(Progress::Blocked) => break,
                Ok(Progress::Done) | Err(_) => return Disposition::Close,
            }
        }
        self.end_step()
    }

    #[inline]
    fn end_step(&mut self) -> Disposition {
        match self.connection.poll_changes(self.shared) {
            Ok(changes) => {
                self.apply(changes);
                Disposition::Keep
            }
            Err(_) => Disposition::Close,
        }
    }

    #[inline]
    fn run_task(&mut self) -> io::Result<Progress> {
        let (clock, token) = (self.ev.clock(), self.stream.token());
        let sent = match self.connection.poll_task(self.shared, clock, token)? {
            Task::Send(bytes) => self.stream.send(self.ev, bytes),
            Task::SendMore(bytes) => {
                let send_more = |stream: &L::Stream| stream.send_more(bytes);
                self.stream.write_with(self.ev, send_more)
            }
            Task::SendFile {
                file,
                offset,
                count,
                was_read,
            } => {
                let file = Arc::clone(file);
                if !was_read && self.waits_for_disk(&file, (offset, count)) {
                    return Ok(Progress::More);
                }
                self.send_file(&file, (offset, count))
            }
            Task::Receive => return self.receive(),
            Task::Finish { lingers } => return self.finish(lingers),
            Task::Wait => return Ok(Progress::Blocked),
        };
        match sent {
            Ok(n) => {
                self.shared.counts.sent(n);
                self.connection.handle_sent(n, self.shared)?;
                Ok(Progress::More)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.connection.handle_blocked();
                Ok(Progress::Blocked)
            }
            Err(error) => Err(error),
        }
    }

    fn receive(&mut self) -> io::Result<Progress> {
        if !self.stream.is_readable() {
            return Ok(Progress::Blocked);
        }
        let mut buffer = mem::take(&mut self.shared.input);
        let received = self.stream.recv(self.ev, &mut buffer);
        let handled = match received {
            Ok(n) if n > 0 => {
                self.shared.counts.received(n);
                let mut cx = cx(self.stream.token(), self.ev, self.shared);
                self.connection.handle_input(&buffer[..n], &mut cx)
            }
            _ => Ok(()),
        };
        self.shared.input = buffer;
        handled?;
        match received {
            Ok(0) => Ok(Progress::Done),
            Ok(_) => Ok(Progress::More),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(Progress::Blocked),
            Err(error) => Err(error),
        }
    }

    fn finish(&mut self, lingers: bool) -> io::Result<Progress> {
        // With unread bytes in the socket, a close would reset the connection. So the connection
        // lingers: it discards the bytes that arrive. nginx does so, too.
        if !lingers && !self.stream.is_readable() {
            return Ok(Progress::Done);
        }
        self.stream.get_ref().shutdown_write()?;
        self.connection.handle_shut_down();
        Ok(Progress::More)
    }

    fn send_file(&mut self, file: &OpenFile, (offset, count): (u64, u64)) -> io::Result<usize> {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let send = |stream: &L::Stream| stream.send_file(file.as_fd(), offset, count);
        match self.stream.write_with(self.ev, send) {
            // The file has shrunk. Only the end of the connection can show that to the client.
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            sent => sent,
        }
    }

    /// Returns whether the piece has to be read from the disk first. If so, a thread reads it, and
    /// the server then posts the connection. If the queue of reads is full, the server calls
    /// [`on_disk_room`](Self::on_disk_room) when there is room.
    fn waits_for_disk(&mut self, file: &Arc<OpenFile>, piece: (u64, u64)) -> bool {
        let (offset, count) = piece;
        let Some(files) = &mut self.shared.files else {
            return false;
        };
        if file.is_in_memory(&self.shared.outside, offset, count) {
            return false;
        }
        let (token, outside) = (self.stream.token(), &self.shared.outside);
        let memory = (&mut self.shared.bodies.headroom, outside);
        let read = files.reads.submit(self.ev, memory, token, file, piece);
        self.connection.handle_disk_read(read);
        read != DiskRead::None
    }

    #[inline]
    fn apply(&mut self, changes: Changes) {
        let (ev, token) = (&mut *self.ev, self.stream.token());
        match changes.is_idle {
            Some(true) => _ = ev.set_idle(token),
            Some(false) => _ = ev.set_busy(token),
            None => {}
        }
        for (timer, change) in [(RECEIVE, changes.receive), (SEND, changes.send)] {
            match change {
                Change::Keep => {}
                Change::Arm(time) => _ = ev.arm(token, timer, time),
                Change::Disarm => _ = ev.disarm(token, timer),
            }
        }
    }
}

#[inline]
fn cx<'a, L: Acceptor>(token: Token, ev: &'a EventLoop<L>, shared: &'a mut Shared) -> Cx<'a> {
    Cx {
        shared,
        clock: ev.clock(),
        token,
    }
}
