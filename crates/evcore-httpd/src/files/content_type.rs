//! The media type of a file, by the extension of its name.

use mime_guess::MimeGuess;

const UNKNOWN: &str = "application/octet-stream";

/// Returns the media type for the name of a file. The case of the extension does not matter.
pub fn content_type(name: &[u8]) -> &'static str {
    extension(name)
        .and_then(|extension| MimeGuess::from_ext(extension).first_raw())
        .unwrap_or(UNKNOWN)
}

/// The text after the last dot of the last component. A dot at the component's front begins no
/// extension.
fn extension(name: &[u8]) -> Option<&str> {
    let file = name.rsplit(|byte| *byte == b'/').next()?;
    let dot = file.iter().rposition(|byte| *byte == b'.')?;
    if dot == 0 {
        return None;
    }
    std::str::from_utf8(&file[dot + 1..]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_extension_decides_the_media_type() {
        for (name, expected) in [
            ("index.html", "text/html"),
            ("a/b.TXT", "text/plain"),
            ("a.b.css", "text/css"),
            ("a.js", "text/javascript"),
            ("a.wasm", "application/wasm"),
            ("a.svg", "image/svg+xml"),
            ("a.json", "application/json"),
            ("a.png", "image/png"),
            ("a", UNKNOWN),
            ("a.", UNKNOWN),
            (".html", UNKNOWN),
            ("a.html/b", UNKNOWN),
            ("a.nonsense", UNKNOWN),
            ("a.html.", UNKNOWN),
        ] {
            assert_eq!(content_type(name.as_bytes()), expected, "{name}");
        }
        assert_eq!(content_type(b"a.\xff"), UNKNOWN);
    }
}
