//! The tasks as they are typed, each with a sentence.

#![allow(
    unreachable_pub,
    reason = "xflags writes `pub` on what it generates, in a binary"
)]

xflags::xflags! {
    /// Everything CI runs, as one program.
    cmd xtask {
        /// Everything that a change must pass, with only the Rust toolchain.
        cmd test {}

        /// `test`, `packages` and `targets`.
        cmd ci {}

        /// Checks the dependencies between crates and the contents of manifests.
        cmd layers {}

        /// Checks rules that no compiler knows: sizes, names, places, documents.
        cmd tidy {}

        /// Runs the loom models.
        cmd loom {}

        /// Plants bugs into a copy of the tree, each of which a test must find.
        cmd mutants {
            /// Only mutants whose names contain this.
            optional name: String
        }

        /// Packages the published crates, and builds each package. Needs the network.
        cmd packages {}

        /// Type-checks the workspace for other systems.
        cmd targets {}

        /// Measures httpd beside nginx: system calls and CPU time for each request.
        cmd measure {}

        /// Reloads httpd under the load of wrk and ab, and counts lost requests, for each policy.
        cmd reloads {
            /// Reloads for each tool and policy; 1000 by default.
            optional --count count: u32
        }

        /// Measures the parts beside their peers, and writes `docs/`. Without names: all parts.
        cmd bench {
            /// `timers`, `clock`, `pollers`, `posted`, `budgets`, `accept`, `kills`, `shortage`.
            repeated part: String
            /// More rounds for servers.
            optional --full
        }
    }
}
