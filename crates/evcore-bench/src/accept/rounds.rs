//! Collects the figures of all rounds.

use crate::record;

/// A value a round for everything that was found, in the order in which it was found first.
#[derive(Debug, Default)]
pub(super) struct Rounds(Vec<Row>);

#[derive(Debug)]
struct Row {
    workload: String,
    workers: usize,
    peer: String,
    what: &'static str,
    values: Vec<f64>,
}

impl Rounds {
    /// What one round of a peer found.
    pub(super) fn add(
        &mut self,
        workload: &str,
        workers: usize,
        peer: &str,
        figures: impl IntoIterator<Item = (&'static str, f64)>,
    ) {
        for (what, value) in figures {
            let is_its = |row: &&mut Row| {
                row.workers == workers
                    && row.what == what
                    && row.workload == workload
                    && row.peer == peer
            };
            match self.0.iter_mut().find(is_its) {
                Some(row) => row.values.push(value),
                None => self.0.push(Row {
                    workload: workload.to_owned(),
                    workers,
                    peer: peer.to_owned(),
                    what,
                    values: vec![value],
                }),
            }
        }
    }

    /// Prints the records.
    pub(super) fn print(&self) {
        for row in &self.0 {
            record::figures(&row.workload, row.workers, &row.peer, row.what, &row.values);
        }
    }
}
