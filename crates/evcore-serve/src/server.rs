//! A server: the parts that its workers share, and the ways to run them.

use std::sync::Arc;
use std::time::Duration;
use std::{error, fmt, io, mem};

use evcore::balancer::{Policy, WorkerGroup};
use evcore::net::{Address, Error, ListenerOptions};
use evcore::{Builder, Listener};
use evcore_prefork::{Affinity, Outcome, Stop, Supervisor};

use crate::event::{Event, OnEvent};
use crate::keeping;
use crate::listeners::Listeners;
use crate::loops::{Configure, Loops};
use crate::parts::Parts;
use crate::proxy_protocol::ProxyProtocol;
use crate::refusal::{Settings, Workers, refuse};
use crate::service_manager::ServiceManager;
use crate::service_store;
use crate::worker::Worker;

type BoxError = Box<dyn error::Error + Send + Sync>;

/// A server of several workers, which are processes or threads.
///
/// ```no_run
/// use evcore_serve::{Server, Worker};
///
/// fn work(mut worker: Worker) -> evcore::Result<()> {
///     while worker.next_turn()? {
///         while let Some(step) = worker.ev.next_step() {
///             println!("{step:?}");
///         }
///     }
///     Ok(())
/// }
///
/// Server::new(4).bind("127.0.0.1:8080")?.run(work)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[must_use = "it does nothing until it runs"]
pub struct Server {
    workers: usize,
    listeners: Listeners,
    policy: Policy,
    group: Option<WorkerGroup>,
    stop_timeout: Duration,
    hang_timeout: Option<Duration>,
    affinity: Option<Affinity>,
    /// The version of the states of connections.
    handover: Option<u32>,
    rebalance: bool,
    /// The state of a connection that a descriptor store hands on; `None` without stores.
    idle_state: Option<Vec<u8>>,
    proxy_protocol: Option<ProxyProtocol>,
    configure: Configure,
    on_event: OnEvent,
    service_manager: Option<ServiceManager>,
    intervals: Vec<(Duration, Box<dyn FnMut()>)>,
}

impl Server {
    /// Creates a server of this many workers, from 1 to 1,024, without a listener. 0 is for
    /// [`run_here`](Self::run_here) and [`run_parts`](Self::run_parts).
    pub fn new(workers: usize) -> Self {
        Self {
            workers,
            listeners: Listeners::default(),
            policy: Policy::least_loaded(),
            group: None,
            stop_timeout: Duration::from_secs(30),
            hang_timeout: None,
            affinity: None,
            handover: None,
            rebalance: true,
            idle_state: None,
            proxy_protocol: None,
            configure: Arc::new(|builder| builder),
            on_event: Arc::new(|_| {}),
            service_manager: None,
            intervals: Vec::new(),
        }
    }

    /// Listens at an address: `"127.0.0.1:8080"`, `"[::1]:8080"` or `"unix:/run/server.sock"`. A
    /// new binary after USR2 takes over the listener of the old one, so that no client is refused.
    /// So does a new start of the service, if a [service manager](Self::notify_service_manager) has
    /// kept the listener. Port 0 takes over a listener of any port, so bind it last.
    ///
    /// # Errors
    ///
    /// The errors of [`Listener::bind`](evcore::Listener::bind), and of
    /// [`inherited`](evcore_prefork::inherited) and
    /// [`stored_listeners`](evcore_prefork::stored_listeners).
    pub fn bind(self, address: impl TryInto<Address, Error: Into<Error>>) -> io::Result<Self> {
        self.bind_with(&Listener::builder(), address)
    }

    /// Listens as [`bind`](Self::bind) does, with options of the listener. They do not change a
    /// listener that is taken over.
    ///
    /// # Errors
    ///
    /// The errors of [`bind`](Self::bind).
    pub fn bind_with(
        mut self,
        options: &ListenerOptions,
        address: impl TryInto<Address, Error: Into<Error>>,
    ) -> io::Result<Self> {
        self.listeners.bind(address, options)?;
        Ok(self)
    }

