//! The parsers of what clients and users supply, for the fuzz targets in `tests/fuzz/`.

pub use crate::{
    body::{BodyReader, Framing},
    body_memory::BodyMemory,
    files::{
        condition::{Verdict, evaluate, range_applies},
        fields::Fields,
        path::decode,
        range::{Selection, select},
    },
    request::{MAX_BODY_BYTES, Parsed, Request, Version, parse},
};

/// `--cpu-affinity`.
pub mod cpu_masks {
    pub use crate::cpu_masks::parse;
}
