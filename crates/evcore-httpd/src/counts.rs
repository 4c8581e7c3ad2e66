//! The counters of a worker, and the pages about all workers.

use std::{
    sync::atomic::{Ordering, fence},
    time::Duration,
};

use evcore::{Transport, balancer::WorkerId, clock::Clock};

use crate::{
    counters::{Counter, Counters},
    history::History,
    metrics::{Metrics, Totals},
    phases::Phase,
    prometheus,
    scoreboard::{Scoreboard, Snapshot, WorkerStats},
    status_json::StatusJson,
};

/// The shortest wait in the backlog that counts as a late accept.
const LATE_ACCEPT: Duration = Duration::from_millis(100);

/// One worker's counters, and a view of all workers' counters.
///
/// The numbers of connections and requests are published whenever they change, the other numbers at
/// most once a turn, which is an iteration of the event loop.
#[derive(Debug)]
pub struct Counts {
    scoreboard: Scoreboard,
    id: WorkerId,
    own: WorkerStats,
    /// Number of connections that this process has accepted. (`own` includes the counts of earlier
    /// processes, which a replay does not have.)
    accepted: u32,
    history: Option<History>,
}

impl Counts {
    /// Continues the counters of earlier workers in the same slot.
    pub fn new(scoreboard: Scoreboard, id: WorkerId) -> Self {
        let own = scoreboard.read(id);
        Self {
            scoreboard,
            id,
            own,
            accepted: 0,
            history: None,
        }
    }

    /// Adds the last two minutes to `/history.json`.
    #[must_use]
    pub fn with_history(mut self, history: History) -> Self {
        self.history = Some(history);
        self
    }

    /// Counts an accepted connection.
    pub fn connection_opened(&mut self) {
        self.own.counters[Counter::Accepted] += 1;
        self.own.counters[Counter::Handled] += 1;
        self.own.active += 1;
        self.own.phases[Phase::Waiting] += 1;
        self.publish_connections();
    }

    /// Measures how long one of sixteen accepted connections has waited in the backlog, by a system
    /// call that only TCP sockets of Linux have.
    pub fn sample_accept(&mut self, stream: &impl Transport) {
        self.accepted = self.accepted.wrapping_add(1);
        if self.accepted % 16 != 1 {
            return;
        }
        if let Ok(waited) = stream.since_last_packet() {
            self.own.counters[Counter::AcceptSamples] += 1;
            self.own.counters[Counter::LateAccepts] += u64::from(waited >= LATE_ACCEPT);
        }
    }

    /// Counts a connection that another worker has handed over.
    pub fn connection_arrived(&mut self) {
        self.own.counters[Counter::Arrived] += 1;
        self.own.active += 1;
        self.own.phases[Phase::Waiting] += 1;
        self.publish_connections();
    }

    /// Counts connections that another worker has taken over. Until this call, they count as
    /// waiting connections of this worker.
    pub fn connections_handed_over(&mut self, count: u64) {
        self.own.counters[Counter::HandedOver] += count;
        self.own.active -= count;
        self.own.phases[Phase::Waiting] -= count;
        self.publish_connections();
    }

    /// Counts a connection that has come back, because no worker has taken it over.
    pub fn connection_taken_back(&mut self) {
        self.own.counters[Counter::TakenBack] += 1;
        self.publish_connections();
    }

    /// Counts an accepted connection that could not be served.
    pub fn connection_refused(&mut self) {
        self.own.counters[Counter::Accepted] += 1;
        self.publish_connections();
    }

    /// Counts the end of a connection in this phase.
    pub fn connection_closed(&mut self, phase: Phase) {
        self.own.active -= 1;
        self.own.phases[phase] -= 1;
        self.publish_connections();
    }

    /// Counts a request.
    #[inline]
    pub fn request(&mut self) {
        self.own.counters[Counter::Requests] += 1;
        let requests = self.own.counter(Counter::Requests);
        self.scoreboard.update(self.id, [requests]);
    }

    /// Counts received bytes, which are published at the end of the turn.
    #[inline]
    pub fn received(&mut self, bytes: usize) {
        self.own.counters[Counter::Received] += bytes as u64;
    }

    /// Counts sent bytes, which are published at the end of the turn.
    #[inline]
    pub fn sent(&mut self, bytes: usize) {
        self.own.counters[Counter::Sent] += bytes as u64;
    }

