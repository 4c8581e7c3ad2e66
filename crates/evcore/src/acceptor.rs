//! The trait of the listeners that a loop accepts from, real or simulated.

use std::fmt;

use evcore_net::{Accept, Error, Listener, Stream};
use evcore_poller::Source;

/// Accepts clients: a [`Listener`], or a simulator's own type.
///
/// An [`EventLoop`](crate::EventLoop) is generic over it, so a server runs in a simulator with the
/// same loop as on sockets.
///
/// ```
/// use evcore::{Builder, Acceptor, Step, net::{self, Accept}, poller::{Source, Target}};
/// use std::cell::Cell;
///
/// /// One client.
/// #[derive(Debug)]
/// struct Simulated(Cell<Option<Client>>);
///
/// #[derive(Clone, Copy, Debug)]
/// struct Client;
///
/// // Numbers that only the simulator's backend understands.
/// impl Source for Simulated {
///     fn target(&self) -> Target<'_> { Target::Simulated(0) }
/// }
/// impl Source for Client {
///     fn target(&self) -> Target<'_> { Target::Simulated(1) }
/// }
///
/// impl Acceptor for Simulated {
///     type Stream = Client;
///
///     fn accept(&self) -> Result<Accept<Client>, net::Error> {
///         let peer = ([127, 0, 0, 1], 1).into();
///         Ok(self.0.take().map_or(Accept::WouldBlock, |client| Accept::Connection(client, peer)))
///     }
/// }
///
/// # #[derive(Debug)]
/// # struct Eager(Option<u64>, evcore::poller::WakeChannel);
/// # use evcore::poller::{Source as _, *};
/// # impl Backend for Eager {
/// #     fn name(&self) -> &'static str { "eager" }
/// #     fn capabilities(&self) -> Capabilities {
/// #         let mut capabilities = Capabilities::default();
/// #         capabilities.simulated = true;
/// #         capabilities
/// #     }
/// #     fn add(&mut self, new: &Registration) -> Result<()> { self.0 = Some(new.key); Ok(()) }
/// #     fn modify(&mut self, _: &Registration) -> Result<()> { Ok(()) }
/// #     fn remove(&mut self, _: &Registration) -> Result<()> { self.0 = None; Ok(()) }
/// #     fn remove_before_close(&mut self, _: &Registration) {}
/// #     fn wait(&mut self, mut events: EventSink<'_>, _: Option<std::time::Duration>) -> Result<()> {
/// #         self.0.map(|key| events.push(key, Ready::READABLE));
/// #         Ok(())
/// #     }
/// #     fn waker(&self) -> Waker { self.1.waker() }
/// # }
/// # let simulator = Eager(None, WakeChannel::new()?);
/// let listener = Simulated(Cell::new(Some(Client)));
/// let mut ev = Builder::default().listener(listener).backend(simulator).build()?;
/// ev.wait()?;
/// assert!(matches!(ev.next_step(), Some(Step::Accepted(_))));
/// # Ok::<(), evcore::Error>(())
/// ```
pub trait Acceptor: Source + fmt::Debug {
    /// A client's connection, which the loop can watch.
    type Stream: Source;

    /// Accepts one connection, if one is waiting; never blocks.
    ///
    /// # Errors
    ///
    /// The errors of [`Listener::accept`]: the listener itself is broken.
    fn accept(&self) -> Result<Accept<Self::Stream>, Error>;
}

impl Acceptor for Listener {
    type Stream = Stream;

    #[inline]
    fn accept(&self) -> Result<Accept, Error> {
        Self::accept(self)
    }
}
