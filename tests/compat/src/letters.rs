//! Bytes to send, in which a lost, repeated or misplaced byte is noticed.

/// Returns `len` bytes that depend on `seed` and on their place (a linear congruential generator).
#[must_use]
pub fn letter(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed;
    let bytes = std::iter::repeat_with(|| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        state.to_be_bytes()[0]
    });
    bytes.take(len).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_of_other_seeds_differ() {
        assert_eq!(letter(1, 100), letter(1, 100));
        assert_ne!(letter(1, 100), letter(2, 100));
        assert_eq!(letter(1, 100)[..50], letter(1, 50));
    }
}
