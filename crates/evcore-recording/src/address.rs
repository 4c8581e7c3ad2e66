//! Encodes addresses as bytes of a recording, and decodes them.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::PathBuf};

use evcore::Address;

const TCP: u8 = b't';
const UNIX: u8 = b'u';
const ABSTRACT: u8 = b'a';

pub(crate) fn to_bytes(address: &Address) -> Vec<u8> {
    match address {
        Address::Tcp(address) => [&[TCP][..], address.to_string().as_bytes()].concat(),
        Address::Unix(path) => [&[UNIX], path.as_os_str().as_bytes()].concat(),
        Address::Abstract(name) => [&[ABSTRACT], &name[..]].concat(),
        _ => Vec::new(),
    }
}

/// Decodes an address. Bytes that are not an address stand for a socket without a name.
pub(crate) fn from_bytes(bytes: &[u8]) -> Address {
    let tcp = |text: &[u8]| std::str::from_utf8(text).ok()?.parse().ok();
    match bytes.split_first() {
        Some((&TCP, text)) => tcp(text).map_or(Address::Unnamed, Address::Tcp),
        Some((&UNIX, path)) => Address::Unix(PathBuf::from(OsStr::from_bytes(path))),
        Some((&ABSTRACT, name)) => Address::Abstract(name.into()),
        _ => Address::Unnamed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_address_comes_back() {
        for address in [
            Address::Tcp(([127, 0, 0, 1], 80).into()),
            Address::Tcp("[::1]:443".parse().unwrap()),
            Address::Unix("/tmp/a b".into()),
            Address::Abstract(Box::new([0, 255, b'x'])),
            Address::Unnamed,
        ] {
            assert_eq!(from_bytes(&to_bytes(&address)), address);
        }
        assert_eq!(from_bytes(b"tnowhere"), Address::Unnamed);
    }
}
