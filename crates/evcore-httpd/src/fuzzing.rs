//! The parsers of bytes that clients and users supply, for the fuzz targets in `tests/fuzz/`.

pub use crate::{
    body::{BodyReader, Framing, MAX_BODY_BYTES},
    body_memory::BodyMemory,
    files::{
        condition::{Verdict, evaluate, range_applies},
        fields::Fields,
        path::decode,
        range::{Selection, select},
    },
    request::{Parsed, Request, parse},
    version::Version,
};

/// The parser of `--cpu-affinity`.
pub mod cpu_masks {
    pub use crate::cpu_masks::parse;
}
