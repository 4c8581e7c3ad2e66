//! The values of options that have a grammar: addresses (`--listen`) and masks (`--cpu-affinity`).
//! The first byte of an input chooses the option and the set of CPUs.
//!
//! Oracles: the text of an address is parsed to the same address. Masks agree with a naive parser.
//! An error is a single line.

#![no_main]

use std::collections::BTreeSet;

use evcore_net::Address;
use evcore_httpd::fuzzing::cpu_masks;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((first, text)) = bytes.split_first() else {
        return;
    };
    let Ok(text) = std::str::from_utf8(text) else {
        return;
    };
    if first % 2 == 0 {
        check_address(text);
    } else {
        let allowed = (0..7).filter(|cpu| first >> (cpu + 1) & 1 == 1);
        check_masks(text, &allowed.collect());
    }
});

fn check_address(text: &str) {
    match text.parse::<Address>() {
        Ok(address) => {
            assert_eq!(address.to_string().parse().as_ref(), Ok(&address));
            assert_eq!(address.is_unix(), text.starts_with("unix:"));
            assert_eq!(
                address.tcp(),
                text.parse().ok().filter(|_| !address.is_unix())
            );
        }
        Err(error) => {
            assert!(text.parse::<std::net::SocketAddr>().is_err());
            check_message(&error.to_string());
        }
    }
}

fn check_masks(text: &str, allowed: &BTreeSet<usize>) {
    match cpu_masks::parse(text, &allowed.iter().copied().collect()) {
        Ok(affinity) => {
            for worker in 0..10 {
                let cpus: BTreeSet<_> = affinity.of(worker).iter().collect();
                assert_eq!(Some(cpus), naive(text, allowed, worker), "worker {worker}");
            }
        }
        Err(message) => {
            assert_eq!(naive(text, allowed, 0), None);
            check_message(&message);
        }
    }
}

fn check_message(message: &str) {
    assert!(
        !message.is_empty() && !message.contains(['\n', '\r']),
        "{message:?}"
    );
}

/// The CPUs of a worker; `None` if the text is invalid.
fn naive(text: &str, allowed: &BTreeSet<usize>, worker: usize) -> Option<BTreeSet<usize>> {
    let words: Vec<_> = text.split_whitespace().collect();
    if words.first() == Some(&"auto") {
        let from = match words[1..] {
            [] => allowed.clone(),
            [mask] => bits(mask, allowed)?,
            _ => return None,
        };
        return from
            .iter()
            .cycle()
            .nth(worker)
            .map(|cpu| BTreeSet::from([*cpu]));
    }
    let masks: Option<Vec<_>> = words.iter().map(|word| bits(word, allowed)).collect();
    let masks = masks?;
    masks.get(worker).or(masks.last()).cloned()
}

fn bits(mask: &str, allowed: &BTreeSet<usize>) -> Option<BTreeSet<usize>> {
    if !mask.chars().all(|digit| matches!(digit, '0' | '1')) {
        return None;
    }
    let bits = mask.bytes().rev().enumerate();
    let set: BTreeSet<_> = bits
        .filter(|(_, bit)| *bit == b'1')
        .map(|(cpu, _)| cpu)
        .collect();
    (!set.is_empty() && set.is_subset(allowed)).then_some(set)
}
