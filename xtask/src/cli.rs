//! The tasks as they are typed, each with a sentence.

#![allow(
    unreachable_pub,
    reason = "xflags writes `pub` on what it generates, in a binary"
)]

xflags::xflags! {
    /// Everything CI runs, as one program.
    cmd xtask {
        /// All that a change must pass, on a machine with only the Rust toolchain.
        cmd test {}

        /// `test`, then `targets`.
        cmd ci {}

        /// Who may depend on whom, and what a manifest must say.
        cmd layers {}

        /// The rules that no compiler checks: sizes, names, places, documents.
        cmd tidy {}

        /// The loom models, with every interleaving that loom can find.
        cmd loom {}

        /// Bugs planted into a copy of the tree, each of which a test has to find.
        cmd mutants {
            /// Only those whose names contain this.
            optional name: String
        }

        /// A type check for the systems that this machine is not.
        cmd targets {}

        /// The example server's figures: system calls and CPU a request, beside nginx.
        cmd measure {}

        /// The example server under wrk and ab while it is reloaded: what they lose, by policy.
        cmd reloads {
            /// How many reloads for each tool and policy: 1000 if not given.
            optional --count count: u32
        }

        /// The parts beside their peers, in one run, into `docs/`. No names: all that there are.
        cmd bench {
            /// `timers`, `clock`, `pollers`, `posted`, `budgets`, `accept`, `kills`, `shortage`.
            repeated part: String
            /// Of servers: more rounds, in as long as it takes.
            optional --full
        }
    }
}
