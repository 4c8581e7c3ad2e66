//! Rounds made into figures.

/// A median with the least and the most that it is of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spread {
    pub(super) median: f64,
    pub(super) least: f64,
    pub(super) most: f64,
}

impl Spread {
    /// Of values of which there is one at least.
    pub(super) fn of(values: impl IntoIterator<Item = f64>) -> Spread {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        Spread {
            median: values[values.len() / 2],
            least: values[0],
            most: values[values.len() - 1],
        }
    }
}

/// The least value that a part of all does not exceed: half of them at 0.5. There is one value at
/// least, and the part is above 0.
pub(super) fn quantile(values: &[f64], part: f64) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "a rank among as many as fit in memory"
    )]
    let rank = (values.len() as f64 * part).ceil() as usize;
    values[rank.clamp(1, values.len()) - 1]
}

/// A number with as many digits as mean something.
pub(super) fn shown(value: f64) -> String {
    match value.abs() {
        0.0..0.1 => format!("{value:.3}"),
        0.1..1.0 => format!("{value:.2}"),
        1.0..100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_stands_in_the_middle_of_its_spread() {
        let spread = Spread::of([5.0, 1.0, 3.0, 2.0, 9.0]);
        assert_eq!((spread.least, spread.median, spread.most), (1.0, 3.0, 9.0));
    }

    #[test]
    fn a_quantile_is_one_of_the_values() {
        let values: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        let parts = [0.001, 0.5, 0.99, 1.0].map(|part| quantile(&values, part));
        assert_eq!(parts, [1.0, 50.0, 99.0, 100.0]);
        assert_eq!(quantile(&[7.0], 0.5), 7.0);
    }

    #[test]
    fn numbers_have_the_digits_that_mean_something() {
        let texts = [0.0123, 0.456, 7.89, 123.4].map(shown);
        assert_eq!(texts, ["0.012", "0.46", "7.9", "123"]);
    }
}
