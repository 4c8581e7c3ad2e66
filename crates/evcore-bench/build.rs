//! Builds the peers in C whose headers are installed. One of them needs no headers.
//!
//! A peer is absent if its file cannot be compiled, because headers or a C compiler are missing.
//! That is not a failure.

/// The files of `c/`, with the library that each needs.
///
/// libevent comes before libev, which has compatible functions of the same names, because the
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
        let mut build = cc::Build::new();
        build.file(format!("c/{peer}.c"));
        // The peers are optimised, also in a debug build.
        build.opt_level(2).cargo_warnings(false);
        if build.try_compile(&format!("peer_{peer}")).is_ok() {
            println!("cargo::rustc-cfg=peer_{peer}");
            if let Some(library) = library {
                println!("cargo::rustc-link-lib={library}");
            }
        }
    }
}
