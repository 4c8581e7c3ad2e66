//! What can go wrong, and how often it is to.
//!
//! Each fault is something that a real machine, network or kernel does and that a server has to
//! bear. None of them breaks a promise that the real thing keeps: after a short read the socket
//! really was empty, and an edge follows when the rest arrives.

use std::fmt;

use crate::Chance;

/// Something that goes wrong now and then.
///
/// ```
/// use evcore_sim::{Fault, Faults, World};
///
/// let world = World::new(7);
/// world.set_faults(Faults::all());
/// // ... and after a run:
/// for fault in Fault::ALL {
///     println!("{fault:?}: {}", world.count(fault));
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// A wait reports readiness that does not hold.
    SpuriousReadiness,
    /// A wait reports again what was reported before and still holds, though nothing has changed
    /// since (`Edge`).
    RepeatedReadiness,
    /// The events of a wait come in another order than that in which they arose.
    ReorderedEvents,
    /// A signal ends a wait (EINTR), if it is one that may sleep.
    InterruptedWait,
    /// The monotonic clock jumps ahead, by up to ten seconds: the machine was suspended.
    ClockJump,
    /// The wall clock is set, by up to a day in either direction.
    WallStep,
    /// A read brings a part of what came, and the rest comes a little later.
    ShortRead,
    /// A write takes a part of what there is room for, and takes more a little later.
    ShortWrite,
    /// What was sent at once arrives in two pieces.
    Fragment,
    /// A piece of data comes up to three seconds late, and what is behind it waits for it.
    Delay,
    /// The network resets a connection, for both ends, behind what was sent so far.
    Reset,
    /// A client has gone before it was accepted, and accepting says so.
    Abort,
    /// The system has no descriptor left for whom it would accept (ENFILE), though the process has.
    Exhausted,
    /// A step takes up to 200 ms longer than it should. (Under [`Workers`](crate::Workers).)
    SlowStep,
    /// A worker is stopped between two steps, for up to two seconds, with all that it holds. (Under
    /// [`Workers`](crate::Workers).)
    Stop,
    /// A worker is killed between two steps; its successor comes once the parent has noticed.
    /// (Under [`Workers`](crate::Workers).)
    Kill,
    /// A worker leaves its turn with steps still to come, or with none, and waits again. (Under
    /// [`Workers`](crate::Workers).)
    TurnLeft,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 17] = [
        Self::SpuriousReadiness,
        Self::RepeatedReadiness,
        Self::ReorderedEvents,
        Self::InterruptedWait,
        Self::ClockJump,
        Self::WallStep,
        Self::ShortRead,
        Self::ShortWrite,
        Self::Fragment,
        Self::Delay,
        Self::Reset,
        Self::Abort,
        Self::Exhausted,
        Self::SlowStep,
        Self::Stop,
        Self::Kill,
        Self::TurnLeft,
    ];

    /// Often enough to be met in a short run, and rarely enough to get some work done.
    const fn usual(self) -> Chance {
        match self {
            Self::ReorderedEvents => Chance::one_in(2),
            Self::ShortRead | Self::ShortWrite | Self::Fragment => Chance::one_in(8),
            Self::RepeatedReadiness | Self::SpuriousReadiness => Chance::one_in(16),
            Self::InterruptedWait | Self::Delay => Chance::one_in(32),
            Self::Abort | Self::Exhausted | Self::SlowStep | Self::TurnLeft => Chance::one_in(64),
            Self::WallStep | Self::ClockJump => Chance::one_in(128),
            Self::Reset | Self::Stop => Chance::one_in(512),
            Self::Kill => Chance::one_in(2048),
        }
    }
}

/// How likely each [`Fault`] is, each time that it could happen.
///
/// ```
/// use evcore_sim::{Chance, Fault, Faults};
///
/// // A slow and lossy network, and workers that are never harmed.
/// let faults = Faults::none()
///     .with(Fault::Delay, Chance::one_in(4))
///     .with(Fault::Reset, Chance::one_in(100));
/// assert!(faults.chance(Fault::Kill).is_never());
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Faults {
    /// By the fault's place in its enum.
    chances: [Chance; Fault::ALL.len()],
}

impl Faults {
    /// All goes well. The default.
    pub const fn none() -> Self {
        Self {
            chances: [Chance::NEVER; Fault::ALL.len()],
        }
    }

    /// All goes wrong, each fault now and then.
    pub fn all() -> Self {
        let usual = |faults: Self, fault: Fault| faults.with(fault, fault.usual());
        Fault::ALL.into_iter().fold(Self::none(), usual)
    }

    /// The same, but for one fault.
    pub const fn with(mut self, fault: Fault, chance: Chance) -> Self {
        self.chances[fault as usize] = chance;
        self
    }

    /// The same, without one fault.
    pub const fn without(self, fault: Fault) -> Self {
        self.with(fault, Chance::NEVER)
    }

    /// How likely a fault is.
    #[must_use]
    pub const fn chance(&self, fault: Fault) -> Chance {
        self.chances[fault as usize]
    }
}

impl Default for Faults {
    fn default() -> Self {
        Self::none()
    }
}

/// Those that can happen.
impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let possible = |fault: &Fault| !self.chance(*fault).is_never();
        let entries = Fault::ALL.into_iter().filter(possible);
        f.debug_map()
            .entries(entries.map(|fault| (fault, self.chance(fault))))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_stands_at_its_place() {
        for (place, fault) in Fault::ALL.into_iter().enumerate() {
            assert_eq!(fault as usize, place, "{fault:?}");
            assert!(!Faults::all().chance(fault).is_never());
            assert!(Faults::none().chance(fault).is_never());
            assert_eq!(Faults::all().without(fault).chance(fault), Chance::NEVER);
        }
    }
}
