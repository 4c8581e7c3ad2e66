//! Two connected streams under faults: they show only states that a kernel has.

use std::io::ErrorKind;
use std::time::Duration;

use evcore_sim::{Fault, Faults, Probability, Sim, SimConfig, SimStream};

const US: Duration = Duration::from_micros(1);

fn sim(seed: u64) -> Sim {
    let sim = Sim::new(seed);
    sim.set_config(SimConfig {
        latency: 100 * US..=100 * US,
        ..SimConfig::default()
    });
    sim
}

fn always(fault: Fault) -> Faults {
    Faults::none().with(fault, Probability::ALWAYS)
}

/// Reads for a while. Returns each result except `WouldBlock`.
fn results(sim: &Sim, stream: &SimStream) -> Vec<Result<Vec<u8>, ErrorKind>> {
    let mut results = Vec::new();
    for _ in 0..10 {
        let mut buffer = [0; 64];
        match stream.recv(&mut buffer) {
            Ok(count) => results.push(Ok(buffer[..count].to_vec())),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => results.push(Err(error.kind())),
        }
        sim.run_for(50 * US);
    }
    results
}

#[test]
fn nothing_arrives_after_a_reset() {
    for ends in [false, true] {
        let sim = sim(8);
        let (near, far) = sim.process().tcp_pair();
        far.send(b"from far").expect("it is open");
        sim.run_for(10 * US);
        sim.set_faults(always(Fault::Reset));
        near.send(b"hello").expect("it is open");
        sim.set_faults(Faults::none());
        sim.run_for(50 * US);
        // The reset arrives at `near` after the bytes from `far`, so `near` can still send.
        near.send(b"world").expect("no reset has arrived");
        if ends {
            near.shutdown_write().expect("no reset has arrived");
        }
        let results = results(&sim, &far);
        let begin = [Ok(b"hello".to_vec()), Err(ErrorKind::ConnectionReset)];
        assert_eq!(results[..2], begin);
        assert!(results[2..].iter().all(|result| *result == Ok(Vec::new())));
    }
}

#[test]
fn faults_of_the_network_do_not_meet_unix_sockets() {
    for fault in [Fault::Reset, Fault::Delay, Fault::ShortRead] {
        let sim = sim(7);
        sim.set_faults(always(fault));
        let (near, far) = sim.process().unix_pair();
        for _ in 0..100 {
            near.send(&[7; 10]).expect("it is open");
            sim.run_for(Duration::ZERO);
            let received = far.recv(&mut [0; 64]).map_err(|error| error.kind());
            assert_eq!(received, Ok(10), "{fault:?}");
        }
        assert_eq!(sim.fault_count(fault), 0);
    }
}

#[test]
fn bytes_that_a_short_read_puts_off_stay_delivered() {
    let sim = sim(7);
    sim.set_faults(always(Fault::ShortRead));
    let (near, far) = sim.process().tcp_pair();
    for _ in 0..100 {
        near.send(&[7; 10]).expect("it is open");
        sim.run_for(100 * US);
        assert!(near.is_delivered().expect("it is open"));
        let mut left = 10;
        while left > 0 {
            left -= far.recv(&mut [0; 64]).unwrap_or(0);
            assert!(near.is_delivered().expect("it is open"));
            sim.run_for(Duration::from_millis(10));
        }
    }
    assert!(sim.fault_count(Fault::ShortRead) > 0);
}

/// The kernel has acknowledged the bytes that a short read puts off, so a close resets the
/// connection at once.
#[test]
fn a_close_with_bytes_that_a_short_read_puts_off_is_a_reset() {
    let sim = sim(7);
    sim.set_faults(always(Fault::ShortRead));
    let (near, far) = sim.process().tcp_pair();
    near.send(&[7; 10]).expect("it is open");
    sim.run_for(100 * US);
    assert!(far.recv(&mut [0; 64]).expect("bytes have arrived") < 10);
    drop(far);
    sim.run_for(100 * US);
    let end = near.recv(&mut [0; 64]).map_err(|error| error.kind());
    assert_eq!(end, Err(ErrorKind::ConnectionReset));
}
