//! Builds the peers that are written in C, where their libraries are installed.
//!
//! Whether one is here is decided by compiling and linking its file: headers without a library, or
//! no C compiler at all, are an absence like any other and no failure.

use std::env;
use std::path::Path;

/// A file of `c/`, and the library that it calls.
///
/// libevent before libev, which has functions of the same names for those who come from there: the
/// loader takes the first.
const PEERS: &[(&str, &str)] = &[("libevent", "event_core"), ("libev", "ev"), ("libuv", "uv")];

fn main() {
    println!("cargo::rerun-if-changed=c");
    for (peer, library) in PEERS {
        println!("cargo::rustc-check-cfg=cfg(peer_{peer})");
        let source = format!("c/{peer}.c");
        if links(&source, library) && compiles(&source, peer) {
            println!("cargo::rustc-cfg=peer_{peer}");
            println!("cargo::rustc-link-lib={library}");
        }
    }
}

/// Whether the file becomes a whole with its library, quietly tried.
fn links(source: &str, library: &str) -> bool {
    let Ok(compiler) = cc::Build::new().cargo_warnings(false).try_get_compiler() else {
        return false;
    };
    let out = env::var("OUT_DIR").expect("cargo sets it");
    let mut command = compiler.to_command();
    command
        .args(["-shared", "-fPIC", "-Wl,-z,defs", source])
        .arg(format!("-l{library}"));
    let output = command
        .arg("-o")
        .arg(Path::new(&out).join("probe"))
        .output();
    output.is_ok_and(|output| output.status.success())
}

fn compiles(source: &str, peer: &str) -> bool {
    let mut build = cc::Build::new();
    // As fast as they can be, also in a debug build of ours.
    build.file(source).opt_level(2).warnings(true);
    build.try_compile(&format!("peer_{peer}")).is_ok()
}
