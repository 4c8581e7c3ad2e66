//! The example `udp`: the bytes of its DNS answers, and malformed datagrams.

use std::{
    net::{SocketAddr, UdpSocket},
    process::Command,
};

use evcore_tests::{PATIENCE, Server, Strace, example, not_run, strace_works};

/// The header of a question: id 0x1234, recursion desired, one question.
const HEADER: [u8; 12] = [0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
const NAME: &[u8] = b"\x07example\x03org\0";
const A: [u8; 4] = [0, 1, 0, 1];
/// A record: the name, type A, class IN, 60 seconds, 192.0.2.1.
const RECORD: [u8; 16] = [0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 1];

const FORMERR: u8 = 1;
const NOTIMP: u8 = 4;
const REFUSED: u8 = 5;

fn start(address: &str) -> Server {
    let mut command = Command::new(example("evcore", "udp"));
    command.args([address, "192.0.2.1"]);
    Server::from_command(command, 1)
}

fn connect(server: SocketAddr) -> UdpSocket {
    let any = if server.is_ipv4() {
        "127.0.0.1:0"
    } else {
        "[::1]:0"
    };
    let socket = UdpSocket::bind(any).expect("a free port");
    socket.connect(server).expect("an address");
    socket.set_read_timeout(Some(PATIENCE)).expect("a time");
    socket
}

fn question(name: &[u8], kind: [u8; 4]) -> Vec<u8> {
    [&HEADER, name, &kind].concat()
}

/// The answer to a question for an address: the question with other flags, and a record.
fn answer(id: [u8; 2], name: &[u8]) -> Vec<u8> {
    let header = [id[0], id[1], 0x85, 0, 0, 1, 0, 1, 0, 0, 0, 0];
    [&header, name, &A, &RECORD].concat()
}

fn receive(client: &UdpSocket) -> Vec<u8> {
    let mut buffer = [0; 2048];
    let length = client.recv(&mut buffer).expect("an answer");
    buffer[..length].to_vec()
}

fn ask(client: &UdpSocket, question: &[u8]) -> Vec<u8> {
    client.send(question).expect("a datagram");
    receive(client)
}

/// Asserts that the next datagram after a good question is its answer.
fn assert_answered(client: &UdpSocket) {
    let answered = ask(client, &question(NAME, A));
    assert_eq!(answered, answer([0x12, 0x34], NAME));
}

/// A header with this code, the question's id, and the bit of desired recursion.
fn refusal(code: u8) -> Vec<u8> {
    vec![0x12, 0x34, 0x81, code, 0, 0, 0, 0, 0, 0, 0, 0]
}

#[test]
fn a_question_for_an_address_is_answered_with_a_record() {
    let server = start("127.0.0.1:0");
    let client = connect(server.address());
    assert_answered(&client);
    // The questions have the type ANY, the class ANY, the root's name, a name of 255 bytes, and
    // upper case, which is kept.
    for kind in [[0, 255, 0, 1], [0, 1, 0, 255]] {
        let answered = ask(&client, &question(NAME, kind));
        let header = &answer([0x12, 0x34], NAME)[..12];
        assert_eq!(answered, [header, NAME, &kind, &RECORD].concat());
    }
    let long = [
        [&[61][..], &[b'x'; 61]].concat().repeat(4),
        b"\x05hello\0".to_vec(),
    ]
    .concat();
    assert_eq!(long.len(), 255);
    for name in [b"\0", &long[..], b"\x03WwW\0"] {
        assert_eq!(ask(&client, &question(name, A)), answer([0x12, 0x34], name));
    }
}

#[test]
fn additional_records_are_ignored() {
    let server = start("127.0.0.1:0");
    let client = connect(server.address());
    let mut question = question(NAME, A);
    question[11] = 1;
    question.extend([0, 0, 41, 16, 0, 0, 0, 0, 0, 0, 0]); // EDNS
    assert_eq!(ask(&client, &question), answer([0x12, 0x34], NAME));
}

#[test]
fn a_question_for_something_else_gets_no_record() {
    let server = start("127.0.0.1:0");
    let client = connect(server.address());
    let question = question(NAME, [0, 28, 0, 1]);
    let mut expected = question.clone();
    expected[2] = 0x85;
    assert_eq!(ask(&client, &question), expected);
}

#[test]
fn a_malformed_question_gets_formerr() {
    let server = start("127.0.0.1:0");
    let client = connect(server.address());
    let good = question(NAME, A);
    let too_long_name = [b"\x3f".as_slice(), &[b'x'; 63]].concat().repeat(4);
    let with = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        bytes
    };
    let malformed = [
        good[..12].to_vec(),                                // no question
        good[..20].to_vec(),                                // an end in a label
        good[..good.len() - 5].to_vec(),                    // a name without an end
        good[..good.len() - 1].to_vec(),                    // half a class
        with(5, 0),                                         // a count of 0 questions
        with(5, 2),                                         // a count of 2
        with(4, 1),                                         // a count of 257
        with(12, 64),                                       // a label of 64 bytes
        with(12, 0xc0),                                     // a pointer
        question(&[&too_long_name[..], b"\0"].concat(), A), // a name of 257 bytes
        [&good[..], &[0; 513]].concat(),                    // a datagram of more than 512 bytes
        [&good[..], &[0; 9000]].concat(),
    ];
    for bytes in malformed {
        assert_eq!(ask(&client, &bytes), refusal(FORMERR), "{bytes:?}");
        assert_answered(&client);
    }
    // The longest datagram is accepted.
    let longest = [&good[..], &[0; 512][good.len()..]].concat();
    assert_eq!(ask(&client, &longest), answer([0x12, 0x34], NAME));
}

