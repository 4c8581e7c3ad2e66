//! What must not happen, made to happen.

mod deaf;
mod descriptors;
mod refused;
mod slowness;
