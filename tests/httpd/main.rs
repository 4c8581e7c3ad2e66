//! The behaviour of the program `httpd`, over real sockets.

mod accept_policies;
mod access_log;
mod client_timeouts;
mod command_line;
mod connection_limit;
mod dashboard_files;
#[cfg(target_os = "linux")]
mod demo;
mod descriptor_limit;
mod documented;
mod error_responses;
mod file_conditions;
mod file_faults;
mod file_names;
mod file_size_limit;
mod files;
mod flight_recorder;
#[cfg(target_os = "linux")]
mod full_disk;
mod listening;
#[cfg(target_os = "linux")]
mod live_line;
mod log_pipes;
#[cfg(target_os = "linux")]
mod memory_limit;
mod metrics;
mod permitted_pollers;
mod proxy_protocol;
mod quiet;
mod refused_syscalls;
mod request_bodies;
mod requests;
mod send_buffer;
mod service_manager;
#[cfg(target_os = "linux")]
mod service_restart;
mod socket_activation;
mod split_requests;
mod status_pages;
