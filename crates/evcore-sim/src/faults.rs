//! The faults that are injected, and their probabilities.
//!
//! Every injected fault is one that a real kernel, network or machine can produce. No fault breaks
//! a promise of a real kernel. For example, the socket is empty after a short read, and an edge
//! follows when the rest arrives.

use std::fmt;

use crate::probability::Probability;

/// A kind of fault.
///
/// ```
/// use evcore_sim::{Fault, Faults, Sim};
///
/// let sim = Sim::new(7);
/// sim.set_faults(Faults::all());
/// // ... and after a run:
/// for fault in Fault::ALL {
///     println!("{fault:?}: {}", sim.fault_count(fault));
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// A wait reports readiness that need not hold.
    SpuriousReadiness,
    /// A wait repeats the report of an edge-triggered registration that is still ready, although
    /// nothing has changed.
    RepeatedReadiness,
    /// A wait reports its events in a random order.
    ReorderedEvents,
    /// A signal ends a wait that sleeps (EINTR). A wait that begins with an event is not
    /// interrupted.
    InterruptedWait,
    /// The monotonic clock jumps ahead by up to 10 s, as after a suspend of the machine.
    ClockJump,
    /// The wall clock is set, by up to a day in either direction.
    WallClockStep,
    /// A read returns a part of the bytes that have arrived. The rest arrives within 5 ms. Like
    /// [`Delay`](Self::Delay) and [`Reset`](Self::Reset), this fault does not occur on Unix
    /// sockets.
    ShortRead,
    /// A write takes a part of the bytes that would fit. A report that there is room follows.
    ShortWrite,
    /// The bytes of one write arrive in two pieces.
    Fragment,
    /// A piece of data, or the connection request of a process, arrives up to 3 s late. Later data
    /// in the same direction waits for it.
    Delay,
    /// The network resets a connection at both ends, after the data that was sent before.
    Reset,
    /// A client resets its connection before it is accepted, and `accept` returns ECONNABORTED.
    Abort,
    /// The system has no free descriptor, and `accept` returns ENFILE.
    Exhausted,
    /// A step takes up to 200 ms longer. (Under [`Workers`](crate::Workers).)
    SlowStep,
    /// A worker pauses between two steps for up to 2 s (SIGSTOP) and keeps all that it holds.
    /// (Under [`Workers`](crate::Workers).)
    Pause,
    /// A worker is killed between two steps. Its successor starts when the parent has noticed the
    /// death. (Under [`Workers`](crate::Workers).)
    Kill,
    /// A worker leaves its turn (one iteration of its loop) before it has taken all steps, and
    /// waits again. (Under [`Workers`](crate::Workers).)
    AbandonedTurn,
    /// A connect of a process succeeds or is refused at once, as over the loopback interface. (It
    /// takes its usual time if the backlog is full.)
    ImmediateConnect,
    /// A connect of a process is refused, or its server is unreachable, even if a process listens
    /// there.
    ConnectRefused,
    /// Nothing answers a connect of a process. It fails with ETIMEDOUT after 31 s.
    ConnectTimeout,
    /// A connect of a process fails with EADDRNOTAVAIL, because no local port is free.
    NoLocalPort,
    /// A job of a thread pool takes up to 3 s longer.
    SlowJob,
    /// A job of a thread pool panics.
    JobPanic,
    /// A datagram is lost.
    DatagramLoss,
    /// A datagram arrives twice.
    DatagramDuplicate,
    /// A datagram arrives up to 3 s late. Later datagrams do not wait for it.
    DatagramDelay,
    /// A worker is killed before a call on a [channel](crate::SimDescriptor), or after a send or a
    /// receive. (Under [`Workers`](crate::Workers).)
    ChannelKill,
    /// A worker is killed before or after it receives from a [stream](crate::SimStream) or sends to
    /// it. (Under [`Workers`](crate::Workers).)
    StreamKill,
}

impl Fault {
    /// All faults.
    pub const ALL: [Self; 28] = [
        Self::SpuriousReadiness,
        Self::RepeatedReadiness,
        Self::ReorderedEvents,
        Self::InterruptedWait,
        Self::ClockJump,
        Self::WallClockStep,
        Self::ShortRead,
        Self::ShortWrite,
        Self::Fragment,
        Self::Delay,
        Self::Reset,
        Self::Abort,
        Self::Exhausted,
        Self::SlowStep,
        Self::Pause,
        Self::Kill,
        Self::AbandonedTurn,
        Self::ImmediateConnect,
        Self::ConnectRefused,
        Self::ConnectTimeout,
        Self::NoLocalPort,
        Self::SlowJob,
        Self::JobPanic,
        Self::DatagramLoss,
        Self::DatagramDuplicate,
        Self::DatagramDelay,
        Self::ChannelKill,
        Self::StreamKill,
    ];

    /// The faults by which a client loses a connection or a result, directly or because a timeout
    /// of the server expires too early.
    const LOSSY: [Self; 11] = [
        Self::Reset,
        Self::Abort,
        Self::Kill,
        Self::ClockJump,
        Self::ConnectRefused,
        Self::ConnectTimeout,
        Self::NoLocalPort,
        Self::JobPanic,
        Self::DatagramLoss,
        Self::ChannelKill,
        Self::StreamKill,
    ];

