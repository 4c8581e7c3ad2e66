//! How evenly something is shared out, as one number.

/// Jain's index: (Σx)² / (n · Σx²), and 1.0 where all are zero.
pub(crate) fn jain(shares: impl Iterator<Item = u64>) -> f64 {
    let (mut n, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for share in shares {
        let share = share as f64;
        n += 1.0;
        sum += share;
        squares += share * share;
    }
    if squares == 0.0 {
        return 1.0;
    }
    // Rounding may end a hair above.
    f64::min(sum * sum / (n * squares), 1.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_index_lies_between_one_nth_and_one(shares in prop::collection::vec(any::<u64>(), 1..20)) {
            let index = jain(shares.iter().copied());
            let least = 1.0 / shares.len() as f64;
            prop_assert!((least - 1e-9..=1.0).contains(&index), "{}", index);
        }

        #[test]
        fn equal_shares_are_fair(share: u64, n in 1_usize..20) {
            prop_assert!(jain(std::iter::repeat_n(share, n)) > 1.0 - 1e-9);
        }
    }
}
