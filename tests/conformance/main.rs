//! One contract over every backend: each scenario is a test of its own for each backend that this
//! system has, and says by exact traces what every one of them must report.
//!
//! A failure names the backend and the scenario by the path of the test: `edge::poll::...`.
//! Where backends may differ, the scenario says so in as many words.

mod company;
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

/// Makes a `#[test]` of each scenario (a function of a [`Stage`](stage::Stage)) for each backend.
macro_rules! scenarios {
    (@tests $kind:ident: $($scenario:ident),+) => {
        $(
            #[test]
            fn $scenario() {
                let kind = evcore_poller::Kind::$kind;
                super::$scenario(&mut crate::stage::Stage::new(kind, stringify!($scenario)));
            }
        )+
    };
    ($($scenario:ident),+ $(,)?) => {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        mod epoll {
            crate::scenarios!(@tests Epoll: $($scenario),+);
        }
        #[cfg(any(
            target_vendor = "apple",
            target_os = "freebsd",
            target_os = "netbsd",
            target_os = "openbsd",
        ))]
        mod kqueue {
            crate::scenarios!(@tests Kqueue: $($scenario),+);
        }
        #[cfg(any(target_os = "illumos", target_os = "solaris"))]
        mod port {
            crate::scenarios!(@tests EventPorts: $($scenario),+);
        }
        mod poll {
            crate::scenarios!(@tests Poll: $($scenario),+);
        }
        #[cfg(not(any(target_os = "illumos", target_os = "solaris")))]
        mod select {
            crate::scenarios!(@tests Select: $($scenario),+);
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
