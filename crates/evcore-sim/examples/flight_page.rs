//! Reads an error log of `httpd` from standard input, and draws its flight records (the last
//! actions of the event loop).
//!
//!     httpd --watchdog 20 --flight-recorder 1000 2> error.log
//!     cargo run -p evcore-sim --example flight_page < error.log > page.html

use std::io::{self, Read, Write};

use evcore_sim::Timeline;

fn main() -> io::Result<()> {
    let mut log = String::new();
    io::stdin().read_to_string(&mut log)?;
    let timeline = Timeline::of_flight_log(&log).ok_or_else(|| {
        io::Error::other("no flight records: start httpd with --flight-recorder and --watchdog")
    })?;
    io::stdout().write_all(timeline.to_html().as_bytes())
}
