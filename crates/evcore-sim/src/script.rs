//! Clients whose course is written down beforehand.

use std::{
    io,
    net::SocketAddr,
    ops::RangeInclusive,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::{Client, News, Visit};

/// What a client does, one thing after the other: it connects, does it all, and closes.
///
/// It reads whatever comes, whatever it is doing, unless it [stops](Self::stop_reading).
///
/// ```
/// use evcore_sim::Script;
/// use std::time::Duration;
///
/// let slow_and_rude = Script::new()
///     .send_slowly("GET / HTTP/1.1\r\n\r\n", 1, Duration::from_millis(300))
///     .stop_reading()
///     .pause(Duration::from_secs(5))
///     .reset();
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Script {
    acts: Vec<Act>,
}

/// One thing that a client does.
#[derive(Clone, Debug)]
enum Act {
    Pause(RangeInclusive<Duration>),
    Send {
        bytes: Vec<u8>,
        piece: usize,
        every: Duration,
    },
    Hear(usize),
    HearUntil(Vec<u8>),
    HearEnd,
    Read(bool),
    ShutdownWrite,
    Reset,
}

impl Script {
    /// Connects, and closes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Does nothing for a while, but read.
    pub fn pause(self, time: Duration) -> Self {
        self.pause_between(time..=time)
    }

    /// Does nothing for a while that is left to chance.
    pub fn pause_between(self, times: RangeInclusive<Duration>) -> Self {
        self.and(Act::Pause(times))
    }

    /// Sends all of it, as the server takes it.
    pub fn send(self, bytes: impl Into<Vec<u8>>) -> Self {
        self.and(Act::Send {
            bytes: bytes.into(),
            piece: usize::MAX,
            every: Duration::ZERO,
        })
    }

    /// Sends so many bytes at a time, and pauses after each piece.
    ///
    /// # Panics
    ///
    /// If a piece is to be of no bytes.
    pub fn send_slowly(self, bytes: impl Into<Vec<u8>>, piece: usize, every: Duration) -> Self {
        assert!(piece > 0, "by pieces of nothing it would never be sent");
        self.and(Act::Send {
            bytes: bytes.into(),
            piece,
            every,
        })
    }

    /// Waits for so many bytes more.
    pub fn hear(self, count: usize) -> Self {
        self.and(Act::Hear(count))
    }

    /// Waits for these bytes, after those that it waited for before.
    pub fn hear_until(self, bytes: impl Into<Vec<u8>>) -> Self {
        self.and(Act::HearUntil(bytes.into()))
    }

    /// Waits until the server closes, sends no more, or resets.
    pub fn hear_end(self) -> Self {
        self.and(Act::HearEnd)
    }

    /// Stalls: reads no more, so that the server's buffer fills. The end is not noticed either.
    pub fn stop_reading(self) -> Self {
        self.and(Act::Read(false))
    }

    /// Reads again.
    pub fn read_on(self) -> Self {
        self.and(Act::Read(true))
    }

    /// Says that it will send no more.
    pub fn shutdown_write(self) -> Self {
        self.and(Act::ShutdownWrite)
    }

    /// Resets the connection. What is written after it is not done.
    pub fn reset(self) -> Self {
        self.and(Act::Reset)
    }

    fn and(mut self, act: Act) -> Self {
        self.acts.push(act);
        self
    }

    pub(crate) fn into_client(self, server: SocketAddr) -> (impl Client, Scripted) {
        let record = Arc::<Mutex<Record>>::default();
        let client = Actor {
            server,
            acts: self.acts,
            at: 0,
            sent: 0,
            waited_for: 0,
            reads: true,
            rests: false,
            record: Arc::clone(&record),
        };
        (client, Scripted { record })
    }
}

/// How a client with a [`Script`] ended. For an example, see [`Scripted`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Ending {
    /// It did all that was written.
    Done,
    /// It could not connect.
    Refused,
    /// The server, or the network, reset its connection.
    Reset,
    /// The server closed before it had said what the client waited for, or had taken all that it
    /// sent.
    CutShort,
}

/// A client with a [`Script`], as the test sees it: from [`World::client`](crate::World::client).
///
/// ```
/// use evcore_sim::{Ending, Script, World};
/// use std::time::Duration;
///
/// let world = World::new(7);
/// let client = world.client("10.0.0.1:80".parse()?, Script::new().send("anybody there?"));
/// world.run_for(Duration::from_secs(1));
/// assert_eq!(client.ending(), Some(Ending::Refused), "nobody listens");
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Scripted {
    record: Arc<Mutex<Record>>,
}

impl Scripted {
    /// What it has received so far.
    #[must_use]
    pub fn heard(&self) -> Vec<u8> {
        lock(&self.record).heard.clone()
    }

    /// How it ended; `None`: it has not.
    #[must_use]
    pub fn ending(&self) -> Option<Ending> {
        lock(&self.record).ending
    }

    /// Whether it has ended, in whatever way.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.ending().is_some()
    }
}

/// What a client leaves for the test.
#[derive(Debug, Default)]
struct Record {
    heard: Vec<u8>,
    ended: bool,
    ending: Option<Ending>,
}

