//! Which worker stays on which CPUs, in the words of nginx's `worker_cpu_affinity`.
//!
//! A mask is written in zeros and ones; its rightmost digit is CPU 0. What counts are the CPUs that
//! the process may use, not those that exist. Pure: it reads text, and asks the system nothing.

use std::io;

use crate::Cpus;

/// A CPU, or several, for each worker.
///
/// ```
/// use evcore_prefork::{Affinity, Cpus};
///
/// let allowed: Cpus = (0..4).collect();
/// let affinity = Affinity::parse("auto 1011", &allowed)?;
/// let first = |worker| affinity.of(worker).to_string();
/// assert_eq!([first(0), first(1), first(2), first(3)], ["0", "1", "3", "0"]);
///
/// let error = Affinity::parse("0001 0012", &allowed).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "affinity \"0001 0012\": '2', character 9, is neither 0 nor 1"
/// );
/// # Ok::<(), evcore_prefork::BadAffinity>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Affinity {
    // Invariant: not empty, and none of them is.
    places: Vec<Cpus>,
    beyond: Beyond,
}

/// What those workers get that are more than the places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beyond {
    /// The first place again, and so on.
    StartsAgain,
    /// The last place.
    RepeatsTheLast,
}

/// What is wrong with an affinity, and where: characters are counted from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadAffinity {
    /// No mask at all.
    #[error("affinity {text:?} is empty; it is auto, auto MASK, or masks like 0001 0010")]
    Empty {
        /// What was to be read.
        text: String,
    },
    /// A mask is written in zeros and ones.
    #[error("affinity {text:?}: {found:?}, character {at}, is neither 0 nor 1")]
    BadDigit {
        /// What was to be read.
        text: String,
        /// Where the digit is.
        at: usize,
        /// What is there.
        found: char,
    },
    /// A mask of zeros leaves its worker no CPU.
    #[error("affinity {text:?}: the mask at character {at} names no CPU")]
    NoCpu {
        /// What was to be read.
        text: String,
        /// Where the mask begins.
        at: usize,
    },
    /// A mask names a CPU that the process may not use.
    #[error("affinity {text:?}: the 1 at character {at} is CPU {cpu}; there are: {allowed}")]
    NotAllowed {
        /// What was to be read.
        text: String,
        /// Where the digit is.
        at: usize,
        /// The CPU that it stands for.
        cpu: usize,
        /// The CPUs that may be used.
        allowed: Cpus,
    },
    /// After `auto` there is one mask at most.
    #[error(
        "affinity {text:?}: character {at} begins a second mask after auto, where one is allowed"
    )]
    SecondMask {
        /// What was to be read.
        text: String,
        /// Where the second mask begins.
        at: usize,
    },
}

impl From<BadAffinity> for io::Error {
    fn from(error: BadAffinity) -> Self {
        Self::new(io::ErrorKind::InvalidInput, error)
    }
}

impl Affinity {
    /// Reads `auto`, `auto MASK` or `MASK MASK ...`, for a process that may use the `allowed` CPUs.
    ///
    /// - `auto`: each worker gets one of the allowed CPUs, in their order; when they are used up,
    ///   it begins again.
    /// - `auto MASK`: the same with the CPUs of the mask.
    /// - Masks: the n-th worker stays on the CPUs of the n-th mask; the last mask is for all
    ///   others.
    ///
    /// # Errors
    ///
    /// [`BadAffinity`] with the first fault.
    pub fn parse(text: &str, allowed: &Cpus) -> Result<Self, BadAffinity> {
        Reader { text, allowed }.read()
    }

    /// The CPUs of the worker with this index.
    #[must_use]
    pub fn of(&self, worker: usize) -> &Cpus {
        let count = self.places.len();
        let at = match self.beyond {
            Beyond::StartsAgain => worker % count,
            Beyond::RepeatsTheLast => worker.min(count - 1),
        };
        &self.places[at]
    }

