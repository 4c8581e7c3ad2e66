//! Tests of the behaviour that only one of the kernels has, and random programs over all three.

use crate::sys::tests::*;

mod devpoll;
mod model;
mod port;
