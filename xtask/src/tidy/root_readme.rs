//! The front door of the project: its map, its two commands and its program.

use crate::diagnostic::Diagnostic;
use crate::tree::{File, Tree};
use crate::workspace::{Package, Workspace};

const README: &str = "README.md";
const CI: &str = ".ci/run";
const SERVER: &str = "httpd";
const PROGRAM: &str = "crates/evcore/examples/echo.rs";
const PROGRAM_LINES_MAX: usize = 60;

/// The map has one row for each published crate, with its manifest's sentence, and no other.
pub(super) fn the_map_is_what_the_manifests_say(
    tree: &Tree,
    workspace: &Workspace,
) -> Vec<Diagnostic> {
    let Some(readme) = tree.file(README) else {
        return vec![Diagnostic::of(
            README,
            "write it: what this is, and the map of crates",
        )];
    };
    let rows: Vec<String> = workspace.published().map(row).collect();
    let missing = rows
        .iter()
        .filter(|row| readme.text.lines().all(|line| line != row.as_str()))
        .map(|row| Diagnostic::of(README, format!("the map needs the row `{row}`")));
    let others = readme
        .lines()
        .filter(|(_, line)| is_row(line) && !rows.iter().any(|row| row == line))
        .map(|(number, line)| {
            let what = format!("no published crate has this description: `{line}`");
            Diagnostic::at(README, number, what)
        });
    missing.chain(others).collect()
}

/// The README names the command that CI calls first.
pub(super) fn the_test_command_is_the_one_of_ci(tree: &Tree, _: &Workspace) -> Vec<Diagnostic> {
    let ci = tree.file(CI);
    let Some(command) = ci.and_then(|ci| ci.text.lines().find(|line| is_task(line))) else {
        return vec![Diagnostic::of(
            CI,
            "call the test command: a line `cargo xtask test`",
        )];
    };
    needs_command(tree, command)
}

/// The README names the command that runs the server, and the programs that it names exist.
pub(super) fn the_programs_exist(tree: &Tree, workspace: &Workspace) -> Vec<Diagnostic> {
    let command = format!("cargo run --release --bin {SERVER}");
    let mut diagnostics = needs_command(tree, &command);
    let packages = &workspace.packages;
    let kinds: [(&str, Vec<&String>); 2] = [
        ("bin", packages.iter().flat_map(|p| &p.bins).collect()),
        (
            "example",
            packages.iter().flat_map(|p| &p.examples).collect(),
        ),
    ];
    for (kind, exist) in kinds {
        let named = tree
            .file(README)
            .into_iter()
            .flat_map(|it| programs(it, kind));
        for (number, name) in named.filter(|(_, name)| !exist.iter().any(|it| it == name)) {
            let what = format!("no crate has {kind} `{name}`");
            diagnostics.push(Diagnostic::at(README, number, what));
        }
    }
    diagnostics
}

/// The program that the README shows is the example, to the letter: so it is the one that the tests
/// run. It is short.
pub(super) fn its_program_is_the_example(tree: &Tree, _: &Workspace) -> Vec<Diagnostic> {
    let Some(program) = tree.file(PROGRAM) else {
        return vec![Diagnostic::of(PROGRAM, "write it: the README's program")];
    };
    let mut diagnostics = Vec::new();
    let lines = program.text.lines().count();
    if lines > PROGRAM_LINES_MAX {
        let what = format!("{lines} lines, of {PROGRAM_LINES_MAX} at most");
        diagnostics.push(Diagnostic::of(PROGRAM, what));
    }
    let shown = format!("```rust,no_run\n{}```\n", program.text);
    if !tree.file(README).is_some_and(|it| it.text.contains(&shown)) {
        let what = format!("show {PROGRAM} as it is, between ```rust,no_run and ```");
        diagnostics.push(Diagnostic::of(README, what));
    }
    diagnostics
}

fn row(package: &Package) -> String {
    let Package {
        name,
        dir,
        description,
        ..
    } = package;
    format!("| [`{name}`]({dir}) | {description} |")
}

/// Whether a line is a row of the map: one that begins with a link to a crate.
fn is_row(line: &str) -> bool {
    line.starts_with("| [`") && line.contains("](crates/")
}

fn is_task(line: &str) -> bool {
    line.starts_with("cargo xtask ")
}

fn needs_command(tree: &Tree, command: &str) -> Vec<Diagnostic> {
    let names = |readme: &File| readme.text.lines().any(|line| line.trim() == command);
    if tree.file(README).is_some_and(names) {
        return Vec::new();
    }
    vec![Diagnostic::of(
        README,
        format!("name the command `{command}` in a line of its own"),
    )]
}

