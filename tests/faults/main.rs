//! What must not happen, made to happen.

mod descriptors;
mod slowness;