    /// The probability of a fault in [`Faults::all`]: high enough that the fault occurs at least
    /// once in a few short runs, and low enough that most clients are served.
    const fn default_probability(self) -> Probability {
        match self {
            Self::ReorderedEvents | Self::ImmediateConnect => Probability::one_in(2),
            Self::ShortRead | Self::ShortWrite | Self::Fragment => Probability::one_in(8),
            Self::RepeatedReadiness | Self::SpuriousReadiness => Probability::one_in(16),
            Self::InterruptedWait
            | Self::Delay
            | Self::ConnectRefused
            | Self::ConnectTimeout
            | Self::NoLocalPort
            | Self::SlowJob
            | Self::JobPanic
            | Self::DatagramLoss
            | Self::DatagramDuplicate
            | Self::DatagramDelay
            | Self::ChannelKill => Probability::one_in(32),
            Self::Abort | Self::Exhausted | Self::SlowStep | Self::AbandonedTurn => {
                Probability::one_in(64)
            }
            Self::WallClockStep | Self::ClockJump => Probability::one_in(128),
            Self::Reset | Self::Pause => Probability::one_in(512),
            Self::Kill | Self::StreamKill => Probability::one_in(2048),
        }
    }
}

/// The probability of each [`Fault`], each time that it can occur.
///
/// ```
/// use evcore_sim::{Fault, Faults, Probability};
///
/// // A slow and lossy network, and workers that are never harmed.
/// let faults = Faults::none()
///     .with(Fault::Delay, Probability::one_in(4))
///     .with(Fault::Reset, Probability::one_in(100));
/// assert!(faults.probability(Fault::Kill).is_never());
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Faults {
    /// The probabilities, indexed by `Fault as usize`.
    probabilities: [Probability; Fault::ALL.len()],
}

impl Faults {
    /// No faults, which is the default.
    pub const fn none() -> Self {
        Self {
            probabilities: [Probability::NEVER; Fault::ALL.len()],
        }
    }

    /// All faults, each with a probability that suits short runs.
    pub fn all() -> Self {
        let add = |faults: Self, fault: Fault| faults.with(fault, fault.default_probability());
        Fault::ALL.into_iter().fold(Self::none(), add)
    }

    /// All faults that a correct server hides from its clients: the faults of [`all`](Self::all)
    /// without [`Reset`](Fault::Reset), [`Abort`](Fault::Abort), [`Kill`](Fault::Kill),
    /// [`ClockJump`](Fault::ClockJump), [`ConnectRefused`](Fault::ConnectRefused),
    /// [`ConnectTimeout`](Fault::ConnectTimeout), [`NoLocalPort`](Fault::NoLocalPort),
    /// [`JobPanic`](Fault::JobPanic), [`DatagramLoss`](Fault::DatagramLoss),
    /// [`ChannelKill`](Fault::ChannelKill) and [`StreamKill`](Fault::StreamKill).
    ///
    /// So every client must complete. If a client does not, the server has lost it, because no
    /// fault has ended its connection. The server's own timeouts must be longer than the sum of the
    /// delays. A minute is long enough for most tests.
    ///
    /// ```
    /// use evcore_sim::{Fault, Faults};
    ///
    /// assert!(Faults::lossless().probability(Fault::Reset).is_never());
    /// assert!(!Faults::lossless().probability(Fault::ShortRead).is_never());
    /// ```
    pub fn lossless() -> Self {
        Fault::LOSSY.into_iter().fold(Self::all(), Self::without)
    }

    /// The same faults, with another probability of one of them.
    pub const fn with(mut self, fault: Fault, probability: Probability) -> Self {
        self.probabilities[fault as usize] = probability;
        self
    }

    /// The same faults without one of them.
    pub const fn without(self, fault: Fault) -> Self {
        self.with(fault, Probability::NEVER)
    }

    /// The probability of a fault.
    #[must_use]
    pub const fn probability(&self, fault: Fault) -> Probability {
        self.probabilities[fault as usize]
    }
}

impl Default for Faults {
    fn default() -> Self {
        Self::none()
    }
}

/// Shows only the faults that can occur.
impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_possible = |fault: &Fault| !self.probability(*fault).is_never();
        let entries = Fault::ALL.into_iter().filter(is_possible);
        f.debug_map()
            .entries(entries.map(|fault| (fault, self.probability(fault))))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_lists_every_fault_at_its_index() {
        for (index, fault) in Fault::ALL.into_iter().enumerate() {
            assert_eq!(fault as usize, index, "{fault:?}");
            assert!(!Faults::all().probability(fault).is_never());
            assert!(Faults::none().probability(fault).is_never());
            let without = Faults::all().without(fault);
            assert_eq!(without.probability(fault), Probability::NEVER);
        }
    }

    #[test]
    fn lossless_lacks_the_lossy_faults_and_no_other() {
        for fault in Fault::ALL {
            let is_lossy = Fault::LOSSY.contains(&fault);
            assert_eq!(Faults::lossless().probability(fault).is_never(), is_lossy);
        }
    }
}
