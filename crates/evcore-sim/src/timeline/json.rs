//! JSON for the page's data.

use std::fmt::Write;

pub(super) fn list(items: impl IntoIterator<Item = String>) -> String {
    let items: Vec<_> = items.into_iter().collect();
    format!("[{}]", items.join(","))
}

pub(super) fn numbers<const N: usize>(numbers: [u64; N]) -> String {
    list(numbers.map(|number| number.to_string()))
}

/// A string that can stand in the script element of a page.
pub(super) fn string(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            // `</script>` would end the element.
            '<' | '\0'..' ' | '\u{2028}' | '\u{2029}' => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(letter));
            }
            _ => quoted.push(letter),
        }
    }
    quoted + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_cannot_end_its_script_element() {
        assert_eq!(
            string("a \"b\"\\\n</script>"),
            r#""a \"b\"\\\u000a\u003c/script>""#
        );
        assert_eq!(
            list([numbers([1, u64::MAX]), string("ü")]),
            "[[1,18446744073709551615],\"ü\"]"
        );
    }
}
