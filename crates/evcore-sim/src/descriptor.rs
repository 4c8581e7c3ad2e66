//! A descriptor of a simulated process, which can move to another process.

use evcore::poller::{Source, Target};
use evcore_handover::{Cut, Descriptor, Error, Packet, Received, Result, Unsent};

use crate::{
    faults::Fault,
    fd_table,
    net::{Carried, ChannelId},
    sim::Sim,
    state,
};

/// A descriptor of a simulated process. It refers to a [stream](crate::SimStream), an end of a
/// channel over which streams move between processes ([`evcore_handover`]), or such a channel's
/// counter.
///
/// Dropping the value closes the descriptor. The open file exists as long as another process or a
/// message that is under way has a descriptor of it.
///
/// A worker under [`Workers`](crate::Workers) may be killed before a call on a channel, and after a
/// send or a receive ([`Fault::ChannelKill`](crate::Fault::ChannelKill)).
///
/// ```
/// use evcore_handover::{Connection, Mailbox, Sender};
/// use evcore_sim::{Sim, SimDescriptor, SimStream};
///
/// let sim = Sim::new(7);
/// let (parent, old, new) = (sim.process(), sim.process(), sim.process());
/// let (to_new, of_new) = parent.channel_pair();
/// let mut mailbox = Mailbox::from_fd(new.inherit(&of_new), 1);
///
/// let (near, far) = old.unix_pair();
/// let mut sender = Sender::open_to(&old.inherit(&to_new), 1)?;
/// let descriptor = SimDescriptor::from(near);
/// sender.send(&mut vec![Connection { descriptor, partner: None, state: b"hel".to_vec() }])?;
///
/// let mut receiver = mailbox.next_receiver()?.expect("a sender");
/// let batch = receiver.receive()?.expect("a batch");
/// for connection in batch.accept().expect("the sender lives") {
///     SimStream::from(connection.descriptor).send(b"hello")?;
/// }
/// assert_eq!(far.recv(&mut [0; 8])?, 5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SimDescriptor {
    pub(crate) sim: Sim,
    pub(crate) process: u32,
    pub(crate) fd: i32,
    pub(crate) object: Carried,
}

impl SimDescriptor {
    pub(crate) fn new(sim: Sim, process: u32, (object, fd): (Carried, i32)) -> Self {
        Self {
            sim,
            process,
            fd,
            object,
        }
    }

    /// The channel, or `None` if its process is dead or a fault kills the process now.
    fn living_channel(&self) -> Option<ChannelId> {
        let Carried::Channel(id) = self.object else {
            panic!("a call on a channel needs a channel: {:?}", self.object);
        };
        (!self.sim.state().may_die(self.process, Fault::ChannelKill)).then_some(id)
    }
}

impl Descriptor for SimDescriptor {
    type Borrowed<'a> = &'a Self;

    fn borrow(&self) -> &Self {
        self
    }

    fn pair(mailbox: &Self) -> Result<(Self, Self)> {
        let pair = mailbox.sim.state().channel_pair(mailbox.process);
        let [one, two] = pair.map_err(|source| Error::Os {
            doing: "making a simulated socket pair",
            source,
        })?;
        let descriptor = |held| Self::new(mailbox.sim.clone(), mailbox.process, held);
        Ok((descriptor(one), descriptor(two)))
    }

    fn counter(mailbox: &Self) -> Result<Self> {
        let counter = mailbox.sim.state().counter(mailbox.process);
        let counter = counter.map_err(|source| Error::Os {
            doing: "making a simulated counter",
            source,
        })?;
        Ok(Self::new(mailbox.sim.clone(), mailbox.process, counter))
    }

    fn count_up(counter: &Self) {
        let mut state = counter.sim.state();
        if let (Carried::Counter(id), true) = (counter.object, state.is_alive(counter.process)) {
            state.net.channels.count_up(id);
        }
    }

    fn has_counted(counter: &Self) -> bool {
        match counter.object {
            Carried::Counter(id) => counter.sim.state().net.channels.has_counted(id),
            _ => false,
        }
    }

    fn send(socket: &Self, message: &[u8], descriptors: &[&Self]) -> Result<(), Unsent> {
        let Some(id) = socket.living_channel() else {
            return Err(Unsent::Gone);
        };
        let objects = descriptors.iter().map(|one| one.object).collect();
        let mut state = socket.sim.state();
        let sent = state.send_message(socket.process, id, message, objects);
        state.may_die(socket.process, Fault::ChannelKill);
        sent.map_err(|unsent| match unsent {
            state::Unsent::Full => Unsent::Full,
            state::Unsent::Gone => Unsent::Gone,
        })
    }

    fn receive(socket: &Self, buffer: &mut [u8]) -> Result<Received<Packet<Self>>> {
        let Some(id) = socket.living_channel() else {
            return Ok(Received::End);
        };
        let mut state = socket.sim.state();
        let Some(message) = state.take_message(socket.process, id) else {
            return Ok(match state.net.channels.is_hung_up(id) {
                true => Received::End,
                false => Received::Nothing,
            });
        };
        let (length, count) = (message.bytes.len(), message.objects.len());
        let copied = length.min(buffer.len());
        buffer[..copied].copy_from_slice(&message.bytes[..copied]);
        let installed = state.install(socket.process, message.objects);
        let cut = if installed.len() < count {
            Some(Cut::Descriptors)
        } else {
            (copied < length).then_some(Cut::Bytes)
        };
        state.may_die(socket.process, Fault::ChannelKill);
        drop(state);
        let descriptor = |held| Self::new(socket.sim.clone(), socket.process, held);
        Ok(Received::Message(Packet {
            length: copied,
            descriptors: installed.into_iter().map(descriptor).collect(),
            cut,
        }))
    }

    fn is_hung_up(socket: &Self) -> bool {
        let channel = socket.living_channel();
        channel.is_none_or(|id| socket.sim.state().net.channels.is_hung_up(id))
    }

    fn stop_receiving(socket: &Self) {
        if let Some(id) = socket.living_channel() {
            socket.sim.state().shut_down_channel(id, false);
        }
    }

    fn end(socket: &Self) {
        if let Some(id) = socket.living_channel() {
            socket.sim.state().shut_down_channel(id, true);
        }
    }
}

impl Source for SimDescriptor {
    fn target(&self) -> Target<'_> {
        fd_table::target(self.fd)
    }
}

impl Drop for SimDescriptor {
    fn drop(&mut self) {
        // The descriptors of a dead process and of a reset stream are closed already.
        if let Some(mut state) = self.sim.try_state() {
            if state.is_alive(self.process) {
                state.close_descriptor(self.process, self.fd);
            }
        }
    }
}
