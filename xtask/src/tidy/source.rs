//! Rust text in which strings and comments are distinguished from code.
//!
//! Not a parser: it knows where literals and comments begin and end, and
//! nothing of what stands between. Blanking keeps every line where it was.

use std::ops::Range;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Comment,
    Literal,
}

/// `text` with comments, strings and characters blanked out.
pub(super) fn code(text: &str) -> String {
    blanked(text, |_| true)
}

/// `text` with comments blanked out.
pub(super) fn uncommented(text: &str) -> String {
    blanked(text, |kind| kind == Kind::Comment)
}

/// Whether `word` stands in `text` on its own, not as part of another word.
pub(super) fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !before.is_some_and(is_of_word) && !after.is_some_and(is_of_word)
    })
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn blanked(text: &str, takes: impl Fn(Kind) -> bool) -> String {
    let mut bytes = text.as_bytes().to_vec();
    for (range, kind) in spans(text) {
        if takes(kind) {
            let inside = bytes[range].iter_mut().filter(|byte| **byte != b'\n');
            inside.for_each(|byte| *byte = b' ');
        }
    }
    String::from_utf8(bytes).expect("literals and comments begin and end between characters")
}

/// Where the comments and literals are, in order.
fn spans(text: &str) -> Vec<(Range<usize>, Kind)> {
    let mut spans = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        let in_word = text[..at].chars().next_back().is_some_and(is_of_word);
        let span = comment(rest)
            .map(|len| (len, Kind::Comment))
            .or_else(|| literal(rest, in_word).map(|len| (len, Kind::Literal)));
        match span {
            Some((len, kind)) => {
                spans.push((at..at + len, kind));
                at += len;
            }
            None => at += first.len_utf8(),
        }
    }
    spans
}

/// The length of the comment that `text` begins with.
fn comment(text: &str) -> Option<usize> {
    if text.starts_with("//") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    text.starts_with("/*").then(|| block_comment(text))
}

/// Block comments nest.
fn block_comment(text: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < text.len() {
        let rest = &text.as_bytes()[at..];
        let (step, change) = match rest {
            [b'/', b'*', ..] => (2, 1),
            [b'*', b'/', ..] => (2, -1),
            _ => (1, 0),
        };
        at += step;
        depth += change;
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

/// The length of the string or character that `text` begins with.
fn literal(text: &str, in_word: bool) -> Option<usize> {
    match text.as_bytes() {
        [b'"', ..] => Some(quoted(text, '"')),
        [b'\'', ..] => character(text),
        [b'r' | b'b' | b'c', ..] if !in_word => raw_string(text),
        _ => None,
    }
}

/// Up to the first `quote` that is not escaped.
fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        if c == quote && !escaped {
            return at + c.len_utf8();
        }
        escaped = c == '\\' && !escaped;
    }
    text.len()
}

/// A character literal; `None` for a lifetime.
fn character(text: &str) -> Option<usize> {
    let mut chars = text.chars().skip(1);
    let (first, second) = (chars.next()?, chars.next()?);
    (first == '\\' || second == '\'').then(|| quoted(text, '\''))
}

/// `r"..."`, `br#"..."#` and so on; `None` for a raw identifier or a plain word.
fn raw_string(text: &str) -> Option<usize> {
    let after_prefix = text.trim_start_matches(['b', 'c']).strip_prefix('r')?;
    let body = after_prefix.trim_start_matches('#');
    let hashes = &after_prefix[..after_prefix.len() - body.len()];
    let body = body.strip_prefix('"')?;
    let end = format!("\"{hashes}");
    let len = body.find(&end).map_or(body.len(), |at| at + end.len());
    Some(text.len() - body.len() + len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn comments_and_literals_are_blanked_and_code_is_kept() {
        for (text, expected) in [
            ("a // b\nc", "a     \nc"),
            ("a /* b /* c */ d */ e", "a                   e"),
            (r#"f("a // b", c)"#, "f(        , c)"),
            (r#"f("a\"b", c)"#, "f(      , c)"),
            ("f('\"', 'x', '\\'', c)", "f(   ,    ,     , c)"),
            ("fn f<'a>(x: &'a str)", "fn f<'a>(x: &'a str)"),
            ("r#\"a \" b\"# c", "           c"),
            ("br\"a\\\" c", "       c"),
            ("r#type c", "r#type c"),
            ("for\"a\"", "for   "),
        ] {
            assert_eq!(code(text), expected, "{text}");
        }
    }

    #[test]
    fn strings_survive_when_only_comments_go() {
        assert_eq!(uncommented("\"a // b\" // c"), "\"a // b\"     ");
    }

    #[test]
    fn a_word_is_not_found_inside_another() {
        assert!(has_word("pub unsafe fn", "unsafe"));
        assert!(!has_word("unsafe_code nonunsafe", "unsafe"));
    }

    proptest! {
        #[test]
        fn blanking_keeps_length_and_lines(text in "[a-z\"'/*#r\\\\\nü ]{0,60}") {
            let blank = code(&text);
            prop_assert_eq!(blank.len(), text.len());
            prop_assert_eq!(blank.lines().count(), text.lines().count());
        }
    }
}
