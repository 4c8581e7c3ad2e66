//! Figures of any kind, by their names: a value a round.

use super::statistics::Spread;

/// All of a run, in its order.
#[derive(Debug, Default)]
pub(super) struct Figures(Vec<Row>);

#[derive(Debug)]
struct Row {
    workload: String,
    size: u64,
    peer: String,
    what: String,
    values: Vec<f64>,
}

impl Figures {
    /// Takes in the fields of a record; `None` if they are none.
    pub(super) fn read(&mut self, fields: [&str; 5]) -> Option<()> {
        let [workload, size, peer, what, values] = fields;
        let values: Option<Vec<f64>> = values.split(' ').map(|value| value.parse().ok()).collect();
        self.0.push(Row {
            workload: workload.to_owned(),
            size: size.parse().ok()?,
            peer: peer.to_owned(),
            what: what.to_owned(),
            values: values.filter(|values| !values.is_empty())?,
        });
        Some(())
    }

    /// The values of one; none if it was not measured.
    pub(super) fn values(&self, workload: &str, size: u64, peer: &str, what: &str) -> &[f64] {
        let mut rows = self.of(workload, what);
        let found = rows.find(|row| row.size == size && row.peer == peer);
        found.map_or(&[], |row| &row.values)
    }

    /// The rounds of one, made into a figure.
    pub(super) fn spread(
        &self,
        workload: &str,
        size: u64,
        peer: &str,
        what: &str,
    ) -> Option<Spread> {
        let values = self.values(workload, size, peer, what);
        (!values.is_empty()).then(|| Spread::of(values.iter().copied()))
    }

    /// The sizes at which something was measured, ascending.
    pub(super) fn sizes(&self, workload: &str, what: &str) -> Vec<u64> {
        let mut sizes: Vec<u64> = self.of(workload, what).map(|row| row.size).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// The peers that were measured, in the order of the run.
    pub(super) fn peers(&self, workload: &str, what: &str) -> Vec<&str> {
        let mut peers = Vec::new();
        for row in self.of(workload, what) {
            if !peers.contains(&row.peer.as_str()) {
                peers.push(&row.peer);
            }
        }
        peers
    }

    /// How many values there are of a workload's figure that has the most.
    pub(super) fn most_values(&self, workload: &str) -> usize {
        let rows = self.0.iter().filter(|row| row.workload == workload);
        rows.map(|row| row.values.len()).max().unwrap_or(0)
    }

    fn of(&self, workload: &str, what: &str) -> impl Iterator<Item = &Row> {
        let is_its = move |row: &&Row| row.workload == workload && row.what == what;
        self.0.iter().filter(is_its)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_is_found_and_nothing_else() {
        let mut figures = Figures::default();
        for (size, peer, values) in [("8", "b", "3 1 2"), ("4", "b", "5"), ("8", "a", "7")] {
            figures
                .read(["accept/burst", size, peer, "jain", values])
                .unwrap();
        }
        let spread = figures.spread("accept/burst", 8, "b", "jain").unwrap();
        assert_eq!((spread.least, spread.median, spread.most), (1.0, 2.0, 3.0));
        assert_eq!(figures.sizes("accept/burst", "jain"), [4, 8]);
        assert_eq!(figures.peers("accept/burst", "jain"), ["b", "a"]);
        assert_eq!(figures.most_values("accept/burst"), 3);
        assert!(figures.spread("accept/burst", 8, "b", "wakes").is_none());
        assert!(figures.peers("accept/single", "jain").is_empty());
    }

    #[test]
    fn what_is_no_number_is_refused() {
        let mut figures = Figures::default();
        assert!(figures.read(["a", "eight", "b", "jain", "1"]).is_none());
        assert!(figures.read(["a", "8", "b", "jain", ""]).is_none());
    }
}
