//! `/status.json`: what each worker is doing, and all of them together.

use std::fmt::{self, Display, Formatter};

use crate::{
    board::{Board, Line, jain},
    figures::{Figures, Spread},
};

/// The page, as it is when it is written.
///
/// Workers that have ended count in the sums, as in `/status`, and are not among the workers.
#[derive(Debug)]
pub struct StatusJson<'a>(pub &'a Board);

impl Display for StatusJson<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let workers: Vec<_> = Line::living(self.0).collect();
        let jain = jain(workers.iter().map(|line| line.active));
        f.write_str("{")?;
        counts(f, &Line::sum_of(self.0))?;
        write!(f, ",\"jain\":{jain:.4},\"workers\":[")?;
        for (place, line) in workers.iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            let Figures { index, pid, .. } = line.figures;
            write!(f, "{comma}\n{{\"worker\":{index},\"pid\":{pid},")?;
            counts(f, line)?;
            rest(f, &line.figures)?;
        }
        f.write_str("\n]}\n")
    }
}

fn counts(f: &mut Formatter<'_>, counts: &Line) -> fmt::Result {
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
    use evcore::balancer::WorkerId;

    use super::*;

    #[test]
    fn the_page_lists_living_workers_and_sums_over_all() {
        let board = Line::board(4).expect("a page");
        // The worker of slot 1 has ended. Slot 3 never had one.
        for (slot, pid, index) in [(0, 101, 1), (1, 0, 0), (2, 100, 0)] {
            let lateness = Spread {
                mean_ns: 1_002,
                p99_ns: 30_040,
                max_ns: 999,
            };
            let figures = Figures {
                pid,
                index,
                turns: 7,
                lateness,
                ..Figures::default()
            };
            let line = Line {
                active: if slot == 1 { 0 } else { 3 },
                accepted: 5,
                figures,
                ..Line::default()
            };
            board.publish(WorkerId::from_slot(slot), &line.to_numbers());
        }
        let page = StatusJson(&board).to_string();
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
