//! Builds the peers that are written in C, where their libraries are installed. One needs none.
//!
//! Whether one is here is decided by compiling and linking its files: headers without a library, or
//! no C compiler at all, are an absence like any other and no failure.

use std::env;
use std::path::Path;

/// A name, under which each folder of `c/` has a file, and the library that the files call.
///
/// libevent before libev, which has functions of the same names for compatibility: the
/// loader takes the first.
const PEERS: &[(&str, &str)] = &[("libevent", "event_core"), ("libev", "ev"), ("libuv", "uv")];

/// The parts that have peers in C.
const PARTS: &[&str] = &["pollers", "timers"];

/// The peer that needs a compiler only, and its file.
const NGINX_TREE: (&str, &str) = ("nginx_rbtree", "c/timers/nginx_rbtree.c");

fn main() {
    println!("cargo::rerun-if-changed=c");
    for (peer, library) in PEERS {
        println!("cargo::rustc-check-cfg=cfg(peer_{peer})");
        let sources: Vec<String> = PARTS.iter().map(|p| format!("c/{p}/{peer}.c")).collect();
        if links(&sources, library) && compiles(&sources, peer) {
            println!("cargo::rustc-cfg=peer_{peer}");
            println!("cargo::rustc-link-lib={library}");
        }
    }
    let (peer, source) = NGINX_TREE;
    println!("cargo::rustc-check-cfg=cfg(peer_{peer})");
    if compiles(&[source.to_owned()], peer) {
        println!("cargo::rustc-cfg=peer_{peer}");
    }
}

/// Whether the files become a whole with their library, quietly tried.
fn links(sources: &[String], library: &str) -> bool {
    let Ok(compiler) = cc::Build::new().cargo_warnings(false).try_get_compiler() else {
        return false;
    };
    let out = env::var("OUT_DIR").expect("cargo sets it");
    let mut command = compiler.to_command();
    command
        .args(["-shared", "-fPIC", "-Wl,-z,defs"])
        .args(sources)
        .arg(format!("-l{library}"));
    let output = command
        .arg("-o")
        .arg(Path::new(&out).join("probe"))
        .output();
    output.is_ok_and(|output| output.status.success())
}

fn compiles(sources: &[String], peer: &str) -> bool {
    let mut build = cc::Build::new();
    // As fast as they can be, also in a debug build of ours.
    build.files(sources).opt_level(2).warnings(true);
    build.try_compile(&format!("peer_{peer}")).is_ok()
}