    /// One CPU for each worker.
    fn one_each(cpus: &Cpus) -> Self {
        Self {
            places: cpus.iter().map(|cpu| Cpus::from_iter([cpu])).collect(),
            beyond: Beyond::StartsAgain,
        }
    }
}

struct Reader<'a> {
    text: &'a str,
    allowed: &'a Cpus,
}

impl Reader<'_> {
    fn read(&self) -> Result<Affinity, BadAffinity> {
        let words = words(self.text);
        match words.as_slice() {
            [] => Err(BadAffinity::Empty { text: self.text() }),
            [(_, "auto")] if self.allowed.is_empty() => {
                Err(BadAffinity::Empty { text: self.text() })
            }
            [(_, "auto")] => Ok(Affinity::one_each(self.allowed)),
            [(_, "auto"), mask] => Ok(Affinity::one_each(&self.mask(*mask)?)),
            [(_, "auto"), _, (at, _), ..] => {
                let (text, at) = (self.text(), *at);
                Err(BadAffinity::SecondMask { text, at })
            }
            masks => Ok(Affinity {
                places: masks
                    .iter()
                    .map(|mask| self.mask(*mask))
                    .collect::<Result<_, _>>()?,
                beyond: Beyond::RepeatsTheLast,
            }),
        }
    }

    fn mask(&self, (begin, digits): (usize, &str)) -> Result<Cpus, BadAffinity> {
        let text = || self.text();
        let mut cpus = Vec::new();
        let count = digits.chars().count();
        for (place, digit) in digits.chars().enumerate() {
            let (at, cpu) = (begin + place, count - 1 - place);
            match digit {
                '0' => {}
                '1' => cpus.push((at, cpu)),
                found => {
                    return Err(BadAffinity::BadDigit {
                        text: text(),
                        at,
                        found,
                    });
                }
            }
        }
        if cpus.is_empty() {
            return Err(BadAffinity::NoCpu {
                text: text(),
                at: begin,
            });
        }
        if let Some(&(at, cpu)) = cpus.iter().find(|(_, cpu)| !self.allowed.contains(*cpu)) {
            let allowed = self.allowed.clone();
            return Err(BadAffinity::NotAllowed {
                text: text(),
                at,
                cpu,
                allowed,
            });
        }
        Ok(cpus.into_iter().map(|(_, cpu)| cpu).collect())
    }

    fn text(&self) -> String {
        self.text.to_owned()
    }
}

