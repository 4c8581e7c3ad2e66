//! The tasks as they are typed, each with a sentence.

#![allow(
    unreachable_pub,
    reason = "xflags writes `pub` on what it generates, in a binary"
)]

xflags::xflags! {
    /// Everything CI runs, as one program.
    cmd xtask {
        /// Everything that a change must pass, with only the Rust toolchain.
        cmd test {
            /// What finds most faults, in a few minutes.
            optional --quick
            /// Also what needs the network or Debian's compiler.
            optional --ci
        }

        /// What takes long and seldom finds anything.
        cmd nightly {}

        /// Checks the dependencies between crates and the contents of manifests.
        cmd layers {}

        /// Checks rules that no compiler knows: sizes, names, places, documents.
        cmd tidy {}

        /// Runs the loom models, in all interleavings that their files ask for.
        cmd loom {}

        /// Plants bugs into a copy of the tree, each of which a test must find.
        cmd mutants {
            /// Only mutants whose names contain this.
            optional name: String
        }

        /// Counts instructions, allocations and system calls, and compares them with their limits.
        cmd counts {}

        /// Checks licences, sources and versions of dependencies. Needs cargo-deny.
        cmd deny {}

        /// Packages the published crates, and builds each package. Needs the network.
        cmd packages {}

        /// Type-checks the workspace for other systems.
        cmd targets {}

        /// Measures the parts beside their peers, and writes docs/performance.md.
        cmd bench {
            /// Only these parts: turn, pollers, timers, clock, memory, whole, proxies,
            /// datagrams, accept, kills.
            repeated part: String
            /// One short round, to see that it works.
            optional --quick
            /// Only parts that have no result yet.
            optional --missing
            /// Where the results go; target/evcore-bench by default.
            optional --out out: String
            /// Where the page goes; docs by default.
            optional --docs docs: String
        }

        /// Serves the dashboard, under a load, while workers are killed.
        cmd demo {
            /// How long it lasts; 120 by default.
            optional --seconds seconds: u64
        }

        /// Takes the pictures in docs/dashboard. Needs chromium, chromium-driver and pngquant.
        cmd screenshots {}
    }
}

impl Bench {
    /// The words as `evcore-bench run` takes them.
    pub(crate) fn words(&self) -> Vec<String> {
        let flags = [("--quick", self.quick), ("--missing", self.missing)];
        let flags = flags.iter().filter(|(_, is_set)| *is_set);
        let values = [("--out", &self.out), ("--docs", &self.docs)];
        let values = values
            .iter()
            .filter_map(|(name, it)| Some([*name, it.as_deref()?]));
        let words = flags.map(|(name, _)| *name).chain(values.flatten());
        let parts = self.part.iter().cloned();
        words.map(str::to_owned).chain(parts).collect()
    }
}
