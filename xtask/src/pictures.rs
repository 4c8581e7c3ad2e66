//! The pictures of ARCHITECTURE.md: a turn (an iteration of the event loop), and the crates. `tidy`
//! checks that the files are up to date.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

use crate::Result;
use crate::layers::SHIPS;

#[derive(Clone)]
struct Room {
    x: usize,
    y: usize,
    width: usize,
    name: String,
    text: String,
}

const HEIGHT: usize = 56;
const GAP: usize = 16;
const WIDTH: usize = 960;

/// A box that is narrower than this has its name in smaller letters. `instrument` needs a width of
/// 77.
const NARROW: usize = 80;

/// The phases of a turn, in two rows. The second row has for each phase its name in `turn.rs`, its
/// name in the picture, and the text below it.
const BEFORE: &[(&str, &str)] = &[
    ("plan", "listen or not"),
    ("timeout", "until the next deadline"),
    ("wait", "the kernel's call"),
    ("clock", "one reading"),
];
const PHASES: &[(&str, &str, &str)] = &[
    ("Events", "events", "Ready"),
    ("ChooseEvictions", "choose", "which to evict"),
    ("Accepts", "accepts", "Accepted"),
    ("ReleaseLock", "release", "the accept lock"),
    ("Wakes", "wakes", "Woken"),
    ("Timers", "timers", "Expired"),
    ("Posts", "posts", "Ready"),
    ("Evictions", "evictions", "Evict"),
];

pub(crate) fn all() -> [(&'static str, String); 2] {
    [
        ("docs/pictures/turn.svg", turn()),
        ("docs/pictures/crates.svg", crates()),
    ]
}

pub(crate) fn write() -> Result {
    for (path, picture) in all() {
        fs::write(path, picture)?;
    }
    Ok(())
}

fn turn() -> String {
    let before = row(GAP, BEFORE.iter().map(|(name, text)| (*name, *text)));
    let phases = PHASES.iter().map(|(_, name, text)| (*name, *text));
    let after = row(2 * GAP + HEIGHT + 2 * GAP, phases);
    let (top, bottom) = (GAP + HEIGHT, 4 * GAP + HEIGHT);
    let (first, last) = (GAP + after[0].width / 2, WIDTH - GAP - after[0].width / 2);
    let (plan, clock) = (GAP + before[0].width / 2, WIDTH - GAP - before[0].width / 2);
    // From the clock down to the events, and from the last phase up to the plan.
    let down = format!("M{clock} {top} v{GAP} H{} V{bottom}", first + GAP);
    let end = bottom + HEIGHT;
    let up = format!(
        "M{last} {end} v{GAP} H{} V{} H{plan} V{GAP}",
        GAP / 2,
        GAP / 2
    );
    picture(end + 2 * GAP, &[before, after].concat(), &[down, up])
}

/// The crates on floors: each stands on the crates that it depends on.
fn crates() -> String {
    let ours: BTreeMap<&str, Vec<&str>> = SHIPS
        .iter()
        .map(|(name, ships)| {
            let ships = ships.split_whitespace();
            (
                *name,
                ships.filter(|ship| ship.starts_with("evcore")).collect(),
            )
        })
        .collect();
    let mut floors: Vec<Vec<&str>> = Vec::new();
    for name in ours.keys() {
        let floor = floor(name, &ours);
        floors.resize(floors.len().max(floor + 1), Vec::new());
        floors[floor].push(name);
    }
    let count = floors.len();
    let mut rooms = Vec::new();
    for (floor, names) in floors.iter().enumerate() {
        let y = GAP + (count - 1 - floor) * (HEIGHT + 3 * GAP);
        let short = |name: &&str| match name.strip_prefix("evcore-") {
            Some(rest) => rest.to_owned(),
            None => (*name).to_owned(),
        };
        let names: Vec<String> = names.iter().map(short).collect();
        rooms.extend(row(y, names.iter().map(|name| (name.as_str(), ""))));
    }
    let place = |name: &str| {
        let short = name.strip_prefix("evcore-").unwrap_or(name);
        rooms.iter().find(|room| room.name == short)
    };
    let mut arrows = Vec::new();
    for (name, ships) in &ours {
        for ship in ships {
            if let (Some(from), Some(to)) = (place(name), place(ship)) {
                let (x1, x2) = (from.x + from.width / 2, to.x + to.width / 2);
                arrows.push(format!("M{x1} {} L{x2} {}", from.y + HEIGHT, to.y));
            }
        }
    }
    picture(count * (HEIGHT + 3 * GAP) - GAP, &rooms, &arrows)
}

/// Number of floors that a crate stands above the ground.
fn floor(name: &str, ours: &BTreeMap<&str, Vec<&str>>) -> usize {
    let below = ours.get(name).into_iter().flatten();
    below.map(|name| floor(name, ours) + 1).max().unwrap_or(0)
}

fn row<'a>(y: usize, of: impl ExactSizeIterator<Item = (&'a str, &'a str)>) -> Vec<Room> {
    let width = (WIDTH - GAP) / of.len() - GAP;
    of.enumerate()
        .map(|(nth, (name, text))| Room {
            x: GAP + nth * (width + GAP),
            y,
            width,
            name: name.to_owned(),
            text: text.to_owned(),
        })
        .collect()
}

fn picture(height: usize, rooms: &[Room], arrows: &[String]) -> String {
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\">\n\
         <style>\n\
         rect {{ fill: #f6f8fa; stroke: #57606a }}\n\
         path {{ fill: none; stroke: #8c959f; marker-end: url(#tip) }}\n\
         marker path {{ fill: #8c959f; stroke: none }}\n\
         text {{ font: 14px sans-serif; text-anchor: middle; fill: #1f2328 }}\n\
         .small {{ font-size: 11px; fill: #57606a }}\n\
         .narrow {{ font-size: 12px }}\n\
         @media (prefers-color-scheme: dark) {{\n\
         rect {{ fill: #161b22; stroke: #8b949e }}\n\
         text {{ fill: #e6edf3 }} .small {{ fill: #8b949e }}\n\
         }}\n\
         </style>\n\
         <defs><marker id=\"tip\" viewBox=\"0 0 6 6\" refX=\"6\" refY=\"3\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\"><path d=\"M0 0 L6 3 L0 6z\"/></marker></defs>\n"
    );
    for arrow in arrows {
        let _ = writeln!(svg, "<path d=\"{arrow}\"/>");
    }
    for Room {
        x,
        y,
        width,
        name,
        text,
    } in rooms
    {
        let middle = x + width / 2;
        let line = if text.is_empty() { 33 } else { 24 };
        let class = if *width < NARROW {
            " class=\"narrow\""
        } else {
            ""
        };
        let _ = writeln!(
            svg,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{HEIGHT}\" rx=\"6\"/>\n\
             <text{class} x=\"{middle}\" y=\"{}\">{name}</text>\n\
             <text class=\"small\" x=\"{middle}\" y=\"{}\">{text}</text>",
            y + line,
            y + 43,
        );
    }
    svg.push_str("</svg>\n");
    svg
}

#[test]
fn the_picture_of_a_turn_has_the_phases_of_the_loop_in_order() {
    crate::workspace::load().unwrap();
    let turn = fs::read_to_string("crates/evcore/src/turn.rs").unwrap();
    let rows = regex_lite::Regex::new(r"Phase::(\w+) => \(").unwrap();
    let phases: Vec<_> = rows
        .captures_iter(&turn)
        .map(|found| found[1].to_owned())
        .collect();
    let drawn: Vec<_> = PHASES.iter().map(|(phase, ..)| *phase).collect();
    assert_eq!(phases, drawn);
}
