//! A program with a loop runs under valgrind.

use std::net::TcpStream;
use std::time::Duration;

use evcore::{EventLoop, Interest, Listener, Mode, Step, Timer};
use evcore_testing::under_valgrind;

#[test]
fn a_loop_accepts_and_expires_under_valgrind() {
    under_valgrind(|| {
        let listener = Listener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().tcp().unwrap();
        let mut ev = EventLoop::builder().listener(listener).build().unwrap();
        let _client = TcpStream::connect(address).unwrap();
        let (mut accepted, mut expired) = (None, false);
        while !expired {
            ev.wait().unwrap();
            while let Some(step) = ev.next_step() {
                match step {
                    Step::Accepted(client) => {
                        let stream = client.stream;
                        let token = ev.add(&stream, Interest::READ, Mode::Level).unwrap();
                        ev.arm(token, Timer::READ, Duration::from_millis(1));
                        accepted = Some(stream);
                    }
                    Step::Expired(..) => expired = true,
                    other => panic!("{other:?}"),
                }
            }
        }
        assert!(accepted.is_some());
    });
}
