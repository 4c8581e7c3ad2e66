//! Kills of senders and receivers, and the clients that each side has afterwards.

use std::{
    hint,
    io::{BufRead, BufReader, Write},
    net::TcpStream,
    os::fd::{AsFd, OwnedFd},
    time::Duration,
};

use evcore_handover::Mailbox;
use evcore_testing::{NamedTest, named_tests};

use crate::child::Process;

pub(crate) const ALL: &[NamedTest] = named_tests! {
    all_clients_move_to_another_process
    a_receiver_killed_at_any_step_loses_only_the_accepted
    a_receiver_killed_at_random_loses_only_what_it_had_accepted
    a_sender_killed_at_any_step_loses_only_the_unsent
    a_sender_killed_at_random_loses_only_what_it_had_not_sent
    a_sender_that_died_before_its_mailbox_was_read_loses_only_the_unsent
    when_both_are_killed_every_client_sees_the_end
};

/// Connections in a batch: so few that the sender has to wait for answers.
const SIZE: usize = 5;

const CLIENTS: usize = 120;

const BATCHES: usize = CLIENTS / SIZE;

const ROUNDS: usize = 60;

struct Stage {
    address: OwnedFd,
    mailbox: OwnedFd,
    sender: Process,
    clients: Vec<TcpStream>,
}

impl Stage {
    fn new(death: &[&str]) -> Self {
        Self::with_clients(CLIENTS, SIZE, death)
    }

    fn with_clients(count: usize, size: usize, death: &[&str]) -> Self {
        let (address, mailbox) = Mailbox::pair(1).unwrap();
        let mailbox = mailbox.as_fd().try_clone_to_owned().unwrap();
        let (count, size) = (count.to_string(), size.to_string());
        let words: Vec<&str> = [&*count, &*size]
            .into_iter()
            .chain(death.iter().copied())
            .collect();
        let mut sender = Process::start("sender", &words, address.as_fd());
        let port = u16::try_from(sender.expect("port")[0]).unwrap();
        let connect = |_| TcpStream::connect(("127.0.0.1", port)).unwrap();
        let clients = (0..count.parse().unwrap()).map(connect).collect();
        Self {
            address,
            mailbox,
            sender,
            clients,
        }
    }

    fn receiver(&self, death: &[&str]) -> Process {
        Process::start("receiver", death, self.mailbox.as_fd())
    }

    /// Sends a question from each client. Returns the role that answers, or `None` if the
    /// connection has ended.
    fn ask(&mut self) -> Vec<Option<String>> {
        for (number, client) in self.clients.iter_mut().enumerate() {
            client
                .set_read_timeout(Some(Duration::from_secs(60)))
                .unwrap();
            // Fails if a dead server has reset the connection.
            let _ = client.write_all(format!("question-{number}\n").as_bytes());
        }
        let answers = self.clients.iter().enumerate().map(|(number, client)| {
            let mut line = String::new();
            let length = BufReader::new(client).read_line(&mut line);
            // A server that is killed before it reads the question resets the connection.
            if length.as_ref().is_ok_and(|length| *length > 0) {
                let words: Vec<&str> = line.split_whitespace().collect();
                let question = format!("question-{number}");
                assert_eq!(words[1..], [number.to_string(), question]);
                Some(words[0].to_owned())
            } else {
                let kind = length.map_err(|error| error.kind());
                assert!(
                    !matches!(kind, Err(std::io::ErrorKind::WouldBlock)),
                    "no answer to {number}"
                );
                None
            }
        });
        answers.collect()
    }
}

fn served_by(answers: &[Option<String>], role: Option<&str>) -> Vec<usize> {
    let numbered = answers.iter().enumerate();
    let of_role = numbered.filter(|(_, answer)| answer.as_deref() == role);
    of_role.map(|(number, _)| number).collect()
}

fn sorted(mut numbers: Vec<usize>) -> Vec<usize> {
    numbers.sort_unstable();
    numbers
}

/// Spins for a pseudo-random number of iterations. Short times are as frequent as long ones.
fn random_moment(seed: &mut u64) {
    // This is an LCG of Knuth's.
    *seed = seed
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    let (scale, part) = ((*seed >> 59) % 18, (*seed >> 33) & 0xff_ffff);
    for _ in 0..part % (1 << scale) {
        hint::spin_loop();
    }
}

fn all_clients_move_to_another_process() {
    let mut stage = Stage::with_clients(1_000, 300, &[]);
    let mut receiver = stage.receiver(&[]);
    assert!(stage.sender.expect("kept").is_empty());
    stage.sender.kill();
    receiver.expect("serves");
    let answers = stage.ask();
    assert_eq!(served_by(&answers, Some("receiver")).len(), 1_000);
}

