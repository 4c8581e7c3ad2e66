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
    fn numbers_have_the_digits_that_mean_something() {
        let texts = [0.0123, 0.456, 7.89, 123.4].map(shown);
        assert_eq!(texts, ["0.012", "0.46", "7.9", "123"]);
    }
}
