//! Sends messages that carry descriptors, and closes an open file when no process and no message
//! has a descriptor of it any more.

use std::io;

use super::State;
use crate::{
    faults::Fault,
    kernel_poller::ANY_CHANGE,
    net::{Carried, ChannelId, MESSAGES_MAX, Message},
    trace::{Event, Subject},
};

pub(crate) enum Unsent {
    Full,
    Gone,
}

impl State {
    pub(crate) fn channel_pair(&mut self, process: u32) -> io::Result<[(Carried, i32); 2]> {
        self.check_free_descriptors(process, 2)?;
        let pair = self.net.channels.pair().map(Carried::Channel);
        let descriptors = &mut self.processes[process as usize].descriptors;
        Ok(pair.map(|object| (object, descriptors.insert(object.into()))))
    }

    pub(crate) fn counter(&mut self, process: u32) -> io::Result<(Carried, i32)> {
        self.check_free_descriptors(process, 1)?;
        let object = Carried::Counter(self.net.channels.counter());
        let descriptors = &mut self.processes[process as usize].descriptors;
        Ok((object, descriptors.insert(object.into())))
    }

    /// Gives a process another descriptor of an object, as a fork does.
    pub(crate) fn inherit(&mut self, object: Carried, process: u32) -> i32 {
        self.refer(object);
        let descriptors = &mut self.processes[process as usize].descriptors;
        descriptors.insert(object.into())
    }

    pub(crate) fn send_message(
        &mut self,
        process: u32,
        from: ChannelId,
        bytes: &[u8],
        objects: Vec<Carried>,
    ) -> Result<(), Unsent> {
        let to = self.net.channels.end(from.other());
        if to.references == 0 || to.refuses_messages || to.is_ended {
            return Err(Unsent::Gone);
        }
        if to.messages.len() >= MESSAGES_MAX {
            return Err(Unsent::Full);
        }
        self.note(Event::SentMessage {
            process,
            from,
            objects: objects.len(),
        });
        objects.iter().for_each(|object| self.refer(*object));
        let bytes = bytes.to_vec();
        let to = self.net.channels.end_mut(from.other());
        to.messages.push_back(Message { bytes, objects });
        self.wake_channel(from.other());
        Ok(())
    }

    pub(crate) fn take_message(&mut self, process: u32, at: ChannelId) -> Option<Message> {
        let message = self.net.channels.end_mut(at).messages.pop_front()?;
        let objects = message.objects.len();
        self.note(Event::ReceivedMessage {
            process,
            at,
            objects,
        });
        Some(message)
    }

    /// Gives the objects of a message to a process, as far as it has free descriptors. Returns the
    /// objects that it got, with their descriptors.
    pub(crate) fn install(&mut self, process: u32, objects: Vec<Carried>) -> Vec<(Carried, i32)> {
        let mut installed = Vec::new();
        for object in objects {
            if self.check_free_descriptors(process, 1).is_err() {
                self.release(object);
                continue;
            }
            let fd = match object {
                Carried::Endpoint(id) => self.hold(id, process),
                _ => {
                    let descriptors = &mut self.processes[process as usize].descriptors;
                    descriptors.insert(object.into())
                }
            };
            installed.push((object, fd));
        }
        installed
    }

    fn refer(&mut self, object: Carried) {
        match object {
            Carried::Endpoint(id) => self.net.endpoint_mut(id).duplicates += 1,
            Carried::Channel(id) => self.net.channels.end_mut(id).references += 1,
            Carried::Counter(_) => {}
        }
    }

    /// Drops a reference to an object. Dropping the last one closes a connection or an end of a
    /// channel.
    pub(crate) fn release(&mut self, object: Carried) {
        match object {
            Carried::Endpoint(id) => {
                let endpoint = self.net.endpoint_mut(id);
                match endpoint.duplicates.checked_sub(1) {
                    Some(left) => endpoint.duplicates = left,
                    None => self.close(id),
                }
            }
            Carried::Channel(id) => {
                let end = self.net.channels.end_mut(id);
                end.references -= 1;
                if end.references == 0 {
                    let unread = std::mem::take(&mut end.messages);
                    let objects = unread.into_iter().flat_map(|message| message.objects);
                    objects.for_each(|object| self.release(object));
                    self.wake_channel(id.other());
                }
            }
            Carried::Counter(_) => {}
        }
    }

    /// Makes an end of a channel refuse further messages. With `both`, also shuts down both
    /// directions of the channel.
    pub(crate) fn shut_down_channel(&mut self, id: ChannelId, both: bool) {
        self.net.channels.end_mut(id).refuses_messages = true;
        if both {
            for end in [id, id.other()] {
                self.net.channels.end_mut(end).is_ended = true;
                self.wake_channel(end);
            }
        }
    }

    fn wake_channel(&mut self, id: ChannelId) {
        for watch in self.net.channels.end(id).watches.clone() {
            self.mark_ready(watch, ANY_CHANGE);
            self.wake_sleeper(watch.poller);
        }
    }

    /// Kills a worker of `Workers` if the fault occurs. Returns whether the process is dead now.
    pub(crate) fn may_die(&mut self, process: u32, fault: Fault) -> bool {
        if self.is_alive(process)
            && self.processes[process as usize].driven_by_workers
            && self.draw_fault(fault, Subject::Process(process))
        {
            self.kill(process);
        }
        !self.is_alive(process)
    }
}
