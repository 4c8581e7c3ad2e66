//! One contract over every backend: each scenario is a test of its own for each backend that this
//! system has, and says by exact traces what every one of them must report.
//!
//! A failure names the backend and the scenario by the path of the test: `edge::poll::...`.
//! Where backends may differ, the scenario says so in as many words.

mod stage;

mod level;

mod edge;

mod oneshot;

mod closing;

mod changes;

mod descriptors;

mod crowds;

mod timeouts;

mod waking;

mod signals;

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
        mod poll {
            crate::scenarios!(@tests Poll: $($scenario),+);
        }
    };
}
pub(crate) use scenarios;

/// What `scenarios` makes modules for.
#[test]
fn every_backend_of_this_system_has_its_tests() {
    let linux = cfg!(any(target_os = "linux", target_os = "android"));
    let tested: &[&str] = if linux { &["epoll", "poll"] } else { &["poll"] };
    let available = evcore_poller::Kind::available().iter();
    let names: Vec<_> = available.map(ToString::to_string).collect();
    assert_eq!(names, tested);
}
