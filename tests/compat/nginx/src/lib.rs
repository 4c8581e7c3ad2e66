//! What `ngx_evcore_module.c` needs of `evcore-poller`, as C functions.

pub mod c_interface;