    /// Moves a connection to another phase.
    #[inline]
    pub fn change(&mut self, from: &mut Phase, to: Phase) {
        if *from != to {
            self.own.phases[*from] -= 1;
            self.own.phases[to] += 1;
            *from = to;
            self.publish_connections();
        }
    }

    /// Begins the metrics of this worker, which has this index. Returns the counts of earlier
    /// workers of the slot.
    pub fn begin(&mut self, index: usize, clock: &Clock) -> (Counters, Totals) {
        self.take_over(index);
        self.own.metrics = Metrics::new(clock);
        self.publish();
        (self.own.counters, self.own.totals)
    }

    /// Publishes the values at which the counters of this worker begin. The process id is published
    /// only after these values, so no page lists the worker with the counts of its predecessors.
    fn take_over(&mut self, index: usize) {
        self.own.totals.index = index as u64;
        self.own.at_start = self.own.counters;
        self.publish();
        // The values are published before the process id.
        fence(Ordering::Release);
    }

    /// The metrics of this worker, and the counters and totals of its slot.
    pub fn metrics(&mut self) -> (&mut Metrics, &mut Counters, &mut Totals) {
        let own = &mut self.own;
        (&mut own.metrics, &mut own.counters, &mut own.totals)
    }

    /// Publishes all numbers.
    pub fn publish(&self) {
        self.scoreboard.publish(self.id, &self.own);
    }

    /// Publishes the metrics that change in most turns.
    #[inline]
    pub fn publish_turn(&self) {
        let metrics = self.own.metrics.of_turn();
        let metrics = metrics.map(|(at, number)| (WorkerStats::METRICS + at, number));
        self.scoreboard.update(self.id, metrics);
        self.scoreboard.update(self.id, self.own.counters_of_turn());
    }

    fn publish_connections(&self) {
        let own = &self.own;
        self.scoreboard.update(self.id, own.connections());
        let counters = own.counters_of_connections();
        self.scoreboard.update(self.id, counters);
    }

    /// Returns the page `/status.json`.
    pub fn status_json(&self, clock: &Clock) -> String {
        StatusJson::new(&Snapshot::of(&self.scoreboard, clock)).to_text()
    }

    /// Returns the page `/history.json`: the last two minutes, and the present numbers.
    pub fn history_json(&self, clock: &Clock) -> String {
        let mut text = String::from("[");
        let mut last = None;
        let mut add = |moment: &Snapshot| {
            text.push_str(StatusJson::new(moment).to_text().trim_end());
            text.push(',');
        };
        if let Some(history) = &self.history {
            history.for_each(|moment| {
                last = Some((moment.monotonic_ms, moment.unix_ms));
                add(moment);
            });
        }
        let mut present = Snapshot::of(&self.scoreboard, clock);
        // With a timer resolution, this worker's clock may show a time before the last sample.
        if let Some(last) = last.filter(|(monotonic_ms, _)| *monotonic_ms > present.monotonic_ms) {
            (present.monotonic_ms, present.unix_ms) = last;
        }
        add(&present);
        text.pop();
        text.push_str("]\n");
        text
    }

    /// Returns the page `/metrics`.
    pub fn metrics_text(&self, clock: &Clock) -> String {
        prometheus::page(&self.scoreboard, clock)
    }

    /// Returns the page `/status`: nginx's `stub_status`, summed over all workers.
    pub fn status_text(&self) -> String {
        let all = WorkerStats::sum_of(&self.scoreboard);
        format!(
            "Active connections: {} \n\
             server accepts handled requests\n \
             {} {} {} \n\
             Reading: {} Writing: {} Waiting: {} \n",
            all.active,
            all.counters[Counter::Accepted],
            all.counters[Counter::Handled],
            all.counters[Counter::Requests],
            all.phases[Phase::Reading],
            all.phases[Phase::Writing],
            all.phases[Phase::Waiting]
        )
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::atomic::AtomicBool, thread};

    use evcore::clock::ManualTimeSource;
    use proptest::prelude::*;

    use super::*;
    use crate::history::Sampler;

    fn slot() -> WorkerId {
        WorkerId::from_slot(0)
    }

    fn scoreboard() -> Scoreboard {
        WorkerStats::scoreboard(2).expect("a page")
    }

