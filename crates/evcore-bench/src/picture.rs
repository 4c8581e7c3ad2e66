//! The pictures of the page: horizontal bars, for each row and some columns of a table.

use std::path::Path;

use plotters::prelude::*;
use serde::Deserialize;

use crate::Result;
use crate::report::{Report, number};
use crate::run;

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Picture {
    /// The name of the table, and of the picture's file without `.svg`.
    pub(crate) table: String,
    pub(crate) title: String,
    columns: Vec<String>,
}

const WIDTH: u32 = 760;
const BAR: i32 = 14;
const NAMES: i32 = 190;

impl Picture {
    /// Draws the bars of each row, with their numbers, into a file of `folder`. There is no axis,
    /// so that long names have room.
    pub(crate) fn draw(&self, unit: &str, report: &Report, folder: &Path) -> Result {
        let path = folder.join(format!("{}.svg", self.table));
        let title = format!("{} ({unit})", self.title);
        let columns: Vec<(i32, &String)> = (0..).zip(&self.columns).collect();
        let values = |peer: &str| -> Vec<(i32, f64)> {
            let median = |column: &str| Some(report.spread(&self.table, peer, column)?.median);
            let values = columns.iter().map(|(at, column)| (*at, median(column)));
            values
                .filter_map(|(at, value)| Some((at, value?)))
                .collect()
        };
        let peers = report.names(&self.table, 1).into_iter();
        let rows = peers.map(|peer| (peer.to_owned(), values(peer)));
        let rows: Vec<_> = rows.filter(|(_, values)| !values.is_empty()).collect();
        let lengths = rows.iter().flat_map(|(_, values)| values);
        let longest = lengths.fold(f64::MIN_POSITIVE, |most, (_, value)| most.max(*value));
        let group = BAR as usize * columns.len() + 8;
        let height = u32::try_from(56 + group * rows.len()).expect("a few peers");
        let area = SVGBackend::new(&path, (WIDTH, height)).into_drawing_area();
        let color = |at: i32| HSLColor(run::each(at as u64, columns.len()), 0.8, 0.4);
        let text = |text: String, place: (i32, i32), size: u32| {
            area.draw(&Text::new(text, place, ("sans-serif", size)))
        };
        let bar = |corners: [(i32, i32); 2], at: i32| {
            area.draw(&Rectangle::new(corners, color(at).filled()))
        };
        area.fill(&WHITE)?;
        text(title, (10, 6), 16)?;
        for (at, column) in columns.iter().filter(|_| columns.len() > 1) {
            let x = NAMES + 130 * at;
            bar([(x, 30), (x + 10, 40)], *at)?;
            text((*column).clone(), (x + 16, 28), 13)?;
        }
        for ((name, values), top) in rows.into_iter().zip((50..).step_by(group)) {
            text(name, (10, top), 13)?;
            for (at, value) in values {
                let y = top + BAR * at;
                #[expect(clippy::cast_possible_truncation, reason = "a number of pixels")]
                let end = NAMES + (value / longest * 480.0) as i32;
                bar([(NAMES, y), (end, y + BAR - 2)], at)?;
                text(number(value), (end + 5, y), 12)?;
            }
        }
        Ok(area.present()?)
    }
}
