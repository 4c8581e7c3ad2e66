//! Tests of the behaviour that only one of the kernels has, and random programs over all three. The
//! scenarios that they share with kqueue are in `sys/tests`.

use crate::sys::tests::*;

mod devpoll;
mod model;
mod port;