    /// Three numbers of requests: of all workers, of the workers with index 0, and of the worker
    /// that runs now.
    fn requests(scoreboard: &Scoreboard) -> (u64, u64, Option<u64>) {
        let mut running = WorkerStats::running(scoreboard);
        let own = running
            .next()
            .map(|stats| stats.since_start()[Counter::Requests]);
        assert!(running.next().is_none(), "the other slot had no worker");
        let series = WorkerStats::by_index(scoreboard)[0].counters[Counter::Requests];
        (
            WorkerStats::sum_of(scoreboard).counters[Counter::Requests],
            series,
            own,
        )
    }

    #[test]
    fn the_present_numbers_are_not_older_than_the_last_sample() {
        let time = ManualTimeSource::at(1_764_000_000);
        let [mut clock, late] = [(); 2].map(|()| Clock::with_source(time.clone()));
        let (scoreboard, history) = (scoreboard(), History::new(2).expect("memory"));
        let mut sampler = Sampler::new(history.clone(), scoreboard.clone(), &clock);
        time.advance(Duration::from_secs(2));
        clock.update();
        sampler.sample(&clock);
        let counts = Counts::new(scoreboard, slot()).with_history(history);
        let page = counts.history_json(&late);
        let page: serde_json::Value = serde_json::from_str(&page).expect("JSON");
        let moments = page.as_array().expect("a list");
        for time in ["time_ms", "uptime_ms"] {
            assert_eq!(moments[0][time], moments[1][time]);
        }
    }

    #[derive(Clone, Copy, Debug)]
    enum Event {
        Start,
        /// A start that ends before the process id is published.
        StartInVain,
        Request,
        Death,
    }

    proptest! {
        /// The oracle is two numbers: the requests of all workers, and those of the present one.
        #[test]
        fn sums_grow_and_each_worker_counts_from_its_start(
            events in prop::collection::vec(
                prop_oneof![
                    Just(Event::Start),
                    Just(Event::StartInVain),
                    Just(Event::Request),
                    Just(Event::Death),
                ],
                1..40,
            ),
        ) {
            let scoreboard = scoreboard();
            let (mut worker, mut all, mut own) = (None::<Counts>, 0, None);
            for event in events {
                match (event, &mut worker) {
                    (Event::Start, None) => {
                        let mut counts = Counts::new(scoreboard.clone(), slot());
                        counts.take_over(0);
                        // This page is made between the two steps of a start.
                        prop_assert_eq!(requests(&scoreboard), (all, all, None));
                        counts.begin(0, &Clock::system());
                        (worker, own) = (Some(counts), Some(0));
                    }
                    (Event::StartInVain, None) => {
                        Counts::new(scoreboard.clone(), slot()).take_over(0);
                        scoreboard.release_dead(slot());
                    }
                    (Event::Request, Some(counts)) => {
                        counts.request();
                        all += 1;
                        own = own.map(|own| own + 1);
                    }
                    (Event::Death, Some(_)) => {
                        scoreboard.release_dead(slot());
                        (worker, own) = (None, None);
                    }
                    _ => {}
                }
                prop_assert_eq!(requests(&scoreboard), (all, all, own));
            }
        }
    }

    #[test]
    fn a_page_does_not_mix_workers_of_a_slot() {
        const REQUESTS: u64 = 200;
        const PAGES: u64 = 5_000;
        let scoreboard = scoreboard();
        let reader = scoreboard.clone();
        let is_enough = AtomicBool::new(false);
        let mut pages = 0;
        thread::scope(|threads| {
            let lives = threads.spawn(|| {
                let mut lives = 0;
                while !is_enough.load(Ordering::Relaxed) {
                    lives += 1;
                    let mut counts = Counts::new(scoreboard.clone(), slot());
                    counts.take_over(0);
                    counts.own.metrics.pid = lives;
                    counts.publish();
                    (0..REQUESTS).for_each(|_| counts.request());
                    scoreboard.release_dead(slot());
                }
                lives
            });
            let mut last = (0, 0);
            while pages < PAGES {
                for stats in WorkerStats::running(&reader) {
                    let now = (stats.metrics.pid, stats.since_start()[Counter::Requests]);
                    let is_later = last <= now && now.1 <= REQUESTS;
                    is_enough.store(!is_later, Ordering::Relaxed);
                    assert!(is_later, "{last:?}, then {now:?}");
                    last = now;
                    pages += 1;
                }
            }
            is_enough.store(true, Ordering::Relaxed);
            let lives = lives.join().expect("it counts");
            assert_eq!(
                WorkerStats::sum_of(&reader).counters[Counter::Requests],
                lives * REQUESTS
            );
        });
    }
}