    /// Adds an open listener, for example one [passed](evcore_prefork::activated) by a service
    /// manager.
    pub fn listener(mut self, listener: Listener) -> Self {
        self.listeners.open.push(listener);
        self
    }

    /// Adds listeners that are not shared: one set for the worker of each index. Listeners of one
    /// address need [`reuse_port`](ListenerOptions::reuse_port). The master keeps them open when a
    /// worker ends, because clients may wait in their backlogs.
    ///
    /// Set the [policy](Self::policy) to `Off`. With another policy a loaded worker may stop
    /// listening, and no other worker listens in its place.
    ///
    /// After USR2, clients in the backlogs of the old binary's sets are lost, unless the new binary
    /// takes over all listeners of the old one by [`inherited`](evcore_prefork::inherited). The new
    /// binary closes the listeners that it does not take.
    ///
    /// # Panics
    ///
    /// If there are not as many sets as workers.
    pub fn own_listeners(mut self, sets: Vec<Vec<Listener>>) -> Self {
        assert_eq!(
            sets.len(),
            self.workers,
            "one set of listeners for each worker"
        );
        self.listeners.own = sets;
        self
    }

    /// The shared listeners that were added so far, for a line of the log.
    #[must_use]
    pub fn listeners(&self) -> &[Listener] {
        &self.listeners.open
    }

    /// The number of workers that can live at once, old and new ones during reloads. A
    /// [scoreboard](evcore::balancer::Scoreboard) needs this many places. A worker's place is its
    /// [slot](evcore_prefork::Worker::slot).
    #[must_use]
    pub fn slots(&self) -> usize {
        match self.workers {
            0 => 1,
            workers => Supervisor::new(workers).slots(),
        }
    }

    /// Sets the policy by which the workers share the listeners. Default: [`Policy::least_loaded`].
    /// A single worker needs no balancing, and has [`Policy::Off`], unless it joins a
    /// [group](Self::group) of the program's own.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Lets the workers join this group instead of a new one with the [policy](Self::policy). The
    /// group needs a place for each of the [slots](Self::slots). If it has [a
    /// scoreboard](WorkerGroup::with_scoreboard), the gauges of a worker that has died are set to
    /// 0.
    pub fn group(mut self, group: WorkerGroup) -> Self {
        self.group = Some(group);
        self
    }

    /// Sets the time for which a worker waits for its clients in a graceful stop. Default 30
    /// seconds. A supervisor sends a fast stop to a worker that has not ended after twice this
    /// time, and kills a worker process a second later.
    pub fn stop_timeout(mut self, timeout: Duration) -> Self {
        self.stop_timeout = timeout;
        self
    }

    /// Kills a worker process if one iteration of its loop lasts longer than this, because such a
    /// worker hangs. By default, an iteration may last for ever.
    ///
    /// The killed worker is replaced, and its idle connections move to the replacement if there is
    /// a [descriptor store](Self::descriptor_store). A time below 8 ms counts as 8 ms. Running the
    /// server returns an error if there are no processes that a master can kill, as with
    /// [`run_threads`](Self::run_threads) and [`run_here`](Self::run_here).
    pub fn hang_timeout(mut self, timeout: Duration) -> Self {
        self.hang_timeout = Some(timeout.max(Duration::from_millis(8)));
        self
    }

    /// Sets the CPUs that the workers run on. Default: all.
    pub fn affinity(mut self, affinity: Affinity) -> Self {
        self.affinity = Some(affinity);
        self
    }

    /// Lets the connections of a worker move to its successor, at a reload and at an upgrade.
    /// Otherwise, the worker closes its idle connections.
    ///
    /// The program calls [`Worker::next_step`] in place of the loop's
    /// [`next_step`](evcore::EventLoop::next_step), [`Worker::hand_over`] for connections that
    /// leave, and [`Worker::next_arrival`] for connections that arrive. A connection moves with a
    /// state of bytes, which the program makes and understands. `version` is the version of these
    /// bytes. Connections move only to workers of the same version.
    ///
    /// The master needs twelve more descriptors for each worker. Each worker process needs thirteen
    /// more, and another six for each worker of the server. This is for worker processes on Linux.
    /// On other systems [`run`](Self::run) returns an error. Other workers keep their connections.
    pub fn handover(mut self, version: u32) -> Self {
        self.handover = Some(version);
        self
    }

