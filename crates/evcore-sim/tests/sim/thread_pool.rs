//! Thread pools in simulated time.

use std::{
    cell::RefCell,
    collections::BTreeSet,
    panic::resume_unwind,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};

use evcore::{EventLoop, Step, Token, pool::Pool};
use evcore_sim::{
    App, Fault, Faults, Probability, Process, Sim, SimConfig, SimListener, SimStream, Workers,
};

const MS: Duration = Duration::from_millis(1);

struct Fixture {
    sim: Sim,
    ev: EventLoop<SimListener>,
    pool: Pool<Token, u32>,
    token: Token,
}

impl Fixture {
    fn new(seed: u64, threads: usize, limit: usize) -> Self {
        let sim = Sim::new(seed);
        let process = sim.process();
        let mut ev = process.builder().build().expect("a loop");
        let pool = process.thread_pool(ev.handle(), threads, limit);
        let token = ev.add_unwatched().expect("there is room");
        Self {
            sim,
            ev,
            pool,
            token,
        }
    }

    fn set_job_time(&self, time: Duration) {
        self.sim.set_config(SimConfig {
            job_time: time..=time,
            ..SimConfig::default()
        });
    }

    fn submit(&mut self, numbers: std::ops::Range<u32>) {
        for number in numbers {
            let submitted = self.pool.submit(self.token, move || number);
            assert!(submitted.is_ok(), "the pool is full");
        }
    }

    /// Runs the loop until no job is left. Returns the results, and `None` for a panic.
    fn results(&mut self) -> Vec<Option<u32>> {
        let mut results = Vec::new();
        while !self.pool.is_empty() {
            self.ev.wait().expect("a job ends");
            while let Some(step) = self.ev.next_step() {
                assert!(matches!(step, Step::Woken), "{step:?}");
                while let Some((token, result)) = self.pool.next_result() {
                    assert_eq!(token, self.token);
                    results.push(result.ok());
                }
            }
        }
        results
    }
}

#[test]
fn one_thread_runs_jobs_in_their_order_one_after_another() {
    let mut fixture = Fixture::new(7, 1, 100);
    fixture.set_job_time(10 * MS);
    fixture.submit(0..5);
    assert_eq!(fixture.results(), [0, 1, 2, 3, 4].map(Some));
    assert_eq!(fixture.sim.now().as_millis(), 50);
}

#[test]
fn as_many_jobs_run_at_once_as_there_are_threads() {
    let mut fixture = Fixture::new(7, 4, 100);
    fixture.set_job_time(10 * MS);
    fixture.submit(0..8);
    assert_eq!(fixture.results().len(), 8);
    assert_eq!(fixture.sim.now().as_millis(), 20);
}

#[test]
fn the_seed_decides_the_order_of_results() {
    let order = |seed| {
        let mut fixture = Fixture::new(seed, 3, 100);
        fixture.submit(0..5);
        let results = fixture.results();
        (results, fixture.sim.trace_hash())
    };
    let orders: BTreeSet<_> = (0..20).map(|seed| order(seed).0).collect();
    assert!(orders.len() > 5, "{orders:?}");
    assert!(orders.iter().all(|results| results.len() == 5));
    for seed in 0..5 {
        assert_eq!(order(seed), order(seed));
    }
}

#[test]
fn a_full_pool_hands_the_job_back_until_a_result_is_taken() {
    let mut fixture = Fixture::new(7, 1, 2);
    fixture.submit(0..2);
    let refused = fixture.pool.submit(fixture.token, || 2);
    assert_eq!(refused.expect_err("it is full")(), 2);
    assert_eq!(fixture.results().len(), 2);
    fixture.submit(2..4);
    assert_eq!(fixture.results(), [2, 3].map(Some));
}

#[test]
fn a_job_that_panics_is_reported_and_its_thread_goes_on() {
    let mut fixture = Fixture::new(7, 1, 100);
    fixture.submit(0..1);
    let panics = || -> u32 { resume_unwind(Box::new("planted")) };
    assert!(fixture.pool.submit(fixture.token, panics).is_ok());
    fixture.submit(2..3);
    assert_eq!(fixture.results(), [Some(0), None, Some(2)]);
}

