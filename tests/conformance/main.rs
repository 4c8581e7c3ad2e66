//! One contract over every backend: each scenario is a test of its own for each backend that this
//! system has, and for the simulator's in each of its shapes; and says by exact traces what every
//! one of them must report.
//!
//! A failure names the backend and the scenario by the path of the test: `edge::poll::...`.
//! Where backends may differ, the scenario says so in as many words. What the simulator has no
//! equivalent of is listed, with the reason, in `no_equivalent.rs`; nothing else is left out there.

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
            |scenario| crate::stage::Stage::of_kernel(evcore_poller::Kind::$kind, scenario),
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
        #[cfg(any(target_os = "linux", target_os = "android"))]
        mod epoll {
            crate::scenarios!(@kernel Epoll: $($scenario),+);
        }
        #[cfg(any(
            target_vendor = "apple",
            target_os = "freebsd",
            target_os = "netbsd",
            target_os = "openbsd",
        ))]
        mod kqueue {
            crate::scenarios!(@kernel Kqueue: $($scenario),+);
        }
        #[cfg(any(target_os = "illumos", target_os = "solaris"))]
        mod port {
            crate::scenarios!(@kernel EventPorts: $($scenario),+);
        }
        mod poll {
            crate::scenarios!(@kernel Poll: $($scenario),+);
        }
        #[cfg(not(any(target_os = "illumos", target_os = "solaris")))]
        mod select {
            crate::scenarios!(@kernel Select: $($scenario),+);
        }
    };
}
pub(crate) use scenarios;

/// What `scenarios` makes modules for.
#[test]
fn every_backend_of_this_system_has_its_tests() {
    let linux = cfg!(any(target_os = "linux", target_os = "android"));
    let illumos = cfg!(any(target_os = "illumos", target_os = "solaris"));
    let tested: &[&str] = if linux {
        &["epoll", "poll", "select"]
    } else if illumos {
        &["port", "poll"]
    } else {
        &["kqueue", "poll", "select"]
    };
    let available = evcore_poller::Kind::available().iter();
    let names: Vec<_> = available.map(ToString::to_string).collect();
    assert_eq!(names, tested);
}
