//! The command line: `run` measures parts and writes the page, `counts` asserts the counts.

use std::error::Error;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use lexopt::{Arg, Parser};

use crate::parts::{PARTS, Part};
use crate::run::{self, Run};
use crate::{counts, page};

pub(crate) const USAGE: &str = "\
evcore-bench run [--quick] [--missing] [--httpd PATH] [--out DIR] [--docs DIR] [PART...]

Measures the parts, all if none is named, and writes the page from all parts that were measured.
`cargo xtask bench` builds everything and runs this.

  --quick     one short round, to see that it works
  --missing   only parts that have no result yet: continues a run that was interrupted
  --httpd     the example server, for the parts that start it (beside this program)
  --out       where the results go (target/evcore-bench)
  --docs      where the page goes (docs)

evcore-bench counts [--httpd PATH] [--update]

Counts instructions, allocations and system calls, and compares them with counts.txt. `--update`
writes them there instead.
";

/// Parses the words after the program's name, and runs what they name.
pub(crate) fn run(args: Vec<String>) -> Result<(), Box<dyn Error>> {
    let mut run = Run {
        quick: false,
        folder: run::root().join("target/evcore-bench"),
        httpd: std::env::current_exe()?.with_file_name("httpd"),
        rounds: 1,
    };
    let (mut docs, mut names) = (run::root().join("docs"), Vec::new());
    let (mut missing, mut update) = (false, false);
    let counts = args.first().is_some_and(|word| word == "counts");
    let mut parser = Parser::from_args(args.into_iter().skip(1).map(OsString::from));
    while let Some(arg) = parser.next()? {
        match arg {
            Arg::Long("quick") => run.quick = true,
            Arg::Long("missing") => missing = true,
            Arg::Long("update") => update = true,
            Arg::Long("httpd") => run.httpd = PathBuf::from(parser.value()?),
            Arg::Long("out") => run.folder = PathBuf::from(parser.value()?),
            Arg::Long("docs") => docs = PathBuf::from(parser.value()?),
            Arg::Value(name) => names.push(name.to_string_lossy().into_owned()),
            other => return Err(format!("{}\n\n{USAGE}", other.unexpected()).into()),
        }
    }
    fs::create_dir_all(&run.folder)?;
    if counts {
        return counts::check(&run, update);
    }
    for part in named(&names)? {
        if !missing || !run.report(part.name).exists() {
            run.part(part)?;
        }
    }
    Ok(page::write(&run, &docs)?)
}

/// The named parts in the order of the page; all if none is named.
fn named(names: &[String]) -> Result<Vec<&'static Part>, String> {
    let is_part = |name: &&String| PARTS.iter().any(|part| part.name == **name);
    if let Some(other) = names.iter().find(|name| !is_part(name)) {
        let known: Vec<&str> = PARTS.iter().map(|part| part.name).collect();
        return Err(format!(
            "no part `{other}`; there are: {}",
            known.join(", ")
        ));
    }
    let is_named = |part: &&Part| names.is_empty() || names.iter().any(|name| name == part.name);
    Ok(PARTS.iter().filter(is_named).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_come_in_the_order_of_the_page_and_none_is_all() {
        let named = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            let parts = named(&names)?;
            Ok::<Vec<&str>, String>(parts.iter().map(|part| part.name).collect())
        };
        assert_eq!(named(&[]).unwrap().len(), PARTS.len());
        assert_eq!(named(&["memory", "clock"]).unwrap(), ["clock", "memory"]);
        assert!(named(&["cloc"]).unwrap_err().contains("there are: "));
    }
}
