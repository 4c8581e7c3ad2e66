//! `/status.json`: what each worker is doing, and all of them together.

use std::fmt::{self, Display, Formatter};

use evcore::balancer::{Board, Snapshot};

use crate::figures::{FigureSheet, Figures, Spread};

/// The page, as it is when it is written.
///
/// Workers that are gone count in the sums, as in `/status`, and are not among the workers.
#[derive(Debug)]
pub struct StatusJson<'a> {
    pub board: &'a Board,
    pub figures: &'a FigureSheet,
}

impl Display for StatusJson<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let here: Vec<_> = self.workers().collect();
        let jain = self.board.jain();
        f.write_str("{")?;
        counts(f, &self.board.sum())?;
        write!(f, ",\"jain\":{jain:.4},\"workers\":[")?;
        for (place, (seat, figures)) in here.iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            write!(
                f,
                "{comma}\n{{\"worker\":{},\"pid\":{},",
                figures.index, figures.pid
            )?;
            counts(f, &self.board.snapshot(*seat))?;
            rest(f, figures)?;
        }
        f.write_str("\n]}\n")
    }
}

impl StatusJson<'_> {
    /// Those who are there, with their seats.
    fn workers(&self) -> impl Iterator<Item = (usize, Figures)> {
        let all = 0..self.figures.workers();
        all.map(|seat| (seat, Figures::from_words(self.figures.read(seat))))
            .filter(|(_, figures)| figures.pid != 0)
    }
}

fn counts(f: &mut Formatter<'_>, counts: &Snapshot) -> fmt::Result {
    write!(
        f,
        "\"active\":{},\"accepted\":{},\"handled\":{},\"requests\":{},\
         \"reading\":{},\"writing\":{},\"waiting\":{}",
        counts.active,
        counts.accepted,
        counts.handled,
        counts.requests,
        counts.reading,
        counts.writing,
        counts.waiting
    )
}

fn rest(f: &mut Formatter<'_>, figures: &Figures) -> fmt::Result {
    write!(
        f,
        ",\"turns\":{},\"events\":{},\"stale_events\":{},\"timers_armed\":{},\"timers_fired\":{}",
        figures.turns, figures.events, figures.stale, figures.timers_armed, figures.timers_fired
    )?;
    spread(f, "timer_lateness_us", figures.lateness)?;
    spread(f, "turn_us", figures.turn)?;
    f.write_str("}")
}

fn spread(f: &mut Formatter<'_>, name: &str, spread: Spread) -> fmt::Result {
    let us = |ns: u64| format!("{}.{:03}", ns / 1000, ns % 1000);
    write!(
        f,
        ",\"{name}\":{{\"mean\":{},\"p99\":{},\"max\":{}}}",
        us(spread.mean_ns),
        us(spread.p99_ns),
        us(spread.max_ns)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_lists_who_is_there_and_sums_over_all() {
        let board = Board::shared(4).expect("a page");
        let figures = FigureSheet::shared(4).expect("a page");
        // Seat 1 had a worker that is gone, seat 3 never had one.
        for seat in [0, 1, 2] {
            let line = Snapshot {
                active: if seat == 1 { 0 } else { 3 },
                accepted: 5,
                // Of the dead it is reset.
                heartbeat: u64::from(seat != 1),
                ..Snapshot::default()
            };
            board.line(seat).publish(&line);
        }
        for (seat, index) in [(0, 1), (2, 0)] {
            let lateness = Spread {
                mean_ns: 1_002,
                p99_ns: 30_040,
                max_ns: 999,
            };
            let worker = Figures {
                pid: 100 + index,
                index,
                turns: 7,
                lateness,
                ..Figures::default()
            };
            figures.row(seat).publish(&worker.to_words());
        }
        let page = StatusJson {
            board: &board,
            figures: &figures,
        };
        let page = page.to_string();
        let counts = |active, accepted| {
            format!(
                "\"active\":{active},\"accepted\":{accepted},\"handled\":0,\"requests\":0,\
                 \"reading\":0,\"writing\":0,\"waiting\":0"
            )
        };
        let worker = |index: u64| {
            format!(
                "{{\"worker\":{index},\"pid\":{},{},\"turns\":7,\"events\":0,\"stale_events\":0,\
                 \"timers_armed\":0,\"timers_fired\":0,\
                 \"timer_lateness_us\":{{\"mean\":1.002,\"p99\":30.040,\"max\":0.999}},\
                 \"turn_us\":{{\"mean\":0.000,\"p99\":0.000,\"max\":0.000}}}}",
                100 + index,
                counts(3, 5)
            )
        };
        let expected = format!(
            "{{{},\"jain\":1.0000,\"workers\":[\n{},\n{}\n]}}\n",
            counts(6, 15),
            worker(1),
            worker(0)
        );
        assert_eq!(page, expected);
    }
}
