//! The functions of `evcore-poller` that `ngx_evcore_module.c` calls, with C's calling convention.

pub mod c_interface;