#[test]
fn other_opcodes_and_classes_are_refused_by_their_codes() {
    let server = start("127.0.0.1:0");
    let client = connect(server.address());
    assert_eq!(
        ask(&client, &question(NAME, [0, 1, 0, 3])),
        refusal(REFUSED)
    );
    let mut status = question(NAME, A);
    status[2] |= 2 << 3;
    let mut expected = refusal(NOTIMP);
    expected[2] |= 2 << 3;
    assert_eq!(ask(&client, &status), expected);
}

#[test]
fn a_short_message_or_a_response_gets_no_answer() {
    let server = start("127.0.0.1:0");
    let client = connect(server.address());
    let response = answer([0x12, 0x34], NAME);
    for bytes in [&[][..], &[0], &HEADER[..11], &response] {
        client.send(bytes).expect("a datagram");
        assert_answered(&client);
    }
}

#[test]
fn many_clients_get_their_own_answers() {
    let server = start("127.0.0.1:0");
    let clients: Vec<_> = (0..100).map(|_| connect(server.address())).collect();
    for (id, client) in (0..).zip(&clients) {
        let mut question = question(NAME, A);
        question[..2].copy_from_slice(&[id, !id]);
        client.send(&question).expect("a datagram");
    }
    for (id, client) in (0..).zip(&clients) {
        assert_eq!(receive(client), answer([id, !id], NAME));
    }
}

#[test]
fn a_client_that_has_closed_its_socket_hinders_no_other() {
    let server = start("127.0.0.1:0");
    let other = connect(server.address());
    for _ in 0..20 {
        let client = connect(server.address());
        client.send(&question(NAME, A)).expect("a datagram");
        drop(client); // its answer is refused, by ICMP
        assert_answered(&other);
    }
}

#[test]
fn a_client_of_ipv6_is_answered() {
    if UdpSocket::bind("[::1]:0").is_err() {
        not_run("this machine has no IPv6");
        return;
    }
    let server = start("[::1]:0");
    assert_answered(&connect(server.address()));
}

/// Two sends of the server fail. The first finds no room, and its answer is sent later. The second
/// fails only for its client, whose answer is lost.
#[test]
fn an_answer_without_room_is_sent_later_and_a_failed_one_is_lost() {
    if !strace_works() {
        not_run("strace is not installed, or may not trace");
        return;
    }
    let server = start("127.0.0.1:0");
    let client = connect(server.address());
    assert_answered(&client);
    let inject = ["-e", "inject=sendto:error=EAGAIN:when=1"];
    let strace = Strace::attach(server.pid(), &inject);
    assert_answered(&client);
    drop(strace);
    let inject = ["-e", "inject=sendto:error=EPERM:when=1"];
    let _strace = Strace::attach(server.pid(), &inject);
    client.send(&question(b"\0", A)).expect("a datagram"); // its answer is lost
    assert_answered(&client);
}
