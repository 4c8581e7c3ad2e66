//! The options that accepted connections and opened connections have in common.

use std::time::Duration;

use crate::address::Address;
use crate::setting::{Setting, if_on, number, whole};
use crate::socket_option::{
    BUSY_POLL, CONGESTION_CONTROL, DEVICE, KEEPALIVE, KEEPALIVE_IDLE, KEEPALIVE_INTERVAL,
    KEEPALIVE_PROBES, MARK, MULTIPATH, NODELAY, NOTSENT_LOWAT, RECEIVE_BUFFER, SEND_BUFFER,
    TOS_OF_MAPPED, TOS_V4, TOS_V6, TRANSPARENT_V4, TRANSPARENT_V6, USER_TIMEOUT, Value,
};

/// Options of TCP connections, for [listeners](crate::ListenerOptions::socket) and for
/// [connects](crate::ConnectOptions::socket).
///
/// A listener sets them on its own socket, from which accepted connections inherit them: on Linux
/// without a system call.
///
/// | option | default | systems |
/// |---|---|---|
/// | [`nodelay`](Self::nodelay) | on | all |
/// | [`keepalive`](Self::keepalive) | off | not OpenBSD |
/// | [`keepalive_interval`](Self::keepalive_interval) | the system's | not OpenBSD |
/// | [`keepalive_probes`](Self::keepalive_probes) | the system's | not OpenBSD |
/// | [`user_timeout`](Self::user_timeout) | the system's | Linux |
/// | [`receive_buffer`](Self::receive_buffer) | the system's | all |
/// | [`send_buffer`](Self::send_buffer) | the system's | all |
/// | [`notsent_lowat`](Self::notsent_lowat) | the system's | Linux |
/// | [`tos`](Self::tos) | 0 | all |
/// | [`congestion_control`](Self::congestion_control) | the system's | Linux, FreeBSD |
/// | [`multipath`](Self::multipath) | off | Linux |
/// | [`busy_poll`](Self::busy_poll) | the system's | Linux |
/// | [`mark`](Self::mark) | none | Linux, with `CAP_NET_ADMIN` |
/// | [`device`](Self::device) | any | Linux |
/// | [`transparent`](Self::transparent) | off | Linux, with `CAP_NET_ADMIN` |
///
/// An option that this system does not have is an error, usually before a socket is made. So is
/// every option for a Unix socket, except `nodelay`: it is ignored, because a Unix socket sends at
/// once.
///
/// # Examples
///
/// ```
/// use evcore_net::{ConnectOptions, Listener, SocketOptions};
/// use std::time::Duration;
///
/// let options = SocketOptions::new()
///     .keepalive(Duration::from_secs(60))
///     .send_buffer(64 * 1024);
/// let listener = Listener::builder().socket(options.clone()).bind("127.0.0.1:0")?;
/// let stream = ConnectOptions::new().socket(options).connect(listener.local_addr())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "options have no effect until a socket is opened with them"]
pub struct SocketOptions {
    nodelay: bool,
    /// Zero if off.
    keepalive: Duration,
    /// This field and the following ones are zero, `None` or false for the system's default.
    keepalive_interval: Duration,
    keepalive_probes: Option<u32>,
    user_timeout: Duration,
    receive_buffer: Option<u32>,
    send_buffer: Option<u32>,
    notsent_lowat: Option<u32>,
    tos: Option<u8>,
    congestion_control: Option<String>,
    multipath: bool,
    busy_poll: Duration,
    mark: Option<u32>,
    device: Option<String>,
    transparent: bool,
}

impl SocketOptions {
    /// The default options, as in the table above.
    pub const fn new() -> Self {
        Self {
            nodelay: true,
            keepalive: Duration::ZERO,
            keepalive_interval: Duration::ZERO,
            keepalive_probes: None,
            user_timeout: Duration::ZERO,
            receive_buffer: None,
            send_buffer: None,
            notsent_lowat: None,
            tos: None,
            congestion_control: None,
            multipath: false,
            busy_poll: Duration::ZERO,
            mark: None,
            device: None,
            transparent: false,
        }
    }

    /// Sets whether connections send small segments at once (`TCP_NODELAY`): on by default.
    ///
    /// On systems other than Linux it costs a system call for each accepted connection.
    pub const fn nodelay(mut self, on: bool) -> Self {
        self.nodelay = on;
        self
    }

    /// Sets how long the peer may be silent before the kernel probes whether it still exists
    /// (`SO_KEEPALIVE`, `TCP_KEEPIDLE`), rounded up to whole seconds. The default is
    /// [`Duration::ZERO`]: never. Linux takes at most 32,767 seconds, and longer times are lowered
    /// to that on all systems.
    pub const fn keepalive(mut self, idle: Duration) -> Self {
        self.keepalive = idle;
        self
    }

