//! The pictures of the page: horizontal bars of one column, or lines over all columns.

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
    pub(crate) kind: Kind,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// A bar for each row and each of these columns.
    Bars(&'static [&'static str]),
    /// A line for each row, over all columns, both axes logarithmic.
    Lines,
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
    let drawn = match picture.kind {
        Kind::Bars(columns) => bars(&path, &title, table, columns),
        Kind::Lines => lines(&path, &title, table),
    };
    drawn.map_err(io::Error::other)
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

fn lines(path: &Path, title: &str, table: &Table) -> Drawn {
    let xs: Vec<f64> = table.columns.iter().map(|column| size(column)).collect();
    let points = |peer: &str| -> Vec<(f64, f64)> {
        let columns = table.columns.iter().zip(&xs);
        let points = columns.filter_map(|(column, x)| Some((*x, table.median(peer, column)?)));
        points.collect()
    };
    let all = table.rows.iter().flat_map(|row| points(&row.peer));
    let (least, most) = all.fold((f64::MAX, f64::MIN_POSITIVE), |(least, most), (_, y)| {
        (least.min(y), most.max(y))
    });
    let area: Area<'_> = SVGBackend::new(path, (WIDTH, 420)).into_drawing_area();
    area.fill(&WHITE)?;
    let first = xs.first().copied().unwrap_or(1.0);
    let last = xs.last().copied().unwrap_or(10.0);
    let mut chart = ChartBuilder::on(&area)
        .caption(title, (FONT, 16))
        .margin(10)
        .x_label_area_size(28)
        .y_label_area_size(48)
        // The names stand to the right of the last column.
        .build_cartesian_2d((first..last * 8.0).log_scale(), (least..most).log_scale())?;
    let power = |x: &f64| match x.log10() {
        power if power.fract().abs() < 1e-9 => format!("10^{power:.0}"),
        _ => String::new(),
    };
    let mut mesh = chart.configure_mesh();
    mesh.disable_mesh().x_label_formatter(&power).draw()?;
    let mut names = Vec::new();
    for (at, row) in table.rows.iter().enumerate() {
        let (color, points) = (color(at, table.rows.len()), points(&row.peer));
        chart.draw_series(LineSeries::new(points.clone(), color.stroke_width(2)))?;
        if let Some(last) = points.last() {
            names.push((chart.backend_coord(last), &row.peer, color));
        }
    }
    // At the ends of the lines, moved down if two are too close.
    names.sort_by_key(|((_, y), ..)| *y);
    let mut free = 0;
    for ((x, y), name, color) in names {
        let y = free.max(y - 6);
        free = y + 13;
        let style = (FONT, 12).into_font().color(&color);
        area.draw(&Text::new(name.clone(), (x + 4, y), style))?;
    }
    area.present()
}

/// Colours that are far apart, and dark enough to be read on white.
fn color(at: usize, of: usize) -> HSLColor {
    HSLColor(run::each(at as u64, of), 0.8, 0.4)
}

/// The number that a column stands for: `10^5` or `1000`.
fn size(column: &str) -> f64 {
    let power = column.strip_prefix("10^").and_then(|it| it.parse().ok());
    power.map_or_else(|| column.parse().unwrap_or(1.0), |it| 10f64.powi(it))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "a table of evcore-bench";

    #[test]
    fn both_kinds_of_picture_have_the_names_and_the_numbers() {
        let mut report = Report::new("part");
        report.table(TABLE, "T", "ns", "");
        for (column, value) in [("10^3", 12.0), ("10^4", 34.5)] {
            report.add(TABLE, "a peer", column, value);
        }
        let folder = std::env::temp_dir();
        let drawn = |kind| {
            let (title, table) = ("Title", TABLE);
            let picture = Picture { table, title, kind };
            draw(&picture, &report, &folder).unwrap();
            let path = folder.join(format!("{TABLE}.svg"));
            let text = std::fs::read_to_string(&path).unwrap();
            std::fs::remove_file(path).unwrap();
            text
        };
        let bars = drawn(Kind::Bars(&["10^3", "10^4"]));
        assert!(bars.contains("a peer") && bars.contains("34.5"));
        assert!(drawn(Kind::Lines).contains("a peer"));
    }
}
