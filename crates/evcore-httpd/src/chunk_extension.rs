//! The extensions of a chunk in a chunked HTTP body: the rest of the chunk's first line, after its
//! size.
//!
//! The grammar is that of RFC 9112, section 7.1.1:
//!
//! ```text
//! chunk-ext = *( BWS ";" BWS chunk-ext-name [ BWS "=" BWS chunk-ext-val ] )
//! ```
//!
//! A name is a token; a value is a token or a quoted string (RFC 9110, section 5.6). White space
//! (BWS) is allowed exactly where the grammar has it, because a recipient must accept it there (RFC
//! 9110, section 5.6.3). The server ignores all extensions.

/// The part of an extension that was read last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extension {
    /// White space before a semicolon.
    BeforeSemicolon,
    /// A semicolon, or white space after it: a name has to follow.
    BeforeName,
    Name,
    /// White space after a name.
    AfterName,
    /// An equals sign, or white space after it: a value has to follow.
    BeforeValue,
    Value,
    Quoted,
    /// A backslash within quotes.
    Escape,
    /// The quote at the end of a value.
    Unquoted,
}

impl Extension {
    /// Reads the first byte after the size of the chunk, which is not the end of the line. Returns
    /// `None` if the byte is invalid.
    pub fn begin(byte: u8) -> Option<Self> {
        match byte {
            b';' => Some(Self::BeforeName),
            b' ' | b'\t' => Some(Self::BeforeSemicolon),
            _ => None,
        }
    }

    /// Reads a further byte. Returns `None` if the byte is invalid.
    pub fn next(self, byte: u8) -> Option<Self> {
        let is_space = matches!(byte, b' ' | b'\t');
        match self {
            Self::BeforeSemicolon => Self::begin(byte),
            Self::BeforeName if is_space => Some(self),
            Self::BeforeName | Self::Name if is_token(byte) => Some(Self::Name),
            Self::Name | Self::AfterName if is_space => Some(Self::AfterName),
            Self::Name | Self::AfterName if byte == b'=' => Some(Self::BeforeValue),
            Self::Name | Self::AfterName if byte == b';' => Some(Self::BeforeName),
            Self::BeforeValue if is_space => Some(self),
            Self::BeforeValue if byte == b'"' => Some(Self::Quoted),
            Self::BeforeValue | Self::Value if is_token(byte) => Some(Self::Value),
            Self::Quoted if byte == b'"' => Some(Self::Unquoted),
            Self::Quoted if byte == b'\\' => Some(Self::Escape),
            Self::Quoted | Self::Escape if is_text(byte) => Some(Self::Quoted),
            Self::Value | Self::Unquoted => Self::begin(byte),
            _ => None,
        }
    }

    pub fn may_end(self) -> bool {
        matches!(self, Self::Name | Self::Value | Self::Unquoted)
    }
}

/// Returns whether a byte may be in a token, such as the name of a field (RFC 9110, section 5.6.2).
pub fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Returns whether a byte may be in the value of a field (RFC 9110, section 5.5). A tab is the only
/// control byte that may.
pub fn is_text(byte: u8) -> bool {
    byte == b'\t' || !byte.is_ascii_control()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn is_valid(bytes: &[u8]) -> bool {
        let Some((first, rest)) = bytes.split_first() else {
            return true;
        };
        let mut read = Extension::begin(*first);
        for byte in rest {
            read = read.and_then(|extension| extension.next(*byte));
        }
        read.is_some_and(Extension::may_end)
    }

    /// The oracle: a function for each rule of the grammar. Each function returns the bytes after
    /// the text that matches the rule.
    mod grammar {
        use super::super::{is_text, is_token};

        fn space(bytes: &[u8]) -> &[u8] {
            let is_space = |byte: &&u8| matches!(byte, b' ' | b'\t');
            &bytes[bytes.iter().take_while(is_space).count()..]
        }

        fn token(bytes: &[u8]) -> Option<&[u8]> {
            let length = bytes.iter().take_while(|byte| is_token(**byte)).count();
            (length > 0).then(|| &bytes[length..])
        }

        fn quoted(bytes: &[u8]) -> Option<&[u8]> {
            match bytes {
                [b'"', rest @ ..] => Some(rest),
                [b'\\', byte, rest @ ..] if is_text(*byte) => quoted(rest),
                [b'\\', ..] => None,
                [byte, rest @ ..] if is_text(*byte) => quoted(rest),
                _ => None,
            }
        }

        fn value(bytes: &[u8]) -> Option<&[u8]> {
            match bytes.strip_prefix(b"\"") {
                Some(rest) => quoted(rest),
                None => token(bytes),
            }
        }

        pub fn is_extensions(bytes: &[u8]) -> bool {
            if bytes.is_empty() {
                return true;
            }
            let after_semicolon = space(bytes).strip_prefix(b";");
            let Some(after_name) = after_semicolon.and_then(|rest| token(space(rest))) else {
                return false;
            };
            let Some(after_equals) = space(after_name).strip_prefix(b"=") else {
                return is_extensions(after_name);
            };
            value(space(after_equals)).is_some_and(is_extensions)
        }
    }

    #[test]
    fn extensions_are_names_with_optional_values() {
        for (text, expected) in [
            ("", true),
            (";a", true),
            (" ;a", true),
            ("; a = b ; c", true),
            (";a=\"\"", true),
            (";a=\"\\\";\" ;b", true),
            (";", false),
            (" ", false),
            ("a", false),
            (";a ", false),
            (";a=", false),
            (";=a", false),
            (";a b", false),
            (";a=\"", false),
            (";a=\"b\"c", false),
            (";a=b\"c\"", false),
            (";a=\"b\"\"c\"", false),
        ] {
            assert_eq!(is_valid(text.as_bytes()), expected, "{text:?}");
            assert_eq!(
                grammar::is_extensions(text.as_bytes()),
                expected,
                "{text:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn bytes_are_accepted_as_by_the_grammar(
            bytes in prop::collection::vec(
                prop::sample::select(b"a1;;;=\"\\ \t,\r\0\xe4".to_vec()),
                0..12,
            ),
        ) {
            prop_assert_eq!(is_valid(&bytes), grammar::is_extensions(&bytes));
        }
    }
}