/// The words of a text, each with the place of its first character, counted from 1.
fn words(text: &str) -> Vec<(usize, &str)> {
    let mut at = 1;
    let mut words = Vec::new();
    for word in text.split(char::is_whitespace) {
        if !word.is_empty() {
            words.push((at, word));
        }
        at += word.chars().count() + 1;
    }
    words
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn cpus(numbers: &[usize]) -> Cpus {
        numbers.iter().copied().collect()
    }

    fn parsed(text: &str, allowed: &[usize]) -> Affinity {
        Affinity::parse(text, &cpus(allowed)).unwrap()
    }

    fn refusal(text: &str, allowed: &[usize]) -> String {
        Affinity::parse(text, &cpus(allowed))
            .unwrap_err()
            .to_string()
    }

    fn of_first(affinity: &Affinity, workers: usize) -> Vec<String> {
        (0..workers)
            .map(|worker| affinity.of(worker).to_string())
            .collect()
    }

    #[test]
    fn auto_deals_the_allowed_cpus_and_begins_again() {
        let affinity = parsed("auto", &[1, 4, 6]);
        assert_eq!(of_first(&affinity, 5), ["1", "4", "6", "1", "4"]);
    }

    #[test]
    fn auto_with_a_mask_deals_its_cpus_from_the_right() {
        let affinity = parsed("auto 1101", &[0, 1, 2, 3]);
        assert_eq!(of_first(&affinity, 4), ["0", "2", "3", "0"]);
    }

    #[test]
    fn each_worker_has_its_mask_and_the_last_is_for_the_rest() {
        let affinity = parsed(" 0101\t1010  10 ", &[0, 1, 2, 3]);
        assert_eq!(of_first(&affinity, 5), ["0,2", "1,3", "1", "1", "1"]);
    }

    #[test]
    fn zeros_on_the_left_mean_nothing() {
        let affinity = parsed(&format!("auto {}1", "0".repeat(5000)), &[0]);
        assert_eq!(of_first(&affinity, 1), ["0"]);
    }

    #[test]
    fn an_empty_affinity_says_what_it_could_be() {
        for text in ["", "  "] {
            assert_eq!(
                refusal(text, &[0]),
                format!(
                    "affinity {text:?} is empty; it is auto, auto MASK, or masks like 0001 0010"
                )
            );
        }
    }

    #[test]
    fn other_digits_are_shown_with_their_place() {
        assert_eq!(
            refusal("01 0é1", &[0]),
            "affinity \"01 0é1\": 'é', character 5, is neither 0 nor 1"
        );
        assert_eq!(
            refusal("01 auto", &[0]),
            "affinity \"01 auto\": 'a', character 4, is neither 0 nor 1"
        );
    }

    #[test]
    fn a_mask_of_zeros_is_refused() {
        assert_eq!(
            refusal("01 000", &[0]),
            "affinity \"01 000\": the mask at character 4 names no CPU"
        );
    }

    #[test]
    fn a_cpu_that_may_not_be_used_is_named() {
        assert_eq!(
            refusal("auto 1001", &[0, 1, 2, 5]),
            "affinity \"auto 1001\": the 1 at character 6 is CPU 3; there are: 0-2,5"
        );
    }

    #[test]
    fn auto_takes_one_mask() {
        assert_eq!(
            refusal("auto 01 10", &[0, 1]),
            "affinity \"auto 01 10\": character 9 begins a second mask after auto, where one is allowed"
        );
    }

    /// The same by sets and by division, and without places.
    fn naive(text: &str, allowed: &BTreeSet<usize>, worker: usize) -> Option<BTreeSet<usize>> {
        let words: Vec<_> = text.split_whitespace().collect();
        let bits = |mask: &str| -> Option<BTreeSet<usize>> {
            let mut set = BTreeSet::new();
            for (cpu, digit) in mask.chars().rev().enumerate() {
                match digit {
                    '1' => drop(set.insert(cpu)),
                    '0' => {}
                    _ => return None,
                }
            }
            (!set.is_empty() && set.is_subset(allowed)).then_some(set)
        };
        if words.first() == Some(&"auto") {
            let from = match words.len() {
                1 => allowed.clone(),
                2 => bits(words[1])?,
                _ => return None,
            };
            let nth = from.iter().cycle().nth(worker)?;
            return Some(BTreeSet::from([*nth]));
        }
        let masks: Option<Vec<_>> = words.iter().map(|word| bits(word)).collect();
        let masks = masks?;
        masks.get(worker).or(masks.last()).cloned()
    }

    proptest! {
        #[test]
        fn it_reads_what_the_naive_reader_reads(
            auto in any::<bool>(),
            masks in prop::collection::vec("[01]{1,8}|[012]{1,4}", 0..4),
            gaps in prop::collection::vec("[ \t]{1,3}", 5),
            allowed in prop::collection::btree_set(0..8usize, 0..8),
            worker in 0..20usize,
        ) {
            let words = auto.then_some("auto").into_iter().chain(masks.iter().map(String::as_str));
            let text: String = words.zip(&gaps).map(|(word, gap)| format!("{gap}{word}")).collect();
            let list: Cpus = allowed.iter().copied().collect();
            let read = Affinity::parse(&text, &list).ok();
            let read = read.map(|affinity| affinity.of(worker).iter().collect::<BTreeSet<_>>());
            prop_assert_eq!(read, naive(&text, &allowed, worker));
        }

        #[test]
        fn no_text_makes_it_panic(text in ".{0,20}", worker in any::<usize>()) {
            if let Ok(affinity) = Affinity::parse(&text, &cpus(&[0, 1])) {
                prop_assert!(!affinity.of(worker).is_empty());
            }
        }
    }
}
