//! The pictures of the page: horizontal bars, for each row and some columns of a table.

use std::io;
use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;

use crate::report::{Report, Table, number};
use crate::run;

/// A picture of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Picture {
    /// Also the name of its file, without `.svg`.
    pub(crate) table: &'static str,
    pub(crate) title: &'static str,
    pub(crate) columns: &'static [&'static str],
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn<T = ()> = Result<T, DrawingAreaErrorKind<io::Error>>;

const WIDTH: u32 = 760;
const FONT: &str = "sans-serif";

/// Draws the table into `folder`; nothing if the report has no such table.
pub(crate) fn draw(picture: &Picture, report: &Report, folder: &Path) -> io::Result<()> {
    let Some(table) = report.find(picture.table) else {
        return Ok(());
    };
    let path = folder.join(format!("{}.svg", picture.table));
    let title = format!("{} ({})", picture.title, table.unit);
    bars(&path, &title, table, picture.columns).map_err(io::Error::other)
}

/// Bars by row, with their numbers: plain rectangles, so that names of any length fit.
fn bars(path: &Path, title: &str, table: &Table, columns: &[&str]) -> Drawn {
    const BAR: i32 = 14;
    const NAMES: i32 = 190;
    let rows = table.rows.iter().map(|row| {
        let values = columns.iter().enumerate();
        let values = values.filter_map(|(at, it)| Some((at, table.median(&row.peer, it)?)));
        (row.peer.as_str(), values.collect::<Vec<_>>())
    });
    let rows: Vec<_> = rows.filter(|(_, values)| !values.is_empty()).collect();
    let longest = rows
        .iter()
        .flat_map(|(_, values)| values.iter().map(|(_, value)| *value));
    let longest = longest.fold(f64::MIN_POSITIVE, f64::max);
    let group = BAR * i32::try_from(columns.len()).expect("a few columns") + 8;
    let height = 56 + group * i32::try_from(rows.len()).expect("a few peers");
    let size = (WIDTH, u32::try_from(height).expect("it is positive"));
    let area: Area<'_> = SVGBackend::new(path, size).into_drawing_area();
    area.fill(&WHITE)?;
    area.draw(&Text::new(title.to_owned(), (10, 6), (FONT, 16)))?;
    for (at, column) in columns.iter().enumerate().filter(|_| columns.len() > 1) {
        let x = NAMES + 130 * i32::try_from(at).expect("a few columns");
        area.draw(&Rectangle::new(
            [(x, 30), (x + 10, 40)],
            color(at, columns.len()).filled(),
        ))?;
        area.draw(&Text::new((*column).to_owned(), (x + 16, 28), (FONT, 13)))?;
    }
    for ((name, values), top) in rows.iter().zip((50..).step_by(group as usize)) {
        area.draw(&Text::new((*name).to_owned(), (10, top), (FONT, 13)))?;
        for (at, value) in values {
            let y = top + BAR * i32::try_from(*at).expect("a few columns");
            #[expect(clippy::cast_possible_truncation, reason = "a number of pixels")]
            let end = NAMES + (value / longest * 480.0) as i32;
            let bar = [(NAMES, y), (end, y + BAR - 2)];
            area.draw(&Rectangle::new(bar, color(*at, columns.len()).filled()))?;
            area.draw(&Text::new(number(*value), (end + 5, y), (FONT, 12)))?;
        }
    }
    area.present()
}

/// Colours that are far apart, and dark enough to be read on white.
fn color(at: usize, of: usize) -> HSLColor {
    HSLColor(run::each(at as u64, of), 0.8, 0.4)
}