/// A client that follows its script.
#[derive(Debug)]
struct Actor {
    server: SocketAddr,
    acts: Vec<Act>,
    /// The act that it is in.
    at: usize,
    /// Of the act's bytes.
    sent: usize,
    /// How much of what it heard it has waited for.
    waited_for: usize,
    reads: bool,
    /// The alarm is set, and the next thing is done when it rings.
    rests: bool,
    record: Arc<Mutex<Record>>,
}

/// Whether there is something to do now.
enum Next {
    Goes,
    Waits,
    Ends(Ending),
}

impl Client for Actor {
    fn call(&mut self, news: News, me: &mut Visit<'_>) {
        match news {
            News::Time if !me.is_connected() => return me.connect(self.server),
            News::Refused => return self.end(Ending::Refused, me),
            News::Time => self.rests = false,
            News::Connected | News::Ready(_) => {}
        }
        if let Err(ending) = self.read(me) {
            return self.end(ending, me);
        }
        while !self.rests {
            match self.act(me) {
                Next::Goes => {}
                Next::Waits => return,
                Next::Ends(ending) => return self.end(ending, me),
            }
        }
    }
}

impl Actor {
    /// Reads what there is, if it reads.
    fn read(&mut self, me: &mut Visit<'_>) -> Result<(), Ending> {
        let mut record = lock(&self.record);
        let mut buffer = [0; 4096];
        while self.reads && !record.ended {
            match me.recv(&mut buffer) {
                Ok(0) => record.ended = true,
                Ok(n) => record.heard.extend_from_slice(&buffer[..n]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // Whoever waits for the end has got it.
                Err(_) if matches!(self.acts.get(self.at), Some(Act::HearEnd)) => {
                    record.ended = true;
                }
                Err(_) => return Err(Ending::Reset),
            }
        }
        Ok(())
    }

    fn act(&mut self, me: &mut Visit<'_>) -> Next {
        let Some(act) = self.acts.get(self.at).cloned() else {
            return Next::Ends(Ending::Done);
        };
        match act {
            Act::Pause(times) => {
                let time = me.rng().time(&times);
                self.rest(time, me);
            }
            Act::Send {
                bytes,
                piece,
                every,
            } => return self.send(&bytes, piece, every, me),
            Act::Hear(count) => {
                return self.hear(|unheard| (unheard.len() >= count).then_some(count));
            }
            Act::HearUntil(bytes) => return self.hear(|unheard| place_behind(unheard, &bytes)),
            Act::HearEnd => {
                if !lock(&self.record).ended {
                    return Next::Waits;
                }
            }
            Act::Read(reads) => {
                self.reads = reads;
                if let Err(ending) = self.read(me) {
                    return Next::Ends(ending);
                }
            }
            Act::ShutdownWrite => {
                if me.shutdown_write().is_err() {
                    return Next::Ends(Ending::Reset);
                }
            }
            Act::Reset => {
                me.reset();
                return Next::Ends(Ending::Done);
            }
        }
        self.at += 1;
        Next::Goes
    }

    fn send(&mut self, bytes: &[u8], piece: usize, every: Duration, me: &mut Visit<'_>) -> Next {
        let rest = &bytes[self.sent..];
        if rest.is_empty() {
            self.sent = 0;
            self.at += 1;
            return Next::Goes;
        }
        match me.send(&rest[..piece.min(rest.len())]) {
            Ok(n) => self.sent += n,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Next::Waits,
            Err(_) if lock(&self.record).ended => return Next::Ends(Ending::CutShort),
            Err(_) => return Next::Ends(Ending::Reset),
        }
        if !every.is_zero() {
            self.rest(every, me);
        }
        Next::Goes
    }

    /// Goes on if what was not waited for before is enough; how much of it that is, it says.
    fn hear(&mut self, enough: impl Fn(&[u8]) -> Option<usize>) -> Next {
        let record = lock(&self.record);
        match enough(&record.heard[self.waited_for..]) {
            Some(count) => {
                self.waited_for += count;
                self.at += 1;
                Next::Goes
            }
            None if record.ended => Next::Ends(Ending::CutShort),
            None => Next::Waits,
        }
    }

    fn rest(&mut self, time: Duration, me: &mut Visit<'_>) {
        self.rests = true;
        me.after(time);
    }

    fn end(&mut self, ending: Ending, me: &mut Visit<'_>) {
        lock(&self.record).ending = Some(ending);
        me.leave();
    }
}

/// Where the first occurrence of `wanted` ends.
fn place_behind(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    if wanted.is_empty() {
        return Some(0);
    }
    let mut windows = bytes.windows(wanted.len());
    windows
        .position(|window| window == wanted)
        .map(|place| place + wanted.len())
}

/// A panic elsewhere leaves a record as it was.
fn lock(record: &Mutex<Record>) -> MutexGuard<'_, Record> {
    record.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_behind_is_that_of_the_first() {
        assert_eq!(place_behind(b"a-b-c", b"-"), Some(2));
        assert_eq!(place_behind(b"a-b-c", b"-c"), Some(5));
        assert_eq!(place_behind(b"a-b-c", b"x"), None);
        assert_eq!(place_behind(b"a", b""), Some(0));
    }
}
