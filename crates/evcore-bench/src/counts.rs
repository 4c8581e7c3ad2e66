//! The counts that CI asserts, beside the limits of `counts.txt`.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;

use crate::requests;
use crate::run::{Run, root};
use crate::tools::{Counts, Tool};

/// The file of limits, from the root.
const LIMITS: &str = "crates/evcore-bench/counts.txt";

/// By how much a count may exceed its limit: other versions of the C library differ a little.
const MARGIN: f64 = 1.03;

/// A line of the file.
#[derive(Clone, Debug, PartialEq)]
struct Limit<'a> {
    what: &'a str,
    tool: &'a str,
    event: &'a str,
    words: &'a str,
    peer: &'a str,
    limit: f64,
}

/// Counts everything in the file, and prints each count beside its limit.
///
/// With `update` it writes the counts into the file instead of judging them.
///
/// # Errors
///
/// If a count exceeds its limit by more than the margin, with their number.
pub(crate) fn check(run: &Run, update: bool) -> Result<(), Box<dyn Error>> {
    let path = root().join(LIMITS);
    let text = fs::read_to_string(&path)?;
    let (mut counted, mut exceeded, mut new) = (BTreeMap::new(), 0, String::new());
    for line in text.lines() {
        let measured = match Limit::parse(line)? {
            None => None,
            Some(it) => it.count(run, &mut counted).map(|count| (it, count)),
        };
        let Some((it, count)) = measured else {
            new += &format!("{line}\n");
            continue;
        };
        let is_exceeded = count > it.limit * MARGIN + 1e-6;
        exceeded += usize::from(is_exceeded);
        let verdict = if is_exceeded { "EXCEEDED" } else { "" };
        println!(
            "{:<60} {count:>10.2} of {:>10.2} {verdict}",
            it.what, it.limit
        );
        let (start, _) = line.rsplit_once('|').expect("it was parsed");
        new += &format!("{start}| {:.0}\n", count.ceil());
    }
    if update {
        return Ok(fs::write(path, new)?);
    }
    match exceeded {
        0 => Ok(()),
        _ => Err(format!(
            "{exceeded} counts exceed {LIMITS} by more than 3 %; \
             `evcore-bench counts --update` writes the new ones"
        )
        .into()),
    }
}

impl<'a> Limit<'a> {
    /// `None` for a comment or an empty line.
    fn parse(line: &'a str) -> Result<Option<Limit<'a>>, String> {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return Ok(None);
        }
        let fields: Vec<&str> = line.split('|').map(str::trim).collect();
        let [what, tool, event, words, peer, limit] = fields[..] else {
            return Err(format!("{LIMITS}: not six fields: {line}"));
        };
        let limit = limit
            .parse()
            .map_err(|_| format!("{LIMITS}: no number: {line}"))?;
        Ok(Some(Limit {
            what,
            tool,
            event,
            words,
            peer,
            limit,
        }))
    }

    /// The count; `None`, after saying so, if its tool is not installed.
    fn count(&self, run: &Run, counted: &mut BTreeMap<String, Counts>) -> Option<f64> {
        let tool = match self.tool {
            "callgrind" => Tool::Callgrind,
            "memcheck" => Tool::Memcheck,
            _ => Tool::Strace,
        };
        if !tool.is_installed() {
            println!(
                "not run: {}: {} is not installed",
                self.what,
                tool.program()
            );
            return None;
        }
        let key = format!("{} {} {}", self.tool, self.words, self.peer);
        let counts = counted.entry(key).or_insert_with(|| match self.tool {
            "httpd" => {
                let clients = self.words.parse().expect("a number of clients");
                let calls = requests::each_request(&run.httpd, &run.folder, clients);
                calls
                    .map(|(kind, count)| (kind.to_owned(), count))
                    .collect()
            }
            _ => {
                let words = self.words.split_whitespace();
                let words = words.map(|word| if word == "@" { self.peer } else { word });
                tool.each(run, &words.collect::<Vec<_>>())
            }
        });
        match self.event {
            // Not `sum`, by which no calls are -0.
            "all" => Some(counts.values().fold(0.0, |sum, it| sum + it)),
            event => Some(counts.get(event).copied().unwrap_or(0.0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_limits_is_valid() {
        let text = fs::read_to_string(root().join(LIMITS)).unwrap();
        let limits: Vec<_> = text
            .lines()
            .filter_map(|it| Limit::parse(it).unwrap())
            .collect();
        assert!(limits.len() > 10);
        let tools = ["callgrind", "memcheck", "strace", "httpd"];
        assert!(limits.iter().all(|it| tools.contains(&it.tool)));
        assert!(Limit::parse("a | callgrind | Ir").is_err());
    }
}
