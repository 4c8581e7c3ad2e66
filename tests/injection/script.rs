//! The actions of clients and an operator while calls fail, and the requests that are lost.

use std::{collections::HashSet, io, time::Duration};

use evcore_tests::{Client, Response, Server, signal_to};
use rustix::process::Signal;

use super::{
    stage::WORKERS,
    wait::{becomes_true, wait_for},
};

/// Size in bytes of a response that takes more than one write.
const LARGE: usize = 300_000;

/// Size in bytes of a body that takes more than one read.
const BODY: usize = 100_000;

/// The name and the content of a file that is served.
pub(super) const FILE: (&str, &str) = ("page.html", "<title>A page</title>");

/// Number of failed attempts after which the test gives a request up.
const ATTEMPTS: usize = 20;

/// Time that a reload may last under injected failures. Some reloads end only after the failures.
const RELOAD: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(super) struct Script<'a> {
    server: &'a Server,
    pub(super) lost: usize,
    pub(super) killed: usize,
    /// The workers that must be gone at the end.
    pub(super) ended: HashSet<u32>,
}

impl<'a> Script<'a> {
    pub(super) fn new(server: &'a Server) -> Self {
        Self {
            server,
            lost: 0,
            killed: 0,
            ended: HashSet::new(),
        }
    }

    pub(super) fn play_start(&mut self) {
        self.serve();
        self.server.signal(Signal::USR1);
        self.hello();
    }

    pub(super) fn play(&mut self) {
        self.serve();
        self.kill_a_worker();
        self.hello();
        self.server.signal(Signal::USR1);
        self.hello();
        self.reload();
        self.serve();
    }

    /// Sends requests on a kept connection, and others each on a new connection.
    pub(super) fn serve(&mut self) {
        let mut kept = None;
        for _ in 0..3 {
            self.request_on(&mut kept, |client| client.try_get("/"));
            self.hello();
        }
        self.request(upload);
        self.request(|client| {
            let response = client.try_get(&format!("/bytes/{LARGE}"))?;
            complete(response, |body| body.len() == LARGE)
        });
        for _ in 0..2 {
            self.request(|client| {
                let response = client.try_get(&format!("/files/{}", FILE.0))?;
                complete(response, |body| body == FILE.1.as_bytes())
            });
        }
        self.request(refused);
        self.request_on(&mut kept, |client| client.try_get("/"));
    }

    fn hello(&mut self) {
        self.request(|client| client.try_get("/"));
    }

    fn request(&mut self, request: impl Fn(&mut Client) -> io::Result<Response>) {
        self.request_on(&mut None, request);
    }

    /// Repeats a request until it is answered: over this connection, or a new one.
    fn request_on(
        &mut self,
        kept: &mut Option<Client>,
        request: impl Fn(&mut Client) -> io::Result<Response>,
    ) {
        let mut failures = Vec::new();
        while failures.len() < ATTEMPTS {
            let mut client = kept.take().unwrap_or_else(|| self.server.connect());
            match request(&mut client) {
                Ok(response) if response.status == 200 => {
                    *kept = Some(client).filter(|_| !response.closes());
                    return;
                }
                Ok(response) => failures.push(format!("status {}", response.status)),
                // The client's read has timed out.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    panic!("a request hangs: {}", self.server.log())
                }
                Err(error) => failures.push(error.to_string()),
            }
            self.lost += 1;
        }
        panic!("a request is never answered: {failures:?}");
    }

    fn kill_a_worker(&mut self) {
        let workers = self.server.worker_pids();
        let Some(&victim) = workers.first() else {
            return;
        };
        self.ended.insert(victim);
        self.killed += 1;
        signal_to(victim, Signal::KILL);
        // Before its end, the worker may accept a client.
        wait_for("the worker's end", || {
            !self.server.worker_pids().contains(&victim)
        });
    }

    fn reload(&mut self) {
        self.ended.extend(self.server.worker_pids());
        self.server.signal(Signal::HUP);
        becomes_true(RELOAD, || self.server.reloads() > 0);
    }

    /// Checks, when calls no longer fail, that all workers serve and no request is lost.
    pub(super) fn recover(&mut self) {
        wait_for_workers(self.server, &self.ended);
        let lost = self.lost;
        self.serve();
        assert_eq!(self.lost, lost, "requests are lost after the last failure");
    }
}

/// Waits until all workers serve, and none of them is in `ended`.
pub(super) fn wait_for_workers(server: &Server, ended: &HashSet<u32>) {
    wait_for("all workers serve", || {
        let pids: HashSet<u32> = server.worker_pids().into_iter().collect();
        pids.len() == WORKERS && pids.is_disjoint(ended) && listed(server) == Some(pids)
    });
}

fn listed(server: &Server) -> Option<HashSet<u32>> {
    let page = server.try_status_json()?;
    let workers = page["workers"].as_array()?.iter();
    let pids = workers.map(|worker| worker["pid"].as_u64()?.try_into().ok());
    pids.collect()
}

/// Sends a body in two pieces, and compares what comes back.
fn upload(client: &mut Client) -> io::Result<Response> {
    let mut upload = Upload::begin(client)?;
    upload.finish(client)
}

/// A request whose body is not sent yet.
#[derive(Debug)]
pub(super) struct Upload;

impl Upload {
    /// Sends the head, and waits until the server requests the body.
    pub(super) fn begin(client: &mut Client) -> io::Result<Self> {
        let head = format!(
            "POST /echo HTTP/1.1\r\nHost: test\r\nContent-Length: {BODY}\r\n\
             Expect: 100-continue\r\n\r\n"
        );
        client.send_lossy(head);
        match client.try_response()?.status {
            100 => Ok(Self),
            status => Err(io::Error::other(format!("status {status}, not 100"))),
        }
    }

    pub(super) fn finish(&mut self, client: &mut Client) -> io::Result<Response> {
        let body = vec![b'b'; BODY];
        let (first, second) = body.split_at(BODY / 3);
        client.send_lossy(first);
        client.send_lossy(second);
        complete(client.try_response()?, |echo| echo == body)
    }
}

/// Sends a request, and then bytes that are not a request. The server answers both, ends its side,
/// and reads until the client has closed.
fn refused(client: &mut Client) -> io::Result<Response> {
    let response = client.try_get("/")?;
    client.send_lossy("not a request\r\n\r\n");
    match client.try_response()?.status {
        400 => Ok(response),
        status => Err(io::Error::other(format!("status {status}, not 400"))),
    }
}

fn complete(response: Response, is_body: impl Fn(&[u8]) -> bool) -> io::Result<Response> {
    if response.status == 200 && !is_body(&response.body) {
        return Err(io::Error::other("another body than expected"));
    }
    Ok(response)
}
