//! A summary of the values of several rounds: their median, and the interval in which the true
//! median lies.

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

/// The probability with which an interval may miss the true median.
const MISSES: f64 = 0.05;

impl Spread {
    /// The spread of some values; `None` if there are none.
    pub(crate) fn of(values: &[f64]) -> Option<Spread> {
        let values = sorted(values);
        Some(Spread {
            median: *values.get(values.len() / 2)?,
            least: *values.first()?,
            most: *values.last()?,
        })
    }
}

/// The interval in which the true median lies with a probability of at least 95 %, or `None` for
/// fewer than six values.
///
/// The interval does not depend on the distribution. Each value is above the true median with
/// probability 1/2, so the number of values below the median is binomial (H. A. David, Order
/// Statistics, 7.1).
pub(crate) fn interval(values: &[f64]) -> Option<[f64; 2]> {
    let values = sorted(values);
    let n = values.len();
    // `outside` is the probability that at most `below` values are below the median, plus the
    // probability that at most `below` values are above it.
    let (mut cut, mut outside) = (None, 0.0);
    let mut exactly = 2.0 * 0.5_f64.powf(n as f64);
    for below in 0..n / 2 {
        outside += exactly;
        if outside > MISSES {
            break;
        }
        cut = Some(below);
        exactly *= (n - below) as f64 / (below + 1) as f64;
    }
    cut.map(|cut| [values[cut], values[n - 1 - cut]])
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds(n: u32) -> Vec<f64> {
        (1..=n).rev().map(f64::from).collect()
    }

    #[test]
    fn an_interval_has_the_ranks_of_a_published_table() {
        // The ranks of a 95 % interval for the median, as tables have them.
        assert_eq!(interval(&rounds(5)), None);
        assert_eq!(interval(&rounds(6)), Some([1.0, 6.0]));
        assert_eq!(interval(&rounds(8)), Some([1.0, 8.0]));
        assert_eq!(interval(&rounds(9)), Some([2.0, 8.0]));
        assert_eq!(interval(&rounds(15)), Some([4.0, 12.0]));
        assert_eq!(interval(&rounds(20)), Some([6.0, 15.0]));
    }

    #[test]
    fn a_spread_has_the_middle_and_both_ends() {
        let spread = Spread::of(&[3.0, 1.0, 9.0]).unwrap();
        assert_eq!([spread.least, spread.median, spread.most], [1.0, 3.0, 9.0]);
        assert_eq!(Spread::of(&[]), None);
    }
}
