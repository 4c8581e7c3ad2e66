//! A limit on the clients and the faults of a run, so that a report shows little besides the
//! failure.

use std::{env, time::Duration};

use crate::{faults::Fault, rng::whole_ns};

/// The environment variable with the largest number of clients.
const CLIENTS: &str = "EVCORE_SIM_CLIENTS";

/// The environment variable with the names of the faults that may occur.
const FAULTS: &str = "EVCORE_SIM_FAULTS";

/// The environment variable with the time, in seconds, after which no fault occurs.
const FAULTS_UNTIL: &str = "EVCORE_SIM_FAULTS_UNTIL";

/// The value of `FAULTS` if no fault may occur.
const NO_FAULT: &str = "none";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Restriction {
    /// Maximum number of clients that [`Sim::clients`](crate::Sim::clients) starts.
    pub(crate) clients: Option<usize>,
    /// A bit for each fault that may occur.
    pub(crate) faults: u32,
    pub(crate) faults_until_ns: Option<u64>,
}

impl Restriction {
    pub(crate) const NONE: Self = Self {
        clients: None,
        faults: u32::MAX,
        faults_until_ns: None,
    };

    /// The restriction that the environment variables set.
    ///
    /// # Panics
    ///
    /// If a variable has an invalid value.
    pub(crate) fn from_environment() -> Self {
        let read = |name| env::var(name).ok();
        Self::parse(read(CLIENTS), read(FAULTS), read(FAULTS_UNTIL))
    }

    fn parse(clients: Option<String>, faults: Option<String>, until: Option<String>) -> Self {
        let refuse = |name: &str, value: &str, must: &str| -> ! {
            panic!("{name}={value:?}: it must be {must}")
        };
        let clients = clients.map(|value| {
            let number = value.parse();
            number.unwrap_or_else(|_| refuse(CLIENTS, &value, "a whole number"))
        });
        let faults = faults.map_or(u32::MAX, |value| {
            let names = value.split(',').filter(|name| *name != NO_FAULT);
            names.fold(0, |faults, name| match fault_named(name) {
                Some(fault) => faults | bit(fault),
                None => refuse(
                    FAULTS,
                    &value,
                    "names of faults with commas between them, or none",
                ),
            })
        });
        let faults_until_ns = until.map(|value| {
            let seconds = value
                .parse()
                .ok()
                .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
            seconds.map_or_else(
                || refuse(FAULTS_UNTIL, &value, "a number of seconds"),
                whole_ns,
            )
        });
        Self {
            clients,
            faults,
            faults_until_ns,
        }
    }

    pub(crate) fn without(self, fault: Fault) -> Self {
        let faults = self.faults & !bit(fault);
        Self { faults, ..self }
    }

    pub(crate) fn only(self, faults: &[Fault]) -> Self {
        let faults = faults.iter().fold(0, |bits, fault| bits | bit(*fault));
        Self { faults, ..self }
    }

    #[inline]
    pub(crate) fn permits(&self, fault: Fault, now_ns: u64) -> bool {
        self.faults & bit(fault) != 0 && self.faults_until_ns.is_none_or(|until| now_ns <= until)
    }

    pub(crate) fn to_environment(self) -> String {
        let mut variables = String::new();
        if let Some(clients) = self.clients {
            variables += &format!("{CLIENTS}={clients} ");
        }
        if self.faults != u32::MAX {
            variables += &format!("{FAULTS}={} ", self.fault_names(","));
        }
        if let Some(until_ns) = self.faults_until_ns {
            let (seconds, ns) = (until_ns / 1_000_000_000, until_ns % 1_000_000_000);
            variables += &format!("{FAULTS_UNTIL}={seconds}.{ns:09} ");
        }
        variables
    }

    pub(crate) fn fault_names(self, between: &str) -> String {
        let may_occur = |fault: &Fault| self.faults & bit(*fault) != 0;
        let faults = Fault::ALL.into_iter().filter(may_occur);
        let names: Vec<_> = faults.map(|fault| format!("{fault:?}")).collect();
        if names.is_empty() {
            return NO_FAULT.to_owned();
        }
        names.join(between)
    }
}

const fn bit(fault: Fault) -> u32 {
    const { assert!(Fault::ALL.len() <= 32) };
    1 << fault as u32
}

fn fault_named(name: &str) -> Option<Fault> {
    let has_name = |fault: &Fault| format!("{fault:?}") == name;
    Fault::ALL.into_iter().find(has_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_sets_a_restriction() {
        let restriction = Restriction {
            clients: Some(2),
            faults_until_ns: Some(3_200_000_017),
            ..Restriction::NONE.only(&[Fault::Pause, Fault::ShortWrite])
        };
        let text = restriction.to_environment();
        assert_eq!(
            text,
            "EVCORE_SIM_CLIENTS=2 EVCORE_SIM_FAULTS=ShortWrite,Pause \
             EVCORE_SIM_FAULTS_UNTIL=3.200000017 "
        );
        let values = text
            .split_whitespace()
            .map(|line| line.split_once('=').unwrap().1.to_owned());
        let [clients, faults, until] = values.map(Some).collect::<Vec<_>>().try_into().unwrap();
        assert_eq!(Restriction::parse(clients, faults, until), restriction);
        assert_eq!(Restriction::parse(None, None, None), Restriction::NONE);
        assert_eq!(Restriction::NONE.to_environment(), "");
    }

    #[test]
    fn a_fault_that_is_left_out_or_late_is_not_permitted() {
        let until = Restriction {
            faults_until_ns: Some(5),
            ..Restriction::NONE
        };
        assert!(until.permits(Fault::Kill, 5) && !until.permits(Fault::Kill, 6));
        let without = Restriction::NONE.without(Fault::Kill);
        assert!(!without.permits(Fault::Kill, 0) && without.permits(Fault::Pause, 0));
        let none = Restriction::parse(None, Some("none".to_owned()), None);
        assert!(Fault::ALL.iter().all(|fault| !none.permits(*fault, 0)));
        assert_eq!(none.to_environment(), "EVCORE_SIM_FAULTS=none ");
    }

    #[test]
    #[should_panic(expected = "EVCORE_SIM_FAULTS=\"Shortwrite\": it must be names of faults")]
    fn an_unknown_fault_is_refused() {
        Restriction::parse(None, Some("Shortwrite".to_owned()), None);
    }
}