    /// Sets the time between two probes (`TCP_KEEPINTVL`), rounded up to whole seconds: 75 seconds
    /// by default on Linux, which refuses more than 32,767. Without [`keepalive`](Self::keepalive)
    /// there are no probes.
    pub const fn keepalive_interval(mut self, interval: Duration) -> Self {
        self.keepalive_interval = interval;
        self
    }

    /// Sets how many probes may stay unanswered before the connection fails with
    /// [`TimedOut`](std::io::ErrorKind::TimedOut) (`TCP_KEEPCNT`): 9 by default on Linux, which
    /// takes 1 to 127.
    pub const fn keepalive_probes(mut self, probes: u32) -> Self {
        self.keepalive_probes = Some(probes);
        self
    }

    /// Sets how long sent bytes may stay unacknowledged before the connection fails with
    /// [`TimedOut`](std::io::ErrorKind::TimedOut) (`TCP_USER_TIMEOUT`, RFC 5482), rounded up to
    /// whole milliseconds. The default is [`Duration::ZERO`]: the system's number of
    /// retransmissions, which takes some 15 minutes on Linux.
    ///
    /// It also bounds how long unanswered [`keepalive`](Self::keepalive) probes go on. Linux only.
    pub const fn user_timeout(mut self, timeout: Duration) -> Self {
        self.user_timeout = timeout;
        self
    }

