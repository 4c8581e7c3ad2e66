//! What `/status` tells: every worker's counts, through memory that all share.

use evcore::balancer::{Board, Line, Row, Snapshot};

use crate::{
    figures::{FigureSheet, Figures},
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
    line: Line,
    here: Snapshot,
    sheet: FigureSheet,
    row: Row<{ Figures::WORDS }>,
}

impl Counts {
    /// Goes on from what a worker of the same seat, that died, had counted.
    pub fn new(board: Board, sheet: FigureSheet, seat: usize) -> Self {
        let line = board.line(seat);
        let here = line.resume();
        let row = sheet.row(seat);
        Self {
            board,
            line,
            here,
            sheet,
            row,
        }
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

    /// Makes the counts of this worker known to the others.
    pub fn publish(&mut self, now_ms: u64) {
        self.here.heartbeat = now_ms;
        self.line.publish(&self.here);
    }

    /// Makes the figures of this worker's loop known to the others.
    pub fn publish_figures(&mut self, figures: &Figures) {
        self.row.publish(&figures.to_words());
    }

    /// All of it, for each worker.
    pub fn status_json(&self) -> String {
        let page = StatusJson {
            board: &self.board,
            figures: &self.sheet,
        };
        page.to_string()
    }

    /// nginx's `stub_status`, summed over all workers.
    pub fn status_text(&self) -> String {
        let all = self.board.sum();
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
