//! What `/status` shows: the counts of every worker, through memory that all share.

use evcore::balancer::WorkerId;

use crate::{
    board::{Board, Line},
    figures::Figures,
    status_json::StatusJson,
};

/// What a connection is doing, as nginx's `stub_status` tells it apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// A request is on its way.
    Reading,
    /// An answer is being made or sent.
    Writing,
    /// Nothing: a request may come.
    Waiting,
}

/// One worker's counts, and a view of all.
#[derive(Debug)]
pub struct Counts {
    board: Board,
    id: WorkerId,
    here: Line,
}

impl Counts {
    /// Continues what earlier workers in the same slot have counted.
    pub fn new(board: Board, id: WorkerId) -> Self {
        let here = Line::from_numbers(board.read(id));
        Self { board, id, here }
    }

    pub fn connection_begins(&mut self) {
        self.here.accepted += 1;
        self.here.handled += 1;
        self.here.active += 1;
        self.here.waiting += 1;
    }

    pub fn connection_refused(&mut self) {
        self.here.accepted += 1;
    }

    pub fn connection_ends(&mut self, doing: Doing) {
        self.here.active -= 1;
        *self.gauge(doing) -= 1;
    }

    #[inline]
    pub fn request(&mut self) {
        self.here.requests += 1;
    }

    #[inline]
    pub fn change(&mut self, from: &mut Doing, to: Doing) {
        if *from != to {
            *self.gauge(*from) -= 1;
            *self.gauge(to) += 1;
            *from = to;
        }
    }

    /// Publishes the counts of this worker.
    pub fn publish(&mut self) {
        self.board.publish(self.id, &self.here.to_numbers());
    }

    /// Publishes the counts of this worker, and the figures of its loop.
    pub fn publish_with(&mut self, figures: &Figures) {
        self.here.figures = *figures;
        self.publish();
    }

    /// All of it, for each worker.
    pub fn status_json(&self) -> String {
        StatusJson(&self.board).to_string()
    }

    /// nginx's `stub_status`, summed over all workers.
    pub fn status_text(&self) -> String {
        let all = Line::sum_of(&self.board);
        format!(
            "Active connections: {} \n\
             server accepts handled requests\n \
             {} {} {} \n\
             Reading: {} Writing: {} Waiting: {} \n",
            all.active,
            all.accepted,
            all.handled,
            all.requests,
            all.reading,
            all.writing,
            all.waiting
        )
    }

    fn gauge(&mut self, doing: Doing) -> &mut u64 {
        match doing {
            Doing::Reading => &mut self.here.reading,
            Doing::Writing => &mut self.here.writing,
            Doing::Waiting => &mut self.here.waiting,
        }
    }
}