/// The programs of one kind that a document runs, with their lines.
fn programs<'a>(readme: &'a File, kind: &str) -> impl Iterator<Item = (usize, &'a str)> {
    let option = format!("--{kind} ");
    readme.lines().filter_map(move |(number, line)| {
        let (_, rest) = line.split_once(&option)?;
        let is_of_name = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
        let end = rest.find(|c| !is_of_name(c)).unwrap_or(rest.len());
        Some((number, &rest[..end]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOUND: &str = "# evcore

```sh
cargo xtask test
cargo run --release --bin httpd
```

| crate | what it is |
|---|---|
| [`evcore-token`](crates/evcore-token) | What evcore-token is. |
";
    const SOUND_CI: &str = "#!/usr/bin/env bash\ncargo xtask test\ncargo xtask targets\n";

    fn workspace() -> Workspace {
        let tests = Package {
            published: false,
            ..Package::fake("evcore-tests")
        };
        let token = Package {
            bins: vec![SERVER.to_owned()],
            ..Package::fake("evcore-token")
        };
        Workspace::fake(vec![token, tests])
    }

    type Rule = fn(&Tree, &Workspace) -> Vec<Diagnostic>;

    fn diagnostics(rule: Rule, readme: &str, ci: &str) -> usize {
        rule(&Tree::fake(&[(README, readme), (CI, ci)]), &workspace()).len()
    }

    #[test]
    fn a_sound_readme_has_no_diagnostic() {
        assert_eq!(
            diagnostics(the_map_is_what_the_manifests_say, SOUND, SOUND_CI),
            0
        );
        assert_eq!(
            diagnostics(the_test_command_is_the_one_of_ci, SOUND, SOUND_CI),
            0
        );
        assert_eq!(diagnostics(the_programs_exist, SOUND, SOUND_CI), 0);
    }

    #[test]
    fn a_sentence_that_differs_is_a_row_too_few_and_one_too_many() {
        let other = SOUND.replace("What evcore-token is.", "Tokens.");
        assert_eq!(
            diagnostics(the_map_is_what_the_manifests_say, &other, SOUND_CI),
            2
        );
    }

    #[test]
    fn a_row_for_what_is_not_published_is_reported() {
        let more = format!("{SOUND}| [`evcore-tests`](crates/evcore-tests) | Tests. |\n");
        assert_eq!(
            diagnostics(the_map_is_what_the_manifests_say, &more, SOUND_CI),
            1
        );
    }

    #[test]
    fn the_commands_must_be_there() {
        let none = SOUND.replace("cargo", "make");
        assert_eq!(
            diagnostics(the_test_command_is_the_one_of_ci, &none, SOUND_CI),
            1
        );
        assert_eq!(diagnostics(the_programs_exist, &none, SOUND_CI), 1);
    }

    #[test]
    fn a_test_command_that_ci_does_not_call_is_reported() {
        let other = SOUND_CI.replace("xtask test", "xtask ci");
        assert_eq!(
            diagnostics(the_test_command_is_the_one_of_ci, SOUND, &other),
            1
        );
        assert_eq!(diagnostics(the_test_command_is_the_one_of_ci, SOUND, ""), 1);
    }

    #[test]
    fn an_example_that_does_not_exist_is_reported() {
        let more = format!("{SOUND}Try `cargo run --example proxy`.\n");
        assert_eq!(diagnostics(the_programs_exist, &more, SOUND_CI), 1);
        let other = more.replace("--example", "--bin");
        assert_eq!(diagnostics(the_programs_exist, &other, SOUND_CI), 1);
    }

    #[test]
    fn the_program_is_shown_as_it_is_and_is_short() {
        let count = |program: &str, readme: &str| {
            let tree = Tree::fake(&[(README, readme), (PROGRAM, program)]);
            its_program_is_the_example(&tree, &workspace()).len()
        };
        let main = "fn main() {}\n";
        let shown = format!("# evcore\n\n```rust,no_run\n{main}```\n");
        assert_eq!(count(main, &shown), 0);
        assert_eq!(count("fn main() { }\n", &shown), 1);
        assert_eq!(count(main, SOUND), 1);
        let long = main.repeat(PROGRAM_LINES_MAX + 1);
        assert_eq!(count(&long, &shown.replace(main, &long)), 1);
        assert_eq!(
            its_program_is_the_example(&Tree::default(), &workspace()).len(),
            1
        );
    }

    #[test]
    fn a_missing_readme_is_reported() {
        let rule = the_map_is_what_the_manifests_say;
        assert_eq!(rule(&Tree::default(), &workspace()).len(), 1);
    }
}
