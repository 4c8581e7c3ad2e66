//! One contract for all backends. Each scenario is a test for each backend of this system, and for
//! the simulator's backend in each of its shapes (sets of features). The path of the test names the
//! backend and the scenario: `edge::poll::...`.
//!
//! If backends may differ, `expectations.rs` has the expectations, and lists the backends that were
//! never tested. `no_equivalent.rs` lists the scenarios that do not run over the simulator's
//! backend, with the reasons.

mod exclusive_run;
mod expectations;
mod fixture;
mod kernel;
mod no_equivalent;
mod platform;
mod simulated;
mod socket;

mod level;

mod priority;

mod edge;

mod oneshot;

mod stream_ends;

mod connecting;

mod changes;

mod reregistering;

mod file_kinds;

mod stale;

mod many_sources;

mod wait_timeouts;

mod waking;

mod signals;

mod exclusive;

mod forking;

mod nesting;

mod refused;

mod model;

/// Makes a `#[test]` of each scenario (a function of a [`Fixture`](fixture::Fixture)) for each
/// backend. Scenarios after `of kernels alone:` do not run over the simulator's backend.
macro_rules! scenarios {
    (@tests $fixture:expr, $($scenario:ident),*) => {
        $(
            #[test]
            fn $scenario() {
                if let Some(mut fixture) = $fixture(stringify!($scenario)) {
                    super::$scenario(&mut fixture);
                }
            }
        )*
    };
    (@kernel $kind:ident: $($scenario:ident),+) => {
        crate::scenarios!(@tests
            |scenario| crate::fixture::Fixture::if_permitted(evcore_poller::BackendKind::$kind, scenario),
            $($scenario),+
        );
    };
    (@world $shape:ident: $($scenario:ident),*) => {
        crate::scenarios!(@tests
            |scenario| Some(crate::fixture::Fixture::of_simulation(
                crate::simulated::Shape::$shape,
                scenario,
            )),
            $($scenario),*
        );
    };
    (of kernels alone: $($kernels_own:ident),+ $(,)?) => {
        crate::scenarios!(@kernels $($kernels_own),+);
        pub(crate) const KERNEL_ONLY: &[&str] = &[$(stringify!($kernels_own)),+];
    };
    ($($scenario:ident),+ $(,)?) => {
        crate::scenarios!(@kernels $($scenario),+);
        crate::scenarios!(@worlds $($scenario),+);
        pub(crate) const KERNEL_ONLY: &[&str] = &[];
    };
    ($($scenario:ident),+; of kernels alone: $($kernels_own:ident),+ $(,)?) => {
        crate::scenarios!(@kernels $($scenario),+, $($kernels_own),+);
        crate::scenarios!(@worlds $($scenario),+);
        pub(crate) const KERNEL_ONLY: &[&str] = &[$(stringify!($kernels_own)),+];
    };
    (@worlds $($scenario:ident),+) => {
        mod simulated_native {
            crate::scenarios!(@world NATIVE: $($scenario),+);
        }
        mod simulated_masked {
            crate::scenarios!(@world MASKED: $($scenario),+);
        }
        mod simulated_edges {
            crate::scenarios!(@world EDGES: $($scenario),+);
        }
        mod simulated_oneshots {
            crate::scenarios!(@world ONESHOTS: $($scenario),+);
        }
    };
    (@kernels $($scenario:ident),+) => {
        crate::expectations::each_kernel!(tests_of, $($scenario),+);
    };
    (@tests_of $module:ident $kind:ident $($scenario:ident),+) => {
        mod $module {
            crate::scenarios!(@kernel $kind: $($scenario),+);
        }
    };
    (@list $module:ident $kind:ident $list:ident) => {
        $list.extend([evcore_poller::BackendKind::$kind]);
    };
}
pub(crate) use scenarios;
