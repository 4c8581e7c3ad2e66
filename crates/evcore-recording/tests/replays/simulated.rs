//! Recordings that are made in the simulator, under all faults.

use std::time::Duration;

use evcore::{
    Builder,
    clock::{Clock, TimeSource, WallTime},
};
use evcore_recording::Recorder;
use evcore_sim::{Faults, Script, Sim};

use crate::{
    echo::{Bug, Log, serve},
    sockets::replay,
};

/// Simulated time, which may jump.
struct SimTime(Clock);

impl TimeSource for SimTime {
    fn monotonic_ns(&self) -> u64 {
        self.0.monotonic_ns_now()
    }

    fn wall_time(&self) -> WallTime {
        let ns = self.monotonic_ns();
        WallTime {
            unix_seconds: (ns / 1_000_000_000) as i64,
            subsecond_ns: (ns % 1_000_000_000) as u32,
        }
    }
}

fn record(seed: u64) -> (Log, Vec<u8>) {
    let sim = Sim::new(seed);
    // No fault kills this process, because `Workers` did not start it.
    sim.set_faults(Faults::all());
    sim.set_time_limit(Duration::from_secs(300));
    let address = ([10, 0, 0, 1], 7).into();
    for mut choices in sim.clients(1..=20) {
        let bytes = vec![b"abcdefgh"[choices.index(8)]; 1 + choices.index(500)];
        let script = Script::new().pause_between(Duration::ZERO..=Duration::from_secs(90));
        let script = script.send_slowly(
            bytes.clone(),
            1 + choices.index(99),
            Duration::from_millis(20),
        );
        sim.client(address, script.recv(bytes.len()));
    }
    let process = sim.process();
    let recorder = Recorder::in_memory(1 << 20);
    let mut ev = Builder::default()
        .clock(recorder.clock(SimTime(process.clock())))
        .backend(recorder.backend(Box::new(process.backend())))
        .listener(recorder.listener(process.listen(address)))
        .build()
        .expect("a loop");
    let mut log = Log::default();
    let end = serve(&mut ev, &mut log, Bug::None, |_| false);
    assert!(end.is_err_and(|error| error.to_string().contains("time limit")));
    drop(ev);
    assert!(!recorder.is_full());
    (log, recorder.to_bytes())
}

#[test]
fn a_replay_of_a_faulty_simulation_is_identical() {
    let mut requests = 0;
    for seed in 0..60 {
        let (recorded, bytes) = record(seed);
        let (replayed, replay) = replay(&bytes, Bug::None, |_| false);
        assert_eq!(replay.difference(), None, "seed {seed}");
        assert!(replay.is_at_end(), "seed {seed}");
        assert_eq!(replayed, recorded, "seed {seed}");
        requests += recorded.requests;
    }
    assert!(requests > 10_000, "only {requests} requests");
}
