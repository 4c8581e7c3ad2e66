//! Tests of the behaviour that only one of event ports, `/dev/poll` and poll has, and random
//! programs over all three of them.

use crate::sys::tests::*;

mod devpoll;
mod model;
mod port;
