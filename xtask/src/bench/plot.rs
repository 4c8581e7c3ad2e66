//! `docs/timers.svg`: nanoseconds a re-arm against the number of timers, both logarithmic.
//!
//! Readable on a light and a dark page: the colours are a style that follows the reader's.

use std::fmt::Write;

use super::results::Results;

const WORKLOAD: &str = "timers/rearm";

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 440.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 560.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 390.0;

/// The least distance of two names.
const LINE: f64 = 15.0;

const STYLE: &str = "\
text { font: 12px system-ui, sans-serif; fill: #333 }
.grid { stroke: #ddd }
.line { fill: none; stroke-width: 1.5; stroke: #999 }
.dot { fill: #999 }
.ours.line { stroke: #0b62c4; stroke-width: 2.5 }
.ours.dot { fill: #0b62c4 }
text.ours { fill: #0b62c4; font-weight: 600 }
@media (prefers-color-scheme: dark) {
text { fill: #ccc }
.grid { stroke: #444 }
.line { stroke: #888 }
.dot { fill: #888 }
.ours.line { stroke: #6cb2ff }
.ours.dot { fill: #6cb2ff }
text.ours { fill: #6cb2ff }
}
";

/// The line of one queue.
#[derive(Debug)]
struct Series<'a> {
    name: &'a str,
    points: Vec<(f64, f64)>,
}

/// The decades that the axes span.
#[derive(Clone, Copy, Debug)]
struct Axes {
    x: (i32, i32),
    y: (i32, i32),
}

/// The plot of a run.
pub(super) fn timers(results: &Results) -> String {
    let series = series(results);
    let axes = Axes::around(&series);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\">\n\
         <title>Nanoseconds a re-arm against the number of timers</title>\n\
         <style>\n{STYLE}</style>\n"
    );
    grid(&mut svg, axes);
    for one in &series {
        curve(&mut svg, axes, one);
    }
    names(&mut svg, axes, &series);
    svg.push_str("</svg>\n");
    svg
}

fn series(results: &Results) -> Vec<Series<'_>> {
    let sizes = results.sizes(WORKLOAD);
    let peers = results.peers(WORKLOAD).into_iter();
    peers
        .map(|name| {
            let ns = |size: &u64| results.figure(WORKLOAD, *size, name).map(|f| f.ns.median);
            #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
            let point = |size: &u64| Some((*size as f64, ns(size)?.max(0.1)));
            let points = sizes.iter().filter_map(point).collect();
            Series { name, points }
        })
        .collect()
}

impl Axes {
    /// Whole decades around all points.
    fn around(series: &[Series<'_>]) -> Axes {
        let decades = |of: fn(&(f64, f64)) -> f64| {
            let all = || series.iter().flat_map(|one| &one.points).map(of);
            let least = all().fold(f64::INFINITY, f64::min);
            let most = all().fold(0.0, f64::max);
            if least > most {
                return (0, 1);
            }
            let low = floor(least.log10());
            (low, (-floor(-most.log10())).max(low + 1))
        };
        Axes {
            x: decades(|point| point.0),
            y: decades(|point| point.1),
        }
    }

    fn x(self, value: f64) -> f64 {
        LEFT + (RIGHT - LEFT) * share(value, self.x)
    }

    fn y(self, value: f64) -> f64 {
        BOTTOM - (BOTTOM - TOP) * share(value, self.y)
    }
}

/// Where on an axis of these decades a value is, from 0 to 1.
fn share(value: f64, (low, high): (i32, i32)) -> f64 {
    (value.log10() - f64::from(low)) / f64::from(high - low)
}

#[expect(clippy::cast_possible_truncation, reason = "a logarithm is small")]
fn floor(value: f64) -> i32 {
    value.floor() as i32
}

fn grid(svg: &mut String, axes: Axes) {
    for decade in axes.x.0..=axes.x.1 {
        let x = axes.x(10f64.powi(decade));
        line(svg, (x, TOP), (x, BOTTOM));
        text(svg, (x, BOTTOM + 18.0), "middle", "", &power(decade));
    }
    for decade in axes.y.0..=axes.y.1 {
        let y = axes.y(10f64.powi(decade));
        line(svg, (LEFT, y), (RIGHT, y));
        text(svg, (LEFT - 8.0, y + 4.0), "end", "", &power(decade));
    }
    text(svg, (LEFT, TOP - 12.0), "middle", "", "ns a re-arm");
    let middle = (LEFT + RIGHT) / 2.0;
    text(svg, (middle, BOTTOM + 38.0), "middle", "", "timers armed");
}

/// A power of ten as people write it.
fn power(decade: i32) -> String {
    match decade {
        -1 => "0.1".to_owned(),
        0 => "1".to_owned(),
        1 => "10".to_owned(),
        2 => "100".to_owned(),
        3 => "1,000".to_owned(),
        _ => format!("10<tspan dy=\"-4\" font-size=\"9\">{decade}</tspan>"),
    }
}

fn curve(svg: &mut String, axes: Axes, series: &Series<'_>) {
    let class = class(series.name);
    let points = series.points.iter().map(|(x, y)| (axes.x(*x), axes.y(*y)));
    let path: Vec<String> = points
        .clone()
        .map(|(x, y)| format!("{x:.1},{y:.1}"))
        .collect();
    let path = path.join(" ");
    put(
        svg,
        format_args!("<polyline class=\"{class}line\" points=\"{path}\"/>\n"),
    );
    for (x, y) in points {
        put(
            svg,
            format_args!("<circle class=\"{class}dot\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"/>\n"),
        );
    }
}

/// The names stand at the right ends of their lines, moved apart where they would overlap.
fn names(svg: &mut String, axes: Axes, series: &[Series<'_>]) {
    let ends = series
        .iter()
        .filter_map(|one| Some((axes.y(one.points.last()?.1), one.name)));
    let mut ends: Vec<(f64, &str)> = ends.collect();
    ends.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut free = f64::NEG_INFINITY;
    for (y, name) in ends {
        let y = y.max(free);
        free = y + LINE;
        text(
            svg,
            (RIGHT + 12.0, y + 4.0),
            "start",
            class(name),
            &escaped(name),
        );
    }
}

/// Our lines differ from the peers' by colour and weight.
fn class(name: &str) -> &'static str {
    let is_ours = ["Timer", "Lazy", "Coalesced"]
        .iter()
        .any(|ours| name.starts_with(ours));
    if is_ours { "ours " } else { "" }
}

fn escaped(name: &str) -> String {
    name.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

fn line(svg: &mut String, from: (f64, f64), to: (f64, f64)) {
    let ((x1, y1), (x2, y2)) = (from, to);
    put(
        svg,
        format_args!(
            "<line class=\"grid\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>\n"
        ),
    );
}

fn text(svg: &mut String, (x, y): (f64, f64), anchor: &str, class: &str, text: &str) {
    let class = class.trim_end();
    put(
        svg,
        format_args!(
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>\n"
        ),
    );
}

fn put(svg: &mut String, text: std::fmt::Arguments<'_>) {
    svg.write_fmt(text).expect("a string takes all");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_axes_are_whole_decades_around_the_points() {
        let points = vec![(1_000.0, 8.0), (1_000_000.0, 1_200.0)];
        let axes = Axes::around(&[Series { name: "a", points }]);
        assert_eq!((axes.x, axes.y), ((3, 6), (0, 4)));
        assert!((axes.x(1_000.0) - LEFT).abs() < 1e-9);
        assert!((axes.y(1.0) - BOTTOM).abs() < 1e-9);
    }

    #[test]
    fn names_do_not_overlap() {
        let series = ["a", "b", "c"].map(|name| Series {
            name,
            points: vec![(1_000.0, 10.0), (10_000.0, 10.0)],
        });
        let mut svg = String::new();
        names(&mut svg, Axes::around(&series), &series);
        let ys = svg.split(" y=\"").skip(1).map(|rest| {
            let (y, _) = rest.split_once('"').unwrap();
            y.parse::<f64>().unwrap()
        });
        let ys: Vec<f64> = ys.collect();
        assert_eq!(ys.len(), 3);
        assert!(ys.windows(2).all(|pair| pair[1] - pair[0] >= LINE));
    }

    #[test]
    fn a_plot_of_nothing_is_an_empty_one() {
        assert!(timers(&Results::default()).ends_with("</svg>\n"));
    }

    #[test]
    fn every_queue_has_a_line_and_an_escaped_name() {
        let svg = timers(&Results::fake());
        assert_eq!(svg.matches("<polyline").count(), 2);
        assert_eq!(escaped("A<B>"), "A&lt;B&gt;");
    }
}
