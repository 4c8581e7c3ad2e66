//! Numbers, times and sets of bits in words.

use std::fmt;

use evcore::Token;

/// The name of a registration's key: a token such as `4v1`, or the key itself if it is not a token.
pub(crate) fn key_name(key: u64) -> String {
    Token::from_bits(key).map_or_else(|| format!("key {key}"), |token| token.to_string())
}

/// The names of a set of bits, from its `Debug`, joined by `|`.
pub(crate) fn names(set: impl fmt::Debug) -> String {
    let text = format!("{set:?}");
    let names = text.split_once('(').map_or(&*text, |(_, names)| names);
    match names.trim_end_matches(')') {
        "0x0" => "nothing".to_owned(),
        names => names.replace(" | ", "|"),
    }
}

/// A number of bytes with its unit, such as `1 byte` or `534,754 bytes`.
pub(crate) fn bytes(count: usize) -> String {
    let unit = if count == 1 { "byte" } else { "bytes" };
    format!("{} {unit}", grouped(count))
}

/// A number with a comma between thousands.
pub(crate) fn grouped(count: usize) -> String {
    let digits = count.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// A time in seconds, without the zeros at the end of its fraction.
pub(crate) fn seconds(ns: u64) -> String {
    let text = format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use evcore::{Interest, Ready};

    #[test]
    fn numbers_of_bytes_are_grouped_by_thousands() {
        for (count, text) in [
            (0, "0 bytes"),
            (1, "1 byte"),
            (999, "999 bytes"),
            (534_754, "534,754 bytes"),
            (1_000_000, "1,000,000 bytes"),
        ] {
            assert_eq!(bytes(count), text);
        }
    }

    #[test]
    fn sets_of_bits_are_named_as_in_debug_output() {
        assert_eq!(
            names(Ready::READABLE | Ready::WRITABLE),
            "READABLE|WRITABLE"
        );
        assert_eq!(names(Ready::NONE), "nothing");
        assert_eq!(names(Interest::BOTH), "READ|WRITE");
    }

    #[test]
    fn a_key_is_named_as_a_token_if_it_is_one() {
        assert_eq!(key_name(4_294_967_300), "4v1");
        assert_eq!(key_name(7), "key 7");
    }

    #[test]
    fn a_time_has_no_zeros_at_the_end_of_its_fraction() {
        assert_eq!(seconds(1_500_000_000), "1.5");
        assert_eq!(seconds(120_000_000_000), "120");
        assert_eq!(seconds(1), "0.000000001");
    }
}
