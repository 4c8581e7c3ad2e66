//! The growth of this crate's tables: a full table grows by a quarter, so that no table has much
//! more room than it needs.
//!
//! A `Vec` doubles, so just beyond a power of two half of it is empty. With growth by a quarter,
//! each element is copied about four times instead of once. Other leaf crates repeat this rule,
//! because leaf crates do not depend on each other (decision 0018).

const LEAST: usize = 16;

#[inline]
pub(crate) fn push<T>(table: &mut Vec<T>, element: T) {
    if table.len() == table.capacity() {
        grow(table, table.len() + 1);
    }
    table.push(element);
}

pub(crate) fn lengthen<T: Clone>(table: &mut Vec<T>, len: usize, vacant: T) {
    if len > table.capacity() {
        grow(table, len);
    }
    if len > table.len() {
        table.resize(len, vacant);
    }
}

#[cold]
#[inline(never)]
fn grow<T>(table: &mut Vec<T>, len: usize) {
    let by_a_quarter = table.capacity() + table.capacity() / 4;
    table.reserve_exact(len.max(by_a_quarter).max(LEAST) - table.len());
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: usize = 100_000;

    /// Number of times that the table moves while `lengthen_by_one` makes it long.
    fn moves(lengthen_by_one: impl Fn(&mut Vec<u32>)) -> usize {
        let (mut table, mut moves) = (Vec::new(), 0);
        for len in 1..=LONG {
            let before = table.capacity();
            lengthen_by_one(&mut table);
            assert_eq!(table.len(), len);
            assert!(table.capacity() <= LEAST.max(len + len / 4), "{len}");
            moves += usize::from(table.capacity() != before);
        }
        moves
    }

    #[test]
    fn a_table_is_at_most_a_quarter_larger_than_needed() {
        // 16 * 1.25^40 is more than 100,000, and each quarter is rounded down.
        let few = 1..=44;
        assert!(few.contains(&moves(|table| push(table, 7))));
        assert!(few.contains(&moves(|table| lengthen(table, table.len() + 1, 7))));
    }

    #[test]
    fn a_table_is_lengthened_and_never_shortened() {
        let mut table = Vec::new();
        lengthen(&mut table, LONG, 7);
        assert_eq!((table.len(), table.capacity()), (LONG, LONG));
        lengthen(&mut table, 1, 8);
        assert_eq!(table, [7; LONG]);
    }
}
