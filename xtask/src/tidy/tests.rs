//! A small tree without a fault, and each fault that the rules find in it.

use super::faults;
use crate::source_tree::{File, Tree};
use crate::workspace::{self, Workspace};

/// Files, each after its path. The words in capitals stand for what the rules would find in this
/// file, or what the manifests have.
const SOUND: &str = r##"
== README.md
# evcore
cargo xtask test
cargo run --release --bin httpd
| [`evcore-token`](crates/evcore-token) | DESCRIPTION |
```rust,no_run
fn main() {}
```
It needs Rust VERSION. [b](docs/a.md) [c](https://c.d/e) [f](#g) `[h](h.md)`
== docs/a.md
[b](../README.md) ![docs](./a.md#h)
```
[i](i.md)
```
== ARCHITECTURE.md
# Page
## Glossary
| **gate fence** | a thing |
### `evcore-token`
Invariant: x.
Absent: y.
== CHANGELOG.md
# C
## Unreleased
Rust VERSION
## 0.0.1
Rust 1.13
== .ci/run
set -e
cargo xtask test --ci
== crates/evcore/examples/echo.rs
fn main() {}
== crates/evcore-token/README.md
# evcore-token
== crates/evcore-token/src/lib.rs
//! fn
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
pub use a::{GateFence, BindError};
pub use evcore_clock::Gate;
const _: () = { const fn d() {} };
== crates/evcore-token/tests/port.rs
// 127.0.0.1:80
"127.0.0.1:0", "[::1]:65536"
== crates/evcore-poller/src/call.rs
#!ALLOW(unsafe_code, reason = "it calls C")]
unsafe { x() }
== Cargo.toml
unsafe_code = "deny"
== tests/compat/Cargo.toml
unsafe_code = "deny"
"##;

/// What is replaced in these files, by what, and what is reported then.
const FAULTS: &str = r##"
set -e                  | cd HOME                | .ci/run:1: a path of one machine
[b](../                 | \r\n[b](../            | docs/a.md:1: remove the white space
a.md#h)                 | a.md) \n               | docs/a.md:1: remove the white space
x()                     | x()\n    AND let A = b | a let chain
// 127                  | 127                    | bind to port 0
127.0.0.1:0             | (LOCALHOST, 8080)      | bind to port 0
//! fn                  | pub fn b() {}          | a module of its own
//! fn                  | impl C {}              | a module of its own
x()                     | LONG                   | of 600 at most
# evcore-token          | # evcore-token\nLONG   | of 60 at most
call.rs                 | utils.rs               | names no idea
#!ALLOW                 | #ALLOW                 | with a reason
, reason = "it          | )]//                   | with a reason
unsafe {                | {                      | deny it again
//! fn                  | #!ALLOW(unsafe_code)]  | for the crates that call the OS
#![forbid               | // #![forbid           | src/lib.rs: it needs `#![forbid(unsafe_code)]`
= "deny"                | = "warn"               | Cargo.toml: it needs `unsafe_code = "deny"`
compat/Cargo            | compact/Cargo          | tests/compat/Cargo.toml: it needs `unsafe_code
../README.md            | README.md              | no file `README.md`
../README.md            | ../../README.md        | no file `../../README.md`
../README.md            | /README.md             | no file `/README.md`
```\n[i]                | [i]                    | no file `i.md`
[b](../                 | [b]: b.md\n(           | no file `b.md`
# evcore-token          | # token                | needs "\n# evcore-token
#![doc                  | // #![doc              | needs "\n#![doc
DESCRIPTION             | x                      | needs "\n| [`evcore-token`]
[`evcore-token          | [`evcore-tok           | there is no `evcore-tok`
bin httpd               | example chat           | there is no `example chat`
 --ci                   |                        | needs "\ncargo xtask test --ci\n"
main() {}               | main() { }             | needs "\n```rust,no_run\nfn main() {}
Rust VERSION            | Rust 1.12              | README.md: Rust 1.12, not
Rust VERSION            | MSRV: 1.12             | README.md: Rust 1.12, not
Rust VERSION            | Trust 1.12             | nothing
Rust VERSION\n## 0.0.1  | Rust 1.12\n## 0.0.1    | CHANGELOG.md: Rust 1.12, not
Unreleased              | 0.0.2                  | needs "\n## Unreleased
Absent                  | Present                | ARCHITECTURE.md, evcore-token: it needs "\nAbsent
### `evcore-token`      | ### evcore-token       | ARCHITECTURE.md, evcore-token: it needs "\nInv
gate fence              | `GateFence`            | nothing
gate fence              | gate                   | explain `GateFence`
BindError               | MAX_ID, Result, Gate   | nothing
BindError               | MAX_ID, Latch          | explain `Latch`
"##;

/// What is reported of the files with an edit.
fn reported(workspace: &Workspace, from: &str, to: &str) -> Vec<String> {
    assert!(SOUND.contains(from), "{from}");
    let mut packages = workspace.packages.iter();
    let token = packages.find(|it| it.name == "evcore-token").unwrap();
    let values = [
        ("DESCRIPTION", token.description.clone().unwrap()),
        ("VERSION", format!("1.{}", workspace::rust_minor(workspace))),
        ("ALLOW", "[allow".to_owned()),
        ("AND", "&&".to_owned()),
        ("HOME", ["/", "home/me/evcore"].concat()),
        ("LONG", "//\n".repeat(600)),
    ];
    let mut text = SOUND.replacen(from, to, 1);
    for (word, value) in values {
        text = text.replace(word, &value);
    }
    let files = text.split("\n== ").skip(1).map(|section| {
        let (path, text) = section.split_once('\n').unwrap();
        let (path, text) = (path.to_owned(), format!("{text}\n"));
        File { path, text }
    });
    let files = files.collect();
    faults(&Tree { files }, workspace)
}

#[test]
fn each_rule_finds_its_fault() {
    let mut workspace = workspace::load().unwrap();
    let has = ["evcore-token", "evcore-httpd"].map(str::to_owned);
    workspace.packages.retain(|it| has.contains(&it.name));
    assert_eq!(reported(&workspace, "", ""), [""; 0]);
    for row in FAULTS.trim().lines() {
        let columns: Vec<&str> = row.split(" | ").map(str::trim_end).collect();
        let unescaped = |text: &str| text.trim_end().replace("\\n", "\n").replace("\\r", "\r");
        let [from, to] = [columns[0], columns[1]].map(unescaped);
        let reported = reported(&workspace, &from, &to);
        let is_right = match columns[2] {
            "nothing" => reported.is_empty(),
            what => reported.iter().any(|it| it.contains(what)),
        };
        assert!(is_right, "{row}: {reported:?}");
    }
}
