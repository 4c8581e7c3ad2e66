//! `Table` beside a naive oracle that cannot be wrong.

use std::collections::HashMap;

use evcore_token::{Full, Table, Token};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Operation {
    Insert(u16),
    /// Of the n-th token ever handed out, modulo their number.
    Remove(usize),
    Change(usize, u16),
    /// Keeps the values that are not divisible by this.
    Retain(u16),
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        6 => any::<u16>().prop_map(Operation::Insert),
        4 => any::<usize>().prop_map(Operation::Remove),
        1 => (any::<usize>(), any::<u16>()).prop_map(|(nth, to)| Operation::Change(nth, to)),
        1 => (2..7u16).prop_map(Operation::Retain),
    ]
}

proptest! {
    /// Every token ever handed out, of whatever age, resolves as in the map.
    #[test]
    fn the_table_agrees_with_a_hash_map(
        limit in 0..20u32,
        operations in prop::collection::vec(operation(), 0..200),
    ) {
        let mut table = Table::with_capacity(limit);
        let mut oracle = HashMap::new();
        let mut tokens = Vec::<Token>::new();
        for operation in operations {
            let nth_token = |nth: usize| tokens.get(nth % tokens.len().max(1)).copied();
            match operation {
                Operation::Insert(value) => match table.insert(value) {
                    Ok(token) => {
                        prop_assert!(!tokens.contains(&token), "{token} was used before");
                        tokens.push(token);
                        oracle.insert(token, value);
                    }
                    Err(Full(back)) => {
                        prop_assert_eq!(back, value);
                        prop_assert_eq!(oracle.len(), limit as usize);
                    }
                },
                Operation::Remove(nth) => if let Some(token) = nth_token(nth) {
                    prop_assert_eq!(table.remove(token), oracle.remove(&token));
                }
                Operation::Change(nth, to) => if let Some(token) = nth_token(nth) {
                    prop_assert_eq!(table.get_mut(token).copied(), oracle.get(&token).copied());
                    if let Some(value) = table.get_mut(token) {
                        *value = to;
                        oracle.insert(token, to);
                    }
                }
                Operation::Retain(divisor) => {
                    table.retain(|_, value| *value % divisor != 0);
                    oracle.retain(|_, value| *value % divisor != 0);
                }
            }
            #[cfg(debug_assertions)]
            table.verify();
            prop_assert_eq!(table.len() as usize, oracle.len());
            prop_assert_eq!(table.is_empty(), oracle.is_empty());
            prop_assert_eq!(table.free() + table.len(), limit);
            for token in &tokens {
                prop_assert_eq!(table.get(*token), oracle.get(token));
                prop_assert_eq!(table.contains(*token), oracle.contains_key(token));
            }
            let listed: HashMap<_, _> = table.iter().map(|(token, &n)| (token, n)).collect();
            prop_assert_eq!(&listed, &oracle);
            let listed: HashMap<_, _> = table.iter_mut().map(|(token, n)| (token, *n)).collect();
            prop_assert_eq!(&listed, &oracle);
        }
    }
}
