//! Builds the peers that are written in C, where their libraries are installed. One needs none.
//!
//! Whether one is here is decided by compiling and linking its file: headers without a library, or
//! no C compiler at all, are an absence like any other and no failure.

use std::env;
use std::path::Path;
use std::process::Command;

/// The files of `c/`, with the arguments that link each.
///
/// libevent before libev, which has functions of the same names for compatibility: the
/// loader takes the first.
const PEERS: [(&str, Option<&str>); 4] = [
    ("libevent", Some("event_core")),
    ("libev", Some("ev")),
    ("libuv", Some("uv")),
    ("nginx_rbtree", None),
];

fn main() {
    println!("cargo::rerun-if-changed=c");
    for (peer, library) in PEERS {
        println!("cargo::rustc-check-cfg=cfg(peer_{peer})");
        if links(peer, library) && compiles(peer) {
            println!("cargo::rustc-cfg=peer_{peer}");
            if let Some(library) = library {
                println!("cargo::rustc-link-lib={library}");
            }
        }
    }
}

/// Whether the file becomes a whole with its library, quietly tried.
fn links(peer: &str, library: Option<&str>) -> bool {
    let compiler = cc::Build::new().cargo_warnings(false).try_get_compiler();
    let mut command = compiler.map_or_else(|_| Command::new("cc"), |it| it.to_command());
    command.args(["-shared", "-fPIC", "-Wl,-z,defs"]);
    command.arg(format!("c/{peer}.c"));
    command.args(library.map(|it| format!("-l{it}")));
    let out = env::var("OUT_DIR").expect("cargo sets it");
    let output = command
        .arg("-o")
        .arg(Path::new(&out).join("probe"))
        .output();
    output.is_ok_and(|output| output.status.success())
}

/// As fast as it can be, also in a debug build of ours.
fn compiles(peer: &str) -> bool {
    let mut build = cc::Build::new();
    build
        .file(format!("c/{peer}.c"))
        .opt_level(2)
        .warnings(true)
        // A callback has the parameters of its library.
        .flag_if_supported("-Wno-unused-parameter");
    build.try_compile(&format!("peer_{peer}")).is_ok()
}
