//! One contract over every backend: each scenario is a test of its own for each backend that this
//! system has, and for the simulator's in each of its shapes; and says by exact traces what every
//! one of them must report.
//!
//! A failure names the backend and the scenario by the path of the test: `edge::poll::...`.
//! Where backends may differ, `backends.rs` has what is expected of each, and says which of these
//! expectations were never run. What the simulator has no equivalent of is listed, with the reason,
//! in `no_equivalent.rs`; nothing else is left out there.

mod backends;
mod company;
mod ground;
mod kernel;
mod no_equivalent;
mod simulated;
mod socket;
mod stage;

mod level;

mod edge;

mod oneshot;

mod closing;

mod connecting;

mod changes;

mod descriptors;

mod stale;

mod crowds;

mod timeouts;

mod waking;

mod signals;

mod exclusive;

mod forking;

mod refused;

mod model;

/// Makes a `#[test]` of each scenario (a function of a [`Stage`](stage::Stage)) for each backend;
/// of those behind `of kernels alone:`, for each backend but the simulator's.
macro_rules! scenarios {
    (@tests $stage:expr, $($scenario:ident),*) => {
        $(
            #[test]
            fn $scenario() {
                super::$scenario(&mut $stage(stringify!($scenario)));
            }
        )*
    };
    (@kernel $kind:ident: $($scenario:ident),+) => {
        crate::scenarios!(@tests
            |scenario| crate::stage::Stage::of_kernel(evcore_poller::BackendKind::$kind, scenario),
            $($scenario),+
        );
    };
    (@world $shape:ident: $($scenario:ident),*) => {
        crate::scenarios!(@tests
            |scenario| crate::stage::Stage::of_world(crate::simulated::Shape::$shape, scenario),
            $($scenario),*
        );
    };
    (of kernels alone: $($kernels_own:ident),+ $(,)?) => {
        crate::scenarios!(@kernels $($kernels_own),+);
        pub(crate) const OF_KERNELS_ALONE: &[&str] = &[$(stringify!($kernels_own)),+];
    };
    ($($scenario:ident),+ $(,)?) => {
        crate::scenarios!(@kernels $($scenario),+);
        crate::scenarios!(@worlds $($scenario),+);
        pub(crate) const OF_KERNELS_ALONE: &[&str] = &[];
    };
    ($($scenario:ident),+; of kernels alone: $($kernels_own:ident),+ $(,)?) => {
        crate::scenarios!(@kernels $($scenario),+, $($kernels_own),+);
        crate::scenarios!(@worlds $($scenario),+);
        pub(crate) const OF_KERNELS_ALONE: &[&str] = &[$(stringify!($kernels_own)),+];
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
        crate::backends::each_kernel!(tests_of, $($scenario),+);
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