    /// With a [handover](Self::handover), sets whether idle connections move from workers that have
    /// more than the mean to those that have fewer, after the numbers have been uneven for 50 ms.
    /// Default: true.
    ///
    /// At most as many connections move as the program has marked by
    /// [`set_idle`](evcore::EventLoop::set_idle). The policy must be one that [uses the
    /// group](Policy::uses_group). No connection moves twice within a second.
    pub fn rebalance(mut self, rebalances: bool) -> Self {
        self.rebalance = rebalances;
        self
    }

    /// With a [handover](Self::handover), lets the idle connections of a worker that dies move to
    /// the worker's successor, even if SIGKILL has killed the worker. The connections stay open.
    ///
    /// A connection arrives with `idle_state`, because its dead worker cannot make a state any
    /// more. So this state must be enough to serve an idle connection. Call
    /// [`set_idle`](evcore::EventLoop::set_idle) only for a connection that needs no other state;
    /// [`ListenersMut::set_idle_marks`](evcore::ListenersMut::set_idle_marks) documents when to
    /// call it. Connections that are not marked are closed, as they are without a store.
    ///
    /// Each worker has a [store](Supervisor::descriptor_store), a process that waits. A worker that
    /// panics closes its connections while it unwinds, unless panics abort. An [event](Event::Kept)
    /// reports the result of a store.
    ///
    /// This is for the worker processes of [`run`](Self::run), with a handover, on Linux 5.9 or
    /// later. Otherwise `run` returns an error. [`run_parts`](Self::run_parts),
    /// [`run_threads`](Self::run_threads) and [`run_here`](Self::run_here) return an error in any
    /// case. A TLS session in user space cannot be kept.
    ///
    /// ```no_run
    /// # fn work(_: evcore_serve::Worker) -> evcore::Result<()> { Ok(()) }
    /// use evcore_serve::Server;
    ///
    /// let server = Server::new(4).bind("127.0.0.1:7007")?;
    /// server.handover(1).descriptor_store(b"").run(work)?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn descriptor_store(mut self, idle_state: impl Into<Vec<u8>>) -> Self {
        self.idle_state = Some(idle_state.into());
        self
    }

    /// Reads the header of the PROXY protocol (version 1 or 2) from the connections of these load
    /// balancers: [`Accepted::peer`](evcore::Accepted) is then the address of the client.
    ///
    /// The program calls [`Worker::next_step`] in place of the loop's
    /// [`next_step`](evcore::EventLoop::next_step). The `Step::Accepted` of a client comes when its
    /// header is complete. A client whose header is not complete counts as a connection of the
    /// loop. Other peers are served without a header.
    ///
    /// ```no_run
    /// # fn work(_: evcore_serve::Worker) -> evcore::Result<()> { Ok(()) }
    /// use evcore_serve::Server;
    ///
    /// let server = Server::new(4).bind("10.0.0.5:8080")?;
    /// server.proxy_protocol("10.0.0.0/24".parse()?).run(work)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// A header that is there when the client is accepted, as most are, costs two more system calls
    /// for each connection. A header that arrives later costs some six.
    pub fn proxy_protocol(mut self, senders: ProxyProtocol) -> Self {
        self.proxy_protocol = Some(senders);
        self
    }

    /// Sets the options of each worker's loop, for example
    /// `|builder| builder.connections(10_000)`. The listeners and the group are added afterwards.
    pub fn event_loop(
        mut self,
        configure: impl Fn(Builder) -> Builder + Send + Sync + 'static,
    ) -> Self {
        self.configure = Arc::new(configure);
        self
    }

    /// Calls `hook` for each [`Event`], for example `|event| eprintln!("{event}")`. By default,
    /// nothing is called or printed.
    pub fn on_event(mut self, hook: impl Fn(Event<'_>) + Send + Sync + 'static) -> Self {
        self.on_event = Arc::new(hook);
        self
    }

    /// Adds a function that the master calls at regular intervals, for the first time when one
    /// interval has passed. Each call wakes the master, which otherwise sleeps until something
    /// happens. A server without a master, as in [`run_here`](Self::run_here), does not call it.
    ///
    /// # Panics
    ///
    /// If the interval is 0, the call that starts the master panics.
    pub fn on_interval(mut self, interval: Duration, hook: impl FnMut() + 'static) -> Self {
        self.intervals.push((interval, Box::new(hook)));
        self
    }

    /// Reports to the service manager that has started the server, by the protocol of systemd
    /// (`sd_notify`): its start, its reloads, its stop, the process id of a new binary, and signs
    /// of life if a watchdog waits for them. Does nothing if `NOTIFY_SOCKET` is not set.
    ///
    /// In the unit: `Type=notify-reload`; `NotifyAccess=all`, because a new binary (USR2) reports,
    /// too; `KillMode=mixed`, because a worker that gets a stop signal itself closes connections.
    /// The master sends the signs of life, so they continue even if a worker hangs. The worker of
    /// [`run_here`](Self::run_here) sends none, so leave out `WatchdogSec=` in its unit.
    ///
    /// With `FileDescriptorStoreMax=` in the unit (systemd 254), a restart of the service
    /// (`systemctl restart`) refuses no client. systemd keeps the TCP listeners, and
    /// [`bind`](Self::bind) takes them over at the next start; a listener that `bind` does not open
    /// is taken by [`stored_listeners`](evcore_prefork::stored_listeners). (If a socket unit passes
    /// listeners, systemd keeps only these listeners.) With a [handover](Self::handover) and
    /// [`run`](Self::run), systemd also keeps the connections that can move. They arrive at the
    /// next start as after a reload, if the version of the states is the same. The store needs a
    /// descriptor for each listener, and two for each worker.
    ///
    /// A report that fails is an [event](Event::NotNotified).
    pub fn notify_service_manager(mut self) -> Self {
        self.service_manager = ServiceManager::find();
        self
    }

    /// Runs the workers as processes, until a signal stops the server. Call it while the process
    /// has one thread.
    ///
    /// `work` runs in each worker, with a copy of the values that it owns, as they were at the
    /// fork. It must call [`Worker::next_turn`] until that returns false. If `work` returns an
    /// error, another worker is started. But if the functions of all first workers return an error
    /// before their first turn, the server has failed to start ([`Outcome::AllRefused`]).
    ///
    /// # Errors
    ///
    /// The errors of [`Supervisor::run`], of [`Supervisor::inherit`], and of making the group. Also
    /// an error of the kind [`InvalidInput`](io::ErrorKind::InvalidInput) if a setting would have
    /// no effect.
    pub fn run<E: fmt::Display>(
        self,
        work: impl FnOnce(Worker) -> Result<(), E>,
    ) -> io::Result<Outcome> {
        let this = self.checked(Workers::Processes)?;
        let (version, idle_state, is_kept) =
            (this.handover, this.idle_state.clone(), this.is_kept());
        let (mut supervisor, setup) = this.supervised()?;
        if let Some(version) = version {
            supervisor = supervisor.mailboxes();
            if is_kept {
                let on_event = Arc::clone(&setup.loops.on_event);
                supervisor = supervisor.keep_mailboxes(move |name, descriptor| {
                    report(service_store::replace(name, &[descriptor]), &on_event);
                });
            }
            if let Some(state) = idle_state {
                let hand_on = move |kept| keeping::hand_on(kept, version, &state);
                supervisor = supervisor.descriptor_store(hand_on);
            }
        }
        for listener in setup.listeners.iter() {
            supervisor = supervisor.inherit(listener)?;
        }
        Ok(supervisor.run(|worker| {
            let listeners = setup.listeners.into_worker(worker.index().get());
            setup.loops.run(worker, Ok(listeners), work)
        })?)
    }

    /// Runs the workers as [`run`](Self::run) does, but passes each worker the [`Parts`] of its
    /// loop in place of a loop. Use it for a loop over streams that are not sockets. With 0
    /// workers, this process serves, as with [`run_here`](Self::run_here).
    ///
    /// The settings of the loop, of the handover and of the PROXY protocol then have no effect. For
    /// a [`hang_timeout`](Self::hang_timeout), the program calls
    /// [`works`](evcore_prefork::Worker::works) and [`waits`](evcore_prefork::Worker::waits).
    ///
    /// # Errors
    ///
    /// The errors of [`run`](Self::run), or with 0 workers those of [`run_here`](Self::run_here).
    pub fn run_parts<E: Into<BoxError>>(
        self,
        work: impl FnOnce(&mut Parts) -> Result<(), E>,
    ) -> io::Result<Outcome> {
        let this = match self.workers {
            0 => self.checked(Workers::Here)?,
            _ => self.checked(Workers::Parts)?,
        };
        if this.workers == 0 {
            let supervised = evcore_prefork::Worker::solo()?;
            let Setup { listeners, loops } = this.setup(1)?;
            let (ready, info) = (Arc::clone(&loops.on_event), supervised.info());
            let on_ready = Box::new(move || ready(Event::Ready(&info)));
            let parts = loops.parts(supervised, listeners.open, on_ready);
            let mut parts = parts.reports_stops(loops.on_event);
            work(&mut parts).map_err(io::Error::other)?;
            let stop = parts.supervised.stop();
            return Ok(Outcome::Stopped(stop.unwrap_or(Stop::Graceful)));
        }
        let (mut supervisor, setup) = this.supervised()?;
        for listener in setup.listeners.iter() {
            supervisor = supervisor.inherit(listener)?;
        }
        Ok(supervisor.run(|worker| {
            let listeners = setup.listeners.into_worker(worker.index().get());
            setup.loops.run_work(worker, |worker, on_ready| {
                let mut parts = setup.loops.parts(worker, listeners, on_ready);
                work(&mut parts).map_err(|error| error.into().to_string())
            })
        })?)
    }

    /// Runs the workers as threads of this process, as [`run`](Self::run) does with processes.
    /// There is no upgrade by USR2.
    ///
    /// # Errors
    ///
    /// The errors of [`Supervisor::run_threads`], and of making the group. Also an error of the
    /// kind [`InvalidInput`](io::ErrorKind::InvalidInput) if a setting would have no effect.
    pub fn run_threads<E: fmt::Display>(
        self,
        work: impl Fn(Worker) -> Result<(), E> + Send + Sync + 'static,
    ) -> io::Result<Outcome> {
        let this = self.checked(Workers::Threads)?;
        let (supervisor, setup) = this.supervised()?;
        Ok(supervisor.run_threads(move |worker| {
            let listeners = setup.listeners.duplicate(worker.index().get());
            setup.loops.run(worker, listeners, &work)
        })?)
    }

    /// Runs a single worker in this process, without a supervisor, until a signal stops it. It is
    /// not replaced. The worker has the shared listeners, and is [ready](Event::Ready) when its
    /// first turn begins. Neither a reload nor an upgrade is possible. A process can call this
    /// method once.
    ///
    /// ```
    /// use evcore_serve::{Server, Worker};
    /// use std::time::Duration;
    ///
    /// fn work(mut worker: Worker) -> evcore::Result<()> {
    ///     worker.ev.shutdown(Duration::ZERO); // in place of a signal
    ///     while worker.next_turn()? {}
    ///     Ok(())
    /// }
    ///
    /// Server::new(0).bind("127.0.0.1:0")?.run_here(work)?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`Worker::solo`](evcore_prefork::Worker::solo), of making the group and the
    /// loop, and of `work`. Also an error of the kind [`InvalidInput`](io::ErrorKind::InvalidInput)
    /// if a setting would have no effect.
    pub fn run_here<E: Into<BoxError>>(
        self,
        work: impl FnOnce(Worker) -> Result<(), E>,
    ) -> io::Result<()> {
        let this = self.checked(Workers::Here)?;
        let supervised = evcore_prefork::Worker::solo()?;
        let setup = this.setup(1)?;
        let ev = setup.loops.event_loop(&supervised, setup.listeners.open)?;
        let (timeout, on_event) = (setup.loops.stop_timeout, setup.loops.on_event);
        let ready = Arc::clone(&on_event);
        let info = supervised.info();
        let worker = Worker::new(ev, supervised, timeout, on_event).reports_stops();
        let worker = worker.proxy_protocol(setup.loops.proxy_protocol);
        let worker = worker.on_ready(move || ready(Event::Ready(&info)));
        work(worker).map_err(io::Error::other)
    }

    /// Returns whether a service manager keeps listeners and connections over a restart of the
    /// service.
    fn is_kept(&self) -> bool {
        self.service_manager.is_some() && service_store::exists()
    }

    /// Checks the settings for this way of running, and drops a handover without effect.
    fn checked(self, workers: Workers) -> io::Result<Self> {
        let settings = Settings {
            hands_over: self.handover.is_some(),
            has_stores: self.idle_state.is_some(),
            has_hang_timeout: self.hang_timeout.is_some(),
        };
        refuse(workers, settings)?;
        let handover = self.handover.filter(|_| workers == Workers::Processes);
        Ok(Self { handover, ..self })
    }

    fn supervised(mut self) -> io::Result<(Supervisor<'static>, Setup)> {
        let mut supervisor = Supervisor::new(self.workers)
            .slots_serve_alone(!self.listeners.own.is_empty())
            // Each worker reports that it is ready. Until all new ones have reported, a reload
            // stops no old one.
            .ready_timeout(Duration::MAX)
            // A worker stops by itself at its timeout; twice that time is for a worker that hangs.
            .stop_timeout(self.stop_timeout.saturating_mul(2));
        if let Some(timeout) = self.hang_timeout {
            supervisor = supervisor.hang_timeout(timeout);
        }
        if let Some(affinity) = &self.affinity {
            supervisor = supervisor.affinity(affinity.clone());
        }
        supervisor.check()?;
        let watchdog = self
            .service_manager
            .as_ref()
            .and(ServiceManager::watchdog());
        for (interval, hook) in mem::take(&mut self.intervals) {
            supervisor = supervisor.on_interval(interval, hook);
        }
        let setup = self.setup(supervisor.slots())?;
        if let Some(interval) = watchdog {
            let on_event = Arc::clone(&setup.loops.on_event);
            supervisor = supervisor.on_interval(interval, move || {
                ServiceManager::report_life(&on_event);
            });
        }
        Ok((setup.loops.clone().watch(supervisor), setup))
    }

    fn setup(mut self, slots: usize) -> io::Result<Setup> {
        self.listeners.close_inherited();
        if self.is_kept() {
            report(self.listeners.keep(), &self.on_event);
        }
        if self.handover.is_none() {
            report(service_store::close_mailboxes(), &self.on_event);
        }
        let group = match self.group {
            Some(group) => group,
            // A single worker shares its listeners with no other (as in nginx).
            None if self.workers <= 1 => WorkerGroup::new(Policy::Off, slots)?,
            None => WorkerGroup::new(self.policy, slots)?,
        };
        Ok(Setup {
            listeners: self.listeners,
            loops: Loops {
                group,
                handover: self.handover,
                rebalance: self.rebalance,
                proxy_protocol: self.proxy_protocol,
                configure: self.configure,
                stop_timeout: self.stop_timeout,
                on_event: match self.service_manager {
                    Some(manager) => manager.before(self.on_event),
                    None => self.on_event,
                },
            },
        })
    }
}

/// Reports an error of the service manager's socket.
fn report(sent: io::Result<()>, on_event: &OnEvent) {
    if let Err(error) = sent {
        on_event(Event::NotNotified(&error));
    }
}

struct Setup {
    listeners: Listeners,
    loops: Loops,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("workers", &self.workers)
            .field("listeners", &self.listeners)
            .field("policy", &self.policy)
            .field("stop_timeout", &self.stop_timeout)
            .field("affinity", &self.affinity)
            .field("handover", &self.handover)
            .field("rebalance", &self.rebalance)
            .field("idle_state", &self.idle_state)
            .field("proxy_protocol", &self.proxy_protocol)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
