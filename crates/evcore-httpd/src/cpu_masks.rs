//! `--cpu-affinity`: the grammar of nginx's `worker_cpu_affinity`.
//!
//! A mask is written in zeros and ones; its rightmost digit is CPU 0. A mask may name only CPUs
//! that the process may use. The parser makes no system call.

use evcore_serve::prefork::{Affinity, Cpus};

/// Parses `auto`, `auto MASK` or `MASK MASK ...`, for a process that may use the `allowed` CPUs.
///
/// - `auto`: each worker gets one of the allowed CPUs, in ascending order; when all are used, the
///   first is used again.
/// - `auto MASK`: the same with the CPUs of the mask.
/// - Masks: the n-th worker runs on the CPUs of the n-th mask; the last mask is also for all
///   further workers.
///
/// An error is a line that names a fault. It counts characters from 1.
pub fn parse(text: &str, allowed: &Cpus) -> Result<Affinity, String> {
    let fault = |fault: String| format!("affinity {text:?}{fault}");
    let mask = |word| mask(word, allowed).map_err(fault);
    match words(text).as_slice() {
        [(_, "auto")] if !allowed.is_empty() => Ok(Affinity::one_each(allowed)),
        [] | [(_, "auto")] => Err(fault(
            " is empty; it is auto, auto MASK, or masks like 0001 0010".to_owned(),
        )),
        [(_, "auto"), word] => Ok(Affinity::one_each(&mask(*word)?)),
        [(_, "auto"), _, (at, _), ..] => Err(fault(format!(
            ": character {at} begins a second mask after auto, where one is allowed"
        ))),
        words => {
            let masks: Result<Vec<_>, _> = words.iter().copied().map(mask).collect();
            Ok(Affinity::from_cpus(masks?))
        }
    }
}

/// The CPUs of a mask, at least one. The mask's first digit is character `begin`.
fn mask((begin, digits): (usize, &str), allowed: &Cpus) -> Result<Cpus, String> {
    let mut cpus = Vec::new();
    let count = digits.chars().count();
    for (place, digit) in digits.chars().enumerate() {
        let (at, cpu) = (begin + place, count - 1 - place);
        match digit {
            '0' => {}
            '1' => cpus.push((at, cpu)),
            found => return Err(format!(": {found:?}, character {at}, is neither 0 nor 1")),
        }
    }
    if cpus.is_empty() {
        return Err(format!(": the mask at character {begin} names no CPU"));
    }
    if let Some((at, cpu)) = cpus.iter().find(|(_, cpu)| !allowed.contains(*cpu)) {
        return Err(format!(
            ": the 1 at character {at} is CPU {cpu}; there are: {allowed}"
        ));
    }
    Ok(cpus.into_iter().map(|(_, cpu)| cpu).collect())
}

/// The words of a text, each with the position of its first character, counted from 1.
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
        parse(text, &cpus(allowed)).unwrap()
    }

    fn refusal(text: &str, allowed: &[usize]) -> String {
        parse(text, &cpus(allowed)).unwrap_err()
    }

    fn cpus_of_workers(affinity: &Affinity, workers: usize) -> Vec<String> {
        (0..workers)
            .map(|worker| affinity.of(worker).to_string())
            .collect()
    }

    #[test]
    fn auto_gives_each_worker_one_allowed_cpu_in_turn() {
        let affinity = parsed("auto", &[1, 4, 6]);
        assert_eq!(cpus_of_workers(&affinity, 5), ["1", "4", "6", "1", "4"]);
    }

    #[test]
    fn auto_with_a_mask_uses_its_cpus_from_the_right() {
        let affinity = parsed("auto 1101", &[0, 1, 2, 3]);
        assert_eq!(cpus_of_workers(&affinity, 4), ["0", "2", "3", "0"]);
    }

    #[test]
    fn the_last_mask_is_for_all_further_workers() {
        let affinity = parsed(" 0101\t1010  10 ", &[0, 1, 2, 3]);
        assert_eq!(cpus_of_workers(&affinity, 5), ["0,2", "1,3", "1", "1", "1"]);
    }

    #[test]
    fn leading_zeros_are_ignored() {
        let affinity = parsed(&format!("auto {}1", "0".repeat(5000)), &[0]);
        assert_eq!(cpus_of_workers(&affinity, 1), ["0"]);
    }

    #[test]
    fn an_empty_affinity_is_refused_with_the_grammar() {
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
    fn other_digits_are_refused_with_their_position() {
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
    fn a_cpu_that_is_not_allowed_is_named() {
        assert_eq!(
            refusal("auto 1001", &[0, 1, 2, 5]),
            "affinity \"auto 1001\": the 1 at character 6 is CPU 3; there are: 0-2,5"
        );
    }

    #[test]
    fn a_second_mask_after_auto_is_refused() {
        assert_eq!(
            refusal("auto 01 10", &[0, 1]),
            "affinity \"auto 01 10\": character 9 begins a second mask after auto, where one is allowed"
        );
    }

    /// The CPUs of a worker, found with sets and without positions. `None` if the text is invalid.
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
        fn the_parser_agrees_with_a_naive_one(
            auto in any::<bool>(),
            masks in prop::collection::vec("[01]{1,8}|[012]{1,4}", 0..4),
            gaps in prop::collection::vec("[ \t]{1,3}", 5),
            allowed in prop::collection::btree_set(0..8usize, 0..8),
            worker in 0..20usize,
        ) {
            let words = auto.then_some("auto").into_iter().chain(masks.iter().map(String::as_str));
            let text: String = words.zip(&gaps).map(|(word, gap)| format!("{gap}{word}")).collect();
            let list: Cpus = allowed.iter().copied().collect();
            let read = parse(&text, &list).ok();
            let read = read.map(|affinity| affinity.of(worker).iter().collect::<BTreeSet<_>>());
            prop_assert_eq!(read, naive(&text, &allowed, worker));
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in ".{0,20}", worker in any::<usize>()) {
            if let Ok(affinity) = parse(&text, &cpus(&[0, 1])) {
                prop_assert!(!affinity.of(worker).is_empty());
            }
        }
    }
}
