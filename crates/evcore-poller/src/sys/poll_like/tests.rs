//! What only one of the kernels does, and random programs over all three. The scenarios that they share
//! with kqueue are in `sys/model_tests`.

use crate::sys::model_tests::*;

mod devpoll;
mod model;
mod port;
