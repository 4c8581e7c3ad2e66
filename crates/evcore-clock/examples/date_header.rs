//! A `Date` header that follows the second: the loop updates its clock once per turn (iteration),
//! and a response copies a string that is made once per second.

use std::{
    io::{self, Read, Write},
    net::{TcpListener, TcpStream},
    thread,
    time::Duration,
};

use evcore_clock::{Clock, ManualTimeSource};

/// Answers a number of clients, one connection after another.
fn serve(listener: &TcpListener, mut clock: Clock, clients: usize) -> io::Result<()> {
    for _ in 0..clients {
        let (mut client, _) = listener.accept()?; // stands for the wait of an event loop
        clock.update(); // once per turn, after the wait
        let mut response = b"HTTP/1.1 204 No Content\r\nDate: ".to_vec();
        response.extend_from_slice(clock.http_date().as_bytes());
        response.extend_from_slice(b"\r\nConnection: close\r\n\r\n");
        client.write_all(&response)?;
    }
    Ok(())
}

/// Connects three times, half a second apart, and returns the `Date` headers.
fn fetch(listener: &TcpListener, time: &ManualTimeSource) -> io::Result<Vec<String>> {
    let mut dates = Vec::new();
    for _ in 0..3 {
        let mut response = String::new();
        TcpStream::connect(listener.local_addr()?)?.read_to_string(&mut response)?;
        dates.extend(response.lines().nth(1).map(str::to_owned));
        time.advance(Duration::from_millis(500));
    }
    Ok(dates)
}

fn main() -> io::Result<()> {
    // A server uses `Clock::system()`. This time is moved by hand, so the example can check itself.
    let time = ManualTimeSource::at(1_774_746_000);
    let clock = Clock::with_source(time.clone());
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let dates = thread::scope(|scope| {
        let server = scope.spawn(|| serve(&listener, clock, 3));
        let dates = fetch(&listener, &time)?;
        server.join().expect("the server does not panic")?;
        io::Result::Ok(dates)
    })?;
    let first = "Date: Sun, 29 Mar 2026 01:00:00 GMT";
    let next = "Date: Sun, 29 Mar 2026 01:00:01 GMT";
    println!("{}", dates.join("\n"));
    assert_eq!(dates, [first, first, next]);
    Ok(())
}

#[test]
fn the_date_header_follows_the_second() {
    main().unwrap();
}
