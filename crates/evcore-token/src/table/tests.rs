//! Tests of the table: examples, and a comparison with a `HashMap`.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

impl<T> Table<T> {
    fn verify(&self) {
        let slots = self.generations.len();
        assert!(slots <= self.limit as usize);
        assert!(self.generations.capacity() <= self.limit as usize);
        let values = self.slots.iter().filter(|(_, value)| value.is_some());
        assert_eq!(values.count(), self.len() as usize);
        let retired = self.slots.iter().filter(|(_, value)| value.is_none());
        assert_eq!(retired.count(), self.retired as usize);
        assert!(self.slots.iter().all(|(index, _)| index < slots));
        assert!(self.slots.vacant_key() <= slots);
    }
}

fn age_to_the_last_generation<T>(table: &mut Table<T>) {
    assert!(table.token_at(0).is_none(), "slot 0 must be free");
    table.generations[0] = NonZeroU32::MAX;
}

#[test]
fn a_new_table_allocates_nothing() {
    let table = Table::<u64>::bounded(u32::MAX);
    assert_eq!(table.generations.capacity(), 0);
    assert_eq!(table.free(), u32::MAX);
}

#[test]
fn growing_reserves_no_more_than_the_limit() {
    let mut table = Table::bounded(11);
    for n in 0..11u64 {
        table.insert(n).unwrap();
        assert!(table.generations.capacity() <= 11);
    }
    assert!(table.is_full());
    assert_eq!(table.generations.capacity(), 11);
}

#[test]
fn a_table_grows_by_a_quarter() {
    let mut table = Table::bounded(1000);
    let mut growths = 0;
    for n in 0..1000u64 {
        let before = table.generations.capacity();
        table.insert(n).unwrap();
        growths += u32::from(table.generations.capacity() != before);
    }
    assert_eq!(growths, 16, "8, 18, 30, 45, 64, 88, 118, 155, 201, ...");
}

#[test]
fn a_full_table_hands_the_value_back() {
    let mut table = Table::bounded(1);
    table.insert("first").unwrap();
    assert!(table.is_full());
    assert_eq!(table.insert("second"), Err(Full("second")));
    assert_eq!(table.len(), 1);
}

#[test]
fn the_slot_freed_last_is_reused_first() {
    let mut table = Table::bounded(3);
    let tokens = [(); 3].map(|()| table.insert(()).unwrap());
    table.remove(tokens[2]);
    table.remove(tokens[0]);
    assert_eq!(table.insert(()).unwrap().index(), 0);
    assert_eq!(table.insert(()).unwrap().index(), 2);
}

#[test]
fn a_stale_token_never_reaches_the_next_value() {
    let mut table = Table::bounded(1);
    let old = table.insert("old").unwrap();
    table.remove(old);
    let new = table.insert("new").unwrap();
    assert_eq!(old.index(), new.index());
    assert!(!table.contains(old));
    assert_eq!(table.get(old), None);
    assert_eq!(table.get_mut(old), None);
    assert_eq!(table.remove(old), None);
    assert_eq!(table.get(new), Some(&"new"));
}

#[test]
fn a_token_of_a_later_generation_resolves_to_nothing() {
    let mut table = Table::bounded(1);
    let token = table.insert(()).unwrap();
    let future = Token::new(token.index(), NonZeroU32::MAX);
    assert!(!table.contains(future));
    assert!(!table.contains(Token::new(7, NonZeroU32::MIN)));
}

#[test]
fn a_slot_is_retired_after_its_last_generation() {
    let mut table = Table::bounded(2);
    let first = table.insert("first").unwrap();
    table.remove(first);
    age_to_the_last_generation(&mut table);

    let last = table.insert("last").unwrap();
    assert_eq!(last, Token::new(0, NonZeroU32::MAX));
    assert_eq!(table.remove(last), Some("last"));
    table.verify();
    assert_eq!(table.free(), 1, "the slot is lost");
    assert_eq!(table.limit(), 2);

    let other = table.insert("other").unwrap();
    assert_eq!(other.index(), 1);
    assert_eq!(table.insert("none"), Err(Full("none")));
    assert!(!table.contains(first));
    assert!(!table.contains(last));
}

#[test]
fn a_dropped_vacant_entry_leaves_the_table_unchanged() {
    let mut table = Table::bounded(2);
    let expected = table.vacant_entry().unwrap().token();
    table.verify();
    assert!(table.is_empty());
    assert_eq!(table.insert(()).unwrap(), expected);
}

#[test]
fn retain_removes_the_values_that_keep_rejects() {
    let mut table = Table::bounded(8);
    let tokens: Vec<_> = (0..8).map(|n| table.insert(n).unwrap()).collect();
    let mut closed = Vec::new();
    table.retain(|token, n| {
        if *n % 2 == 0 {
            closed.push(token);
        }
        *n % 2 != 0
    });
    table.verify();
    assert_eq!(closed, [tokens[0], tokens[2], tokens[4], tokens[6]]);
    assert!(
        table
            .tokens()
            .eq([tokens[1], tokens[3], tokens[5], tokens[7]])
    );
}

#[test]
fn debug_shows_tokens_and_values() {
    let mut table = Table::bounded(1);
    let entry = format!("{:?}", table.vacant_entry().unwrap());
    assert_eq!(entry, "VacantEntry(0v1)");
    table.insert("value").unwrap();
    assert_eq!(format!("{table:?}"), r#"{0v1: "value"}"#);
}

#[derive(Clone, Debug)]
enum Operation {
    Insert(u16),
    /// Removes the value of the n-th token that was ever returned, n modulo the number of tokens.
    Remove(usize),
    Change(usize, u16),
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
    /// Every token that was ever returned resolves as in the map.
    #[test]
    fn the_table_agrees_with_a_hash_map(
        limit in 0..20u32,
        operations in prop::collection::vec(operation(), 0..200),
    ) {
        let mut table = Table::bounded(limit);
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