    /// Sets how many bytes a connection may have received that the application has not read
    /// (`SO_RCVBUF`). By default the system chooses, and Linux then adapts the size of each
    /// connection to its traffic.
    ///
    /// It is set before the socket listens or connects, because both sides agree on the scale of
    /// the TCP window at that time. Linux doubles the number to have room for its own structures,
    /// does not adapt the size any more, and silently lowers the number to `net.core.rmem_max`.
    /// Other systems refuse a number that is too high.
    ///
    /// ```
    /// use evcore_net::{Listener, SocketOptions};
    ///
    /// // On Linux a connection takes at most some 64 KiB of the kernel's memory.
    /// let options = SocketOptions::new().receive_buffer(16 * 1024).send_buffer(16 * 1024);
    /// let listener = Listener::builder().socket(options).bind("127.0.0.1:0")?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub const fn receive_buffer(mut self, bytes: u32) -> Self {
        self.receive_buffer = Some(bytes);
        self
    }

    /// Sets how many bytes a connection may have sent that the peer has not acknowledged
    /// (`SO_SNDBUF`). By default the system chooses, and Linux then adapts the size of each
    /// connection to its traffic.
    ///
    /// It is doubled and limited as [`receive_buffer`](Self::receive_buffer) is; the limit on Linux
    /// is `net.core.wmem_max`.
    pub const fn send_buffer(mut self, bytes: u32) -> Self {
        self.send_buffer = Some(bytes);
        self
    }

    /// Sets how many bytes that were never sent may wait in the kernel before the socket stops
    /// being writable (`TCP_NOTSENT_LOWAT`). By default the number is unlimited.
    ///
    /// With a low number, more data, such as frames of HTTP/2, stays in the program, which can
    /// still replace or reorder it. Unlike [`send_buffer`](Self::send_buffer), it does not limit
    /// the bytes on their way. 0 stands for the system's default. Linux only.
    pub const fn notsent_lowat(mut self, bytes: u32) -> Self {
        self.notsent_lowat = Some(bytes);
        self
    }

    /// Sets the type of service of sent packets, which is the traffic class of IPv6 (`IP_TOS`,
    /// `IPV6_TCLASS`): the upper six bits are the differentiated services code point. TCP manages
    /// the lower two bits (ECN) itself.
    pub const fn tos(mut self, class: u8) -> Self {
        self.tos = Some(class);
        self
    }

    /// Sets the algorithm of congestion control by its name, such as `bbr` (`TCP_CONGESTION`).
    ///
    /// Opening a socket fails with `NotFound` if the kernel does not have the algorithm, and with
    /// `PermissionDenied` if this user may not choose it
    /// (`net.ipv4.tcp_allowed_congestion_control`). Linux and FreeBSD only.
    pub fn congestion_control(mut self, algorithm: impl Into<String>) -> Self {
        self.congestion_control = Some(algorithm.into());
        self
    }

    /// Sets whether connections may use several paths at once (Multipath TCP, RFC 8684): off by
    /// default. With a peer that does not support it, a connection is plain TCP.
    ///
    /// The kernel refuses it if `net.mptcp.enabled` is 0, and sockets of Multipath TCP do not
    /// support all other options. Linux only.
    pub const fn multipath(mut self, on: bool) -> Self {
        self.multipath = on;
        self
    }

    /// Sets for how long a call that would block polls the network device (`SO_BUSY_POLL`), rounded
    /// up to whole microseconds. The default is the system's, `net.core.busy_read`.
    ///
    /// This option does not make the wait of a poller poll the device.
    /// `evcore_poller::Poller::set_busy_poll` and the sysctl `net.core.busy_poll` do.
    ///
    /// It trades CPU time for latency, and needs a driver that supports it. Older
    /// kernels require `CAP_NET_ADMIN` for a time above the system's. Linux only.
    pub const fn busy_poll(mut self, time: Duration) -> Self {
        self.busy_poll = time;
        self
    }

    /// Sets the mark of sent packets, by which a firewall or a routing rule recognises them
    /// (`SO_MARK`). Needs `CAP_NET_ADMIN`. Linux only.
    pub const fn mark(mut self, mark: u32) -> Self {
        self.mark = Some(mark);
        self
    }

    /// Sets the only network device, such as `eth0`, through which packets are sent and received
    /// (`SO_BINDTODEVICE`). Opening a socket fails if there is no such device. Linux only; before
    /// 5.7 it needed `CAP_NET_RAW`.
    pub fn device(mut self, name: impl Into<String>) -> Self {
        self.device = Some(name.into());
        self
    }

    /// Sets whether sockets may have local addresses that this machine does not have
    /// (`IP_TRANSPARENT`): off by default.
    ///
    /// A transparent proxy accepts connections that the firewall has redirected (TPROXY), and
    /// connects [from the client's address](crate::ConnectOptions::local_address). Needs
    /// `CAP_NET_ADMIN`. Linux only.
    pub const fn transparent(mut self, on: bool) -> Self {
        self.transparent = on;
        self
    }

    /// All options in the order in which they are set, each with its value if it is set.
    #[inline]
    pub(crate) fn settings(&self, address: &Address) -> [Setting<'_>; 17] {
        // All fields are named, so that the compiler reports a forgotten one.
        let Self {
            nodelay,
            keepalive,
            keepalive_interval,
            keepalive_probes,
            user_timeout,
            receive_buffer,
            send_buffer,
            notsent_lowat,
            tos,
            congestion_control,
            multipath,
            busy_poll,
            mark,
            device,
            transparent,
        } = self;
        let second = Duration::from_secs(1);
        // Linux takes at most this many seconds.
        let idle = whole(*keepalive.min(&Duration::from_secs(32_767)), second);
        let is_v6 = address.tcp().is_some_and(|address| address.is_ipv6());
        let tos = tos.map(|class| Value::Number(class.into()));
        let tos_row = if is_v6 { &TOS_V6 } else { &TOS_V4 };
        let transparent_row = if is_v6 {
            &TRANSPARENT_V6
        } else {
            &TRANSPARENT_V4
        };
        let nodelay = Value::Number((*nodelay).into());
        [
            (&NODELAY, (!address.is_unix()).then_some(nodelay)),
            (&KEEPALIVE_IDLE, idle),
            (&KEEPALIVE, idle.and(if_on(true))),
            (&KEEPALIVE_INTERVAL, whole(*keepalive_interval, second)),
            (&KEEPALIVE_PROBES, keepalive_probes.map(number)),
            (
                &USER_TIMEOUT,
                whole(*user_timeout, Duration::from_millis(1)),
            ),
            (&RECEIVE_BUFFER, receive_buffer.map(number)),
            (&SEND_BUFFER, send_buffer.map(number)),
            (&NOTSENT_LOWAT, notsent_lowat.map(number)),
            (tos_row, tos),
            // A socket for IPv6 may also send packets of IPv4, which have their own field.
            (&TOS_OF_MAPPED, tos.filter(|_| is_v6 && HAS_TOS_OF_MAPPED)),
            (
                &CONGESTION_CONTROL,
                congestion_control.as_deref().map(Value::Text),
            ),
            (&MULTIPATH, multipath.then_some(Value::OtherCall)),
            (&BUSY_POLL, whole(*busy_poll, Duration::from_micros(1))),
            (
                &MARK,
                mark.map(|mark| Value::Number(i32::from_ne_bytes(mark.to_ne_bytes()))),
            ),
            (&DEVICE, device.as_deref().map(Value::Text)),
            (transparent_row, if_on(*transparent)),
        ]
    }
}

/// On other systems a socket for IPv6 has no option for its packets of IPv4.
const HAS_TOS_OF_MAPPED: bool = cfg!(any(target_os = "linux", target_os = "android"));

impl Default for SocketOptions {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests;
