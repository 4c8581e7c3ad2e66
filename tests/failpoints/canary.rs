//! Bugs that are planted into what workers share are found by the death of one.
//!
//! (That a look may not be left out, the simulation shows, where workers are stopped as well.)

use std::panic;

use evcore::balancer::{self, Bug};

use crate::{
    POINTS,
    points::Fatal,
    run::{self, Run},
    setting::{Setting, Stage},
};

/// A bug, and where deaths show it.
#[derive(Debug)]
pub(crate) struct Planted {
    bug: Bug,
    setting: Setting,
}

pub(crate) const BUGS: [Planted; 4] = [
    Planted {
        bug: Bug::LockOutlives,
        setting: Setting::Mutex,
    },
    Planted {
        bug: Bug::SeatOutlives,
        setting: Setting::LeastLoaded,
    },
    Planted {
        bug: Bug::DeathUntold,
        setting: Setting::LeastLoadedByLockAtOnce,
    },
    Planted {
        bug: Bug::BellMute,
        setting: Setting::LeastLoadedByLockAtOnce,
    },
];

/// Plants the bug of this name in this process and its children; none of the empty name.
pub(crate) fn plant(name: &str) {
    let planted = BUGS.iter().find(|planted| planted.name() == name);
    balancer::plant(planted.map(|planted| planted.bug));
}

impl Planted {
    pub(crate) fn name(&self) -> String {
        format!("{:?}", self.bug)
    }

    /// The first death that shows it, and what is said then.
    pub(crate) fn found(&self) -> String {
        let name = self.name();
        let complaint_at = |number| {
            complaint(Run {
                setting: self.setting,
                stage: Stage::Serving,
                fatal: Fatal::Number(number),
                bug: Some(&name),
            })
        };
        let said = (0..POINTS).find_map(complaint_at);
        said.unwrap_or_else(|| panic!("{name} was not found"))
    }
}

/// What a run says that fails. It is not for whoever reads the tests' output.
fn complaint(run: Run<'_>) -> Option<String> {
    let loud = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let panic = panic::catch_unwind(|| run::run(run)).err();
    panic::set_hook(loud);
    let text = panic?.downcast_ref::<String>().cloned();
    Some(text.unwrap_or_default())
}
