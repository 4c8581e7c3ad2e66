//! Each connection has one owner, whatever the two sides do, and whenever they do it.

use std::{
    hint,
    os::unix::net::UnixStream,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use evcore_handover::{Answer, Connection, Mailbox, Receiver, Sender};
use proptest::prelude::*;

use crate::{VERSION, channel, connections, exclusive, is_at_end, numbers, send};

/// The two sides decide at the same time, at moments that differ from round to round.
#[test]
fn taking_back_and_accepting_at_once_leaves_one_owner() {
    const BATCHES: usize = Sender::UNACKNOWLEDGED_BATCHES_MAX;
    let _exclusive = exclusive();
    let (mut taken_back, mut accepted) = (0, 0);
    for round in 0..3_000 {
        let (mut sender, mut receiver) = channel();
        let _clients: Vec<_> = (0..BATCHES).map(|n| send(&mut sender, n..n + 1)).collect();
        let accepts = &AtomicBool::new(false);
        let (mut back, mine) = thread::scope(|scope| {
            let accepting = scope.spawn(move || {
                let mut mine = Vec::new();
                while let Ok(Some(batch)) = receiver.receive() {
                    accepts.store(true, Ordering::Relaxed);
                    mine.extend(batch.accept().map(|all| numbers(&all)).unwrap_or_default());
                }
                mine
            });
            while !accepts.load(Ordering::Relaxed) {
                hint::spin_loop();
            }
            (0..round % 300 * 5).for_each(|_| hint::spin_loop());
            (numbers(&sender.take_back()), accepting.join().unwrap())
        });
        taken_back += back.len();
        accepted += mine.len();
        back.extend(mine);
        back.sort_unstable();
        assert_eq!(back, (0..BATCHES).collect::<Vec<_>>());
    }
    println!("{taken_back} connections were taken back, and {accepted} accepted");
}

#[derive(Clone, Debug)]
enum Call {
    Send(usize),
    Accept,
    Refuse,
    Answer,
    DropSender,
    DropReceiver,
    TakeBack,
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let call = prop_oneof![
        4 => (1_usize..4).prop_map(Call::Send),
        3 => Just(Call::Accept),
        2 => Just(Call::Refuse),
        3 => Just(Call::Answer),
        1 => Just(Call::DropSender),
        1 => Just(Call::DropReceiver),
        1 => Just(Call::TakeBack),
    ];
    prop::collection::vec(call, 1..40)
}

/// The connections that are not in the channel.
#[derive(Default)]
struct Ends {
    next: usize,
    clients: Vec<UnixStream>,
    /// The connections that came back, or were never sent.
    at_sender: Vec<Connection>,
    at_receiver: Vec<Connection>,
}

impl Ends {
    fn run(&mut self, calls: Vec<Call>) {
        let (address, mut mailbox) = Mailbox::pair(VERSION).unwrap();
        let mut sender = Some(Sender::open(&address, VERSION).unwrap());
        let mut receiver = mailbox.next_receiver().unwrap();
        for call in calls {
            match (call, &mut sender, &mut receiver) {
                (Call::Send(count), Some(sender), _) => {
                    let (mut new, clients) = connections(self.next..self.next + count);
                    self.next += count;
                    self.clients.extend(clients);
                    let _ = sender.send(&mut new);
                    self.at_sender.extend(new);
                }
                (Call::Accept, _, Some(receiver)) => {
                    if let Ok(Some(batch)) = receiver.receive() {
                        self.at_receiver.extend(batch.accept().unwrap_or_default());
                    }
                }
                (Call::Refuse, sender, Some(receiver)) => {
                    if let Ok(Some(batch)) = receiver.receive() {
                        // Without a sender a refusal would close the connections, so the batch
                        // is accepted.
                        match sender {
                            Some(_) => batch.refuse(),
                            None => {
                                self.at_receiver.extend(batch.accept().unwrap_or_default());
                            }
                        }
                    }
                }
                (Call::Answer, Some(sender), _) => {
                    if let Ok(Some(Answer::Refused { connections, .. })) = sender.next_answer() {
                        self.at_sender.extend(connections);
                    }
                }
                (Call::TakeBack, ..) => {
                    let back = sender.take().map(Sender::take_back);
                    self.at_sender.extend(back.unwrap_or_default());
                }
                // Refused connections on their way back would be lost with the sender, so the
                // sender reads its answers first. The receiver accepts all the others.
                (Call::DropSender, slot, Some(receiver)) => {
                    if let Some(sender) = slot {
                        while let Ok(Some(answer)) = sender.next_answer() {
                            if let Answer::Refused { connections, .. } = answer {
                                self.at_sender.extend(connections);
                            }
                        }
                    }
                    *slot = None;
                    while let Ok(Some(batch)) = receiver.receive() {
                        self.at_receiver.extend(batch.accept().unwrap_or_default());
                    }
                }
                (Call::DropReceiver, Some(_), slot) => *slot = None,
                _ => {}
            }
        }
        // Empties the channel.
        self.at_sender
            .extend(sender.map(Sender::take_back).unwrap_or_default());
        while let Some(Ok(Some(batch))) = receiver.as_mut().map(Receiver::receive) {
            self.at_receiver.extend(batch.accept().unwrap_or_default());
        }
    }
}

proptest! {
    #[test]
    fn each_connection_has_one_owner_after_any_calls(calls in calls()) {
        let _exclusive = exclusive();
        let mut ends = Ends::default();
        ends.run(calls);
        let mut all = numbers(&ends.at_sender);
        all.extend(numbers(&ends.at_receiver));
        all.sort_unstable();
        prop_assert_eq!(all, (0..ends.next).collect::<Vec<_>>());
        // Each connection is still open, and only at one of the ends.
        prop_assert!(!ends.clients.iter_mut().any(is_at_end));
        ends.at_sender.clear();
        ends.at_receiver.clear();
        prop_assert!(ends.clients.iter_mut().all(is_at_end));
    }
}
