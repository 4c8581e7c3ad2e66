//! Serves the clients of a worker of `evcore-serve`, each in a task of its own.

use std::future::Future;
use std::panic::Location;

use evcore::{Address, Step};
use evcore_serve::Worker;

use crate::executor::Executor;
use crate::stream::TcpStream;

impl Executor {
    /// Serves as a worker of `evcore-serve` until the worker stops. `client` returns the future of
    /// each accepted client, which is spawned as a task. A client is closed if its stream cannot be
    /// [watched](TcpStream::new), or if its task cannot be [spawned](Self::spawn).
    ///
    /// When a worker stops, it accepts no further client. It ends when its
    /// [shutdown](crate::shutting_down) is complete, at the latest after the
    /// [timeout](evcore_serve::Server::stop_timeout). So a task should end after its present
    /// request. To notice the stop, a task awaits [`shutting_down`](crate::shutting_down), or calls
    /// [`is_shutting_down`](crate::is_shutting_down) after each request. The tasks that are left
    /// are dropped with the executor.
    ///
    /// ```no_run
    /// use evcore_async::{Executor, TcpStream};
    /// use evcore_serve::Server;
    ///
    /// async fn greet(stream: TcpStream) {
    ///     let _ = stream.write_all(b"hello\n").await; // the client may have left
    /// }
    ///
    /// let server = Server::new(4).bind("127.0.0.1:7007")?;
    /// server.run(|mut worker| {
    ///     let executor = Executor::new(&mut worker.ev);
    ///     executor.serve(&mut worker, |stream, _peer| greet(stream))
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`Worker::next_turn`], after which the loop cannot go on.
    ///
    /// # Panics
    ///
    /// If the server has a [handover](evcore_serve::Server::handover), because a task cannot be
    /// moved to another process.
    ///
    /// If a task panics, and [`set_resumes_panics`](Self::set_resumes_panics) is on.
    #[track_caller]
    pub fn serve<F: Future<Output: 'static> + 'static>(
        &self,
        worker: &mut Worker,
        mut client: impl FnMut(TcpStream, Address) -> F,
    ) -> evcore::Result<()> {
        assert!(
            !worker.hands_over(),
            "a task cannot be moved to another process: leave out `Server::handover`, or write the \
             loop of the worker with its steps"
        );
        let at = Location::caller();
        while worker.next_turn()? {
            while let Some(step) = worker.next_step() {
                let Some(Step::Accepted(new)) = self.on_step(&mut worker.ev, step) else {
                    continue;
                };
                self.enter(&mut worker.ev, || {
                    if let Ok(stream) = TcpStream::new(new.stream) {
                        drop(self.shared().spawn(client(stream, new.peer), at));
                    }
                });
            }
        }
        Ok(())
    }
}
