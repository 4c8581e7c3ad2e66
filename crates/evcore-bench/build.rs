//! Builds the peers that are written in C, where their headers are installed. One needs none.
//!
//! Compiling a peer's file decides whether the peer is here. Missing headers, or no C compiler at
//! all, mean that it is absent; they are not a failure.

/// The files of `c/`, with the library that each needs.
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
        let mut build = cc::Build::new();
        build.file(format!("c/{peer}.c"));
        // As fast as it can be, also in a debug build of ours.
        build.opt_level(2).cargo_warnings(false);
        if build.try_compile(&format!("peer_{peer}")).is_ok() {
            println!("cargo::rustc-cfg=peer_{peer}");
            if let Some(library) = library {
                println!("cargo::rustc-link-lib={library}");
            }
        }
    }
}