/// Compares the clients that are served and lost after the receiver's death with the reports of
/// both sides.
fn check_after_death_of_receiver(stage: &mut Stage, receiver: &mut Process) {
    receiver.end();
    let back = stage.sender.expect("back");
    let kept = stage.sender.expect("kept");
    let acknowledged: usize = CLIENTS - kept.len();
    let answers = stage.ask();
    assert_eq!(
        served_by(&answers, Some("sender")),
        sorted(kept.clone()),
        "{:#?}",
        receiver.seen
    );
    let lost = served_by(&answers, None);
    assert_eq!(lost.len(), acknowledged);
    // The receiver had accepted each lost client, or died before it could report that.
    let (accepting, accepted) = (receiver.all("accepting"), receiver.all("accepted"));
    assert!(
        lost.iter().all(|number| accepting.contains(number)),
        "{:#?}",
        receiver.seen
    );
    assert!(
        accepted.iter().all(|number| lost.contains(number)),
        "{:#?}",
        receiver.seen
    );
    assert!(back.len() <= kept.len());
}

fn a_receiver_killed_at_any_step_loses_only_the_accepted() {
    for step in ["claimed", "received", "registered", "accepted", "reported"] {
        for count in ["1", "2", "20"] {
            if step == "claimed" && count != "1" {
                continue;
            }
            let mut stage = Stage::new(&[]);
            let mut receiver = stage.receiver(&[step, count]);
            check_after_death_of_receiver(&mut stage, &mut receiver);
            let taken = match step {
                "claimed" => 0,
                "received" | "registered" => count.parse::<usize>().unwrap() - 1,
                _ => count.parse().unwrap(),
            };
            assert_eq!(
                stage.sender.all("kept").len(),
                CLIENTS - taken * SIZE,
                "{step} {count}"
            );
        }
    }
}

fn a_receiver_killed_at_random_loses_only_what_it_had_accepted() {
    let mut seed = 1;
    for round in 0..ROUNDS {
        let mut stage = Stage::new(&[]);
        let mut receiver = stage.receiver(&[]);
        receiver.expect("claimed");
        (0..round % BATCHES).for_each(|_| drop(receiver.expect("accepted")));
        random_moment(&mut seed);
        receiver.kill();
        check_after_death_of_receiver(&mut stage, &mut receiver);
    }
}

/// Checks the clients after the sender's death. The receiver serves all that were sent.
fn check_after_death_of_sender(stage: &mut Stage, receiver: &mut Process) {
    stage.sender.end();
    let serves = receiver.expect("serves");
    assert!(receiver.all("lost").is_empty());
    let answers = stage.ask();
    assert_eq!(
        served_by(&answers, Some("receiver")),
        sorted(serves.clone())
    );
    assert_eq!(served_by(&answers, Some("sender")), [0; 0]);
    let sent = stage.sender.all("sent");
    assert!(
        sent.iter().all(|number| serves.contains(number)),
        "{:#?}",
        stage.sender.seen
    );
    // One more batch may have been sent without a report.
    assert!(serves.len() <= sent.len() + SIZE);
}

fn a_sender_killed_at_any_step_loses_only_the_unsent() {
    for step in ["opened", "sent", "acknowledged"] {
        for count in ["1", "16", "20"] {
            if step == "opened" && count != "1" {
                continue;
            }
            let mut stage = Stage::new(&[step, count]);
            let mut receiver = stage.receiver(&[]);
            check_after_death_of_sender(&mut stage, &mut receiver);
        }
    }
}

fn a_sender_killed_at_random_loses_only_what_it_had_not_sent() {
    let mut seed = 2;
    for round in 0..ROUNDS {
        let mut stage = Stage::new(&[]);
        let mut receiver = stage.receiver(&[]);
        stage.sender.expect("opened");
        (0..round % BATCHES).for_each(|_| drop(stage.sender.expect("sent")));
        random_moment(&mut seed);
        stage.sender.kill();
        check_after_death_of_sender(&mut stage, &mut receiver);
    }
}

fn a_sender_that_died_before_its_mailbox_was_read_loses_only_the_unsent() {
    let mut stage = Stage::new(&["sent", "16"]);
    stage.sender.end();
    let mut receiver = stage.receiver(&[]);
    check_after_death_of_sender(&mut stage, &mut receiver);
    assert_eq!(receiver.all("serves").len(), 16 * SIZE);
}

fn when_both_are_killed_every_client_sees_the_end() {
    let mut stage = Stage::new(&["acknowledged", "2"]);
    let mut receiver = stage.receiver(&["registered", "4"]);
    receiver.end();
    stage.sender.kill();
    let answers = stage.ask();
    assert_eq!(
        served_by(&answers, None).len(),
        CLIENTS,
        "a copy is left somewhere"
    );
    // The mailbox is empty, and still works.
    let mut mailbox = Mailbox::from_fd(stage.mailbox.try_clone().unwrap(), 1);
    assert!(mailbox.next_receiver().unwrap().is_none());
    assert!(evcore_handover::Sender::open(&stage.address, 1).is_ok());
}
