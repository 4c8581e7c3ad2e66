//! Builds the *peers* in C: the libraries with which the benchmarks compare the project.
//! `nginx_rbtree` needs only a C compiler. `nginx` needs the source of nginx, in the directory that
//! `NGINX_SOURCE` names. The others need the installed headers of their libraries.
//!
//! A peer is absent if its file cannot be compiled, because headers or a C compiler are missing.
//! That is not a failure.

use std::env;

/// The peers that consist of one file, `c/NAME.c`, each with the library that it needs.
///
/// libev also defines functions with libevent's names. The loader takes the first definition, so
/// libevent comes first.
const PEERS: [(&str, Option<&str>); 4] = [
    ("libevent", Some("event_core")),
    ("libev", Some("ev")),
    ("libuv", Some("uv")),
    ("nginx_rbtree", None),
];

fn main() {
    println!("cargo::rerun-if-changed=c");
    println!("cargo::rerun-if-env-changed=NGINX_SOURCE");
    for (peer, library) in PEERS {
        compile(peer, library, cc::Build::new().file(format!("c/{peer}.c")));
    }
    let mut nginx = cc::Build::new();
    // The headers in `c/nginx` take the places of nginx's own headers.
    nginx.include("c/nginx").include("c").file("c/nginx.c");
    if let Ok(source) = env::var("NGINX_SOURCE") {
        println!("cargo::rerun-if-changed={source}/src/event");
        for (folder, file) in [("core", "ngx_rbtree.c"), ("event", "ngx_event_timer.c")] {
            nginx.include(format!("{source}/src/{folder}"));
            nginx.file(format!("{source}/src/{folder}/{file}"));
        }
    }
    compile("nginx", None, &mut nginx);
}

/// Compiles the files of a peer, and enables its `cfg` if that succeeds.
fn compile(peer: &str, library: Option<&str>, files: &mut cc::Build) {
    println!("cargo::rustc-check-cfg=cfg(peer_{peer})");
    // The peers are optimised, also in a debug build.
    files.opt_level(2).cargo_warnings(false);
    if files.try_compile(&format!("peer_{peer}")).is_ok() {
        println!("cargo::rustc-cfg=peer_{peer}");
        if let Some(library) = library {
            println!("cargo::rustc-link-lib={library}");
        }
    }
}
