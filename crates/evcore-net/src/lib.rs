#![doc = include_str!("../README.md")]

mod address;
mod listener;

mod listener_options;
mod opening;
mod retry;
mod socket_file;

mod accept;

mod connect;
mod delivery;
mod socket;
mod stream;

mod edge_io;
mod edge_stream;
mod send_buffer;
mod transport;

mod send_file;
mod splice_pipe;

mod backoff;

mod error;

mod last_packet;
mod peer_credentials;
mod setting;
mod socket_option;
mod socket_options;
mod sys;

#[cfg(test)]
mod loopback;

pub use accept::{Accept, Resource};
pub use address::{Address, AddressError};
pub use backoff::Backoff;
pub use connect::ConnectOptions;
pub use edge_io::EdgeIo;
pub use edge_stream::{EdgeLoop, EdgeStream, Edges, Side};
pub use error::{Error, PathError};
pub use listener::Listener;
pub use listener_options::ListenerOptions;
pub use peer_credentials::PeerCredentials;
pub use send_buffer::SendBuffer;
pub use socket_file::SocketFile;
pub use socket_options::SocketOptions;
pub use splice_pipe::SplicePipe;
pub use stream::Stream;
pub use transport::Transport;

// A value of each type can move to another thread.
const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<Listener>();
    is_send::<Stream>();
    is_send::<SplicePipe>();
};
