//! The example `rooms`, whose clients stay connected while the server is replaced.

use std::{io::Write, net::TcpStream, process::Command, thread};

use evcore_tests::{Server, eventually, example, signal_to};
use rustix::process::Signal;
use tungstenite::{
    Message, WebSocket, client,
    protocol::frame::{
        Frame,
        coding::{Data, OpCode},
    },
};

use super::{LENGTH, connect};

const ROOMS: usize = 4;

/// Number of clients of each room.
const CLIENTS: usize = 10;

type Socket = WebSocket<TcpStream>;

fn start() -> Server {
    let mut command = Command::new(example("evcore-serve", "rooms"));
    command.arg("127.0.0.1:0");
    let server = Server::from_command(command, 1);
    wait_for(&server, " serves", 1);
    server
}

fn wait_for(server: &Server, text: &str, times: usize) {
    eventually(text, || server.log().matches(text).count() >= times);
}

fn enter(server: &Server, room: usize) -> Socket {
    let url = format!("ws://{}/room-{room}", server.address());
    client(url, connect(server.address()))
        .expect("a handshake")
        .0
}

fn rooms(server: &Server) -> Vec<Vec<Socket>> {
    let room = |number| (0..CLIENTS).map(|_| enter(server, number)).collect();
    (0..ROOMS).map(room).collect()
}

fn read(socket: &mut Socket) -> String {
    match socket.read().expect("it stays open") {
        Message::Text(text) => text.to_string(),
        other => panic!("{other:?}"),
    }
}

/// A client of each room sends a text, and exactly the other clients of the room get it. If a text
/// went to a wrong room, the clients there would get two.
fn talk(rooms: &mut [Vec<Socket>], time: usize) {
    let text = |number: usize| format!("{time} in room {number}");
    let speaker = time % CLIENTS;
    for (number, room) in rooms.iter_mut().enumerate() {
        room[speaker]
            .send(Message::text(text(number)))
            .expect("it is open");
    }
    for (number, room) in rooms.iter_mut().enumerate() {
        for (_, socket) in room.iter_mut().enumerate().filter(|(at, _)| *at != speaker) {
            assert_eq!(read(socket), text(number));
        }
    }
}

fn reload(server: &Server) {
    let old = server.worker_pids();
    server.signal(Signal::HUP);
    eventually("the old worker has ended", || {
        server
            .worker_pids()
            .iter()
            .all(|worker| !old.contains(worker))
    });
}

/// The frame of a client's text, in two parts.
fn frame_in_two(text: &str) -> [Vec<u8>; 2] {
    let mut frame = Frame::message(text.to_owned(), OpCode::Data(Data::Text), true);
    frame.header_mut().mask = Some([1, 2, 3, 4]);
    let mut first = Vec::new();
    frame.format(&mut first).expect("a vector takes it");
    let rest = first.split_off(first.len() / 2);
    [first, rest]
}

#[test]
fn rooms_forwards_a_text_with_a_ping_between_its_parts_and_long_texts_without_a_pause() {
    let server = start();
    let [mut speaker, mut listener] = [(); 2].map(|()| enter(&server, 0));
    let parts = [
        Frame::message("one, ", OpCode::Data(Data::Text), false),
        Frame::ping("between"),
        Frame::message("two", OpCode::Data(Data::Continue), true),
    ];
    for part in parts {
        speaker.send(Message::Frame(part)).expect("it is open");
    }
    assert_eq!(read(&mut listener), "one, two");
    // If the server receives several of these texts at once, the end of the last one may be
    // missing.
    let text = "x".repeat(5000);
    thread::scope(|threads| {
        threads.spawn(|| {
            for _ in 0..100 {
                let text = Message::text(text.clone());
                speaker.write(text).expect("it is open");
            }
            speaker.flush().expect("it is open");
        });
        for _ in 0..100 {
            assert_eq!(read(&mut listener), text);
        }
    });
}

/// Expects that each client of the room gets the texts of the other clients: one from client 0, and
/// one from client 1. The texts come in any order, because a client may move before the old worker
/// has read its text.
fn expect_both(room: &mut [Socket]) {
    for (at, socket) in room.iter_mut().enumerate() {
        let texts = [(0, "in two parts"), (1, "early")].into_iter();
        let mut expected: Vec<_> = texts.filter(|(from, _)| *from != at).collect();
        while !expected.is_empty() {
            let text = read(socket);
            let found = expected.iter().position(|(_, one)| *one == text);
            expected.remove(found.unwrap_or_else(|| panic!("{text}")));
        }
    }
}

#[test]
fn rooms_keeps_all_clients_and_rooms_through_reloads_and_an_upgrade() {
    let mut server = start();
    let mut rooms = rooms(&server);
    let mut new = None;
    for time in 0..10 {
        talk(&mut rooms, time);
        // Client 1 sends a text, and client 0 half of a text. The clients read after they have
        // moved.
        let [first, rest] = frame_in_two("in two parts");
        rooms[0][1]
            .send(Message::text("early"))
            .expect("it is open");
        rooms[0][0].get_mut().write_all(&first).expect("it is open");
        if time == 5 {
            new = Some(server.start_binary());
            wait_for(&server, " serves", 1 + time + 1);
            break;
        }
        reload(&server);
        rooms[0][0].get_mut().write_all(&rest).expect("it is open");
        expect_both(&mut rooms[0]);
    }
    server.signal(Signal::QUIT);
    assert!(server.wait().success());
    let [_, rest] = frame_in_two("in two parts");
    rooms[0][0].get_mut().write_all(&rest).expect("it is open");
    expect_both(&mut rooms[0]);
    talk(&mut rooms, 6);
    signal_to(new.expect("the loop ends there"), Signal::TERM);
    assert!(rooms[0][0].read().is_err());
    assert!(!server.log().contains("do not move"), "{}", server.log());
}

#[test]
fn rooms_forwards_the_last_text_of_a_client_that_closes_at_once() {
    let server = start();
    let mut listener = enter(&server, 0);
    for time in 0..100 {
        let mut speaker = enter(&server, 0);
        let text = format!("text {time}");
        speaker
            .write(Message::text(text.clone()))
            .expect("a buffer takes it");
        // This sends the text and the close frame in one segment.
        speaker.close(None).expect("it is open");
        assert_eq!(read(&mut listener), text);
    }
}

#[test]
fn rooms_closes_a_client_that_does_not_read_and_no_other() {
    let server = start();
    let mut deaf = enter(&server, 0);
    let [mut speaker, mut listener] = [(); 2].map(|()| enter(&server, 0));
    // More bytes than the kernel keeps for a client that does not read.
    let (text, times) = ("x".repeat(7000), LENGTH / 7000 + 1000);
    for _ in 0..times {
        speaker
            .send(Message::text(text.clone()))
            .expect("it is open");
        assert_eq!(read(&mut listener), text);
    }
    let got = (0..).take_while(|_| deaf.read().is_ok()).count();
    assert!(
        got < times,
        "the client that did not read got {got} of {times} texts"
    );
}
