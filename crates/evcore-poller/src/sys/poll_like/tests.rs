//! What only one of the kernels does, and random programs over all three. The scenarios that they share
//! with kqueue are in `sys/tests`.

use crate::sys::tests::*;

mod devpoll;
mod model;
mod port;
