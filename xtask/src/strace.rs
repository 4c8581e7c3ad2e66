//! A parser of the table of `strace -c`.

/// Each call and how often it was made, in the order of the table.
///
/// A row has the share of the time, seconds, microseconds a call, calls, perhaps errors, and the
/// name; the last one is the sum.
pub(crate) fn calls(table: &str) -> impl Iterator<Item = (String, u64)> + '_ {
    table.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.first()?.parse::<f64>().ok()?;
        let (name, calls) = (*words.last()?, words.get(3)?.parse().ok()?);
        (name != "total").then(|| (name.to_owned(), calls))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_parsed_in_order_without_the_total() {
        let table = "\
strace: Process 1 attached
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 57.55    0.149118          45      3256           sendto
 41.23    0.106842          32      3257         1 recvfrom
------ ----------- ----------- --------- --------- ----------------
100.00    0.259118          39      6564         1 total
";
        let calls: Vec<_> = calls(table).collect();
        assert_eq!(
            calls,
            [("sendto".to_owned(), 3256), ("recvfrom".to_owned(), 3257)]
        );
    }
}