#[test]
fn injected_panics_and_delays_occur_and_every_job_has_a_result() {
    let (mut panics, mut slow) = (0, 0);
    for seed in 0..20 {
        let mut fixture = Fixture::new(seed, 2, 100);
        fixture.sim.set_faults(Faults::all());
        fixture.submit(0..20);
        let results = fixture.results();
        let panicked = results.iter().filter(|result| result.is_none()).count();
        assert_eq!(results.len(), 20);
        assert_eq!(panicked as u64, fixture.sim.fault_count(Fault::JobPanic));
        panics += panicked;
        slow += fixture.sim.fault_count(Fault::SlowJob);
    }
    assert!(panics > 0 && slow > 0, "{panics} panics, {slow} slow jobs");
}

#[test]
fn the_result_of_a_job_outlives_its_token() {
    let mut fixture = Fixture::new(7, 1, 100);
    fixture.submit(0..1);
    assert!(fixture.ev.remove(fixture.token));
    assert_eq!(fixture.results(), [Some(0)]);
}

#[test]
fn a_shutdown_drops_the_jobs_that_have_not_ended() {
    let mut fixture = Fixture::new(7, 2, 100);
    let owned = Arc::new(());
    for _ in 0..5 {
        let kept = Arc::clone(&owned);
        let job = move || u32::try_from(Arc::strong_count(&kept)).unwrap_or(0);
        assert!(fixture.pool.submit(fixture.token, job).is_ok());
    }
    assert!(fixture.pool.shutdown(Duration::from_secs(60)));
    assert!(fixture.pool.is_empty());
    assert!(fixture.pool.submit(fixture.token, || 0).is_err());
    fixture.sim.run_for(Duration::from_secs(1));
    assert_eq!(Arc::strong_count(&owned), 1, "no job is kept");
}

struct Busy {
    ev: EventLoop<SimListener>,
    pool: Pool<Token, ()>,
    token: Token,
    ran: Arc<AtomicU32>,
    results: Rc<RefCell<u32>>,
}

impl Busy {
    fn new(process: &Process, ran: &Arc<AtomicU32>, results: &Rc<RefCell<u32>>) -> Self {
        let mut ev = process.builder().build().expect("a loop");
        let token = ev.add_unwatched().expect("there is room");
        ev.post(token, evcore::Ready::NONE);
        Self {
            pool: process.thread_pool(ev.handle(), 2, 4),
            ev,
            token,
            ran: Arc::clone(ran),
            results: Rc::clone(results),
        }
    }
}

impl App for Busy {
    fn event_loop(&mut self) -> &mut EventLoop<SimListener> {
        &mut self.ev
    }

    fn on_step(&mut self, _step: Step<SimStream>) {
        while self.pool.next_result().is_some() {
            *self.results.borrow_mut() += 1;
        }
        loop {
            let ran = Arc::clone(&self.ran);
            let job = move || _ = ran.fetch_add(1, Relaxed);
            if self.pool.submit(self.token, job).is_err() {
                break;
            }
        }
    }
}

#[test]
fn a_killed_worker_loses_at_most_the_results_of_its_pool() {
    let sim = Sim::new(7);
    sim.set_faults(Faults::none().with(Fault::Kill, Probability::one_in(100)));
    let (ran, results) = (Arc::default(), Rc::default());
    let (jobs, taken) = (Arc::clone(&ran), Rc::clone(&results));
    let start = move |process: &Process, _| Busy::new(process, &jobs, &taken);
    let mut workers = Workers::new(&sim, 2, start);
    workers.run_for(Duration::from_secs(10));
    let kills = u32::try_from(sim.fault_count(Fault::Kill)).expect("there are few kills");
    let (ran, results) = (ran.load(Relaxed), *results.borrow());
    assert!(kills > 5 && ran > 1_000, "{kills} kills, {ran} jobs");
    // A worker that dies loses the results that it has not taken: at most as many as its pool
    // holds.
    assert!(
        results <= ran && ran <= results + 4 * (kills + 2),
        "{ran} and {results}"
    );
}
