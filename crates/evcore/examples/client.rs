//! Sends HTTP requests at fixed times, and prints how long the responses take:
//!
//!     cargo run --release --example client -- --to 127.0.0.1:80 --connections 64 \
//!         --rate 9000 --seconds 5
//!
//! Without `--rate` each connection sends its next request when it has a response. More options:
//! `--path P`, `--close` (each connection sends only one request), `--timeout S` (for connecting
//! and for a response; by default 5). A failure counts as an error, and the next request connects
//! again.
#[path = "client/load.rs"]
mod load;

use load::Load;
use std::{env, error::Error, time::Duration};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = env::args().collect();
    let value = |name: &str| args.iter().skip_while(|arg| *arg != name).nth(1);
    let number = |name| value(name).map(|text| text.parse::<f64>()).transpose();
    let to = value("--to").ok_or("--to ADDRESS")?.parse()?;
    let path = value("--path").map_or("/", String::as_str);
    let connections = value("--connections").ok_or("--connections NUMBER")?;
    let rate = number("--rate")?.unwrap_or(f64::INFINITY);
    let seconds = number("--seconds")?.ok_or("--seconds SECONDS")?;
    let mut load = Load::new(to, path, connections.parse()?)?;
    load.timeout = Duration::try_from_secs_f64(number("--timeout")?.unwrap_or(5.0))?;
    load.closes = args.iter().any(|arg| arg == "--close");
    load.connect()?;
    let time = load.run(rate, Duration::try_from_secs_f64(seconds)?)?;

    let requests = load.latencies.len();
    println!("requests {requests}");
    println!("errors   {}", load.errors.values().sum::<usize>());
    println!("rate     {:.1} /s", requests as f64 / time.as_secs_f64());
    for (name, share) in [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)] {
        let ns = load.latencies.value_at_quantile(share);
        println!("{name:8} {:.1} µs", ns as f64 / 1e3);
    }
    for (error, count) in &load.errors {
        eprintln!("{count} x {error}");
    }
    Ok(())
}
