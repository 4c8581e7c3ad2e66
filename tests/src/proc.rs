//! Processes, as Linux shows them in `/proc`.

use std::{collections::HashSet, fs};

/// Returns the state of a process (`S`: asleep, `T`: stopped, `Z`: ended), or `None` if the process
/// is gone.
#[must_use]
pub fn process_state(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The state is behind the name, which is in parentheses and may contain anything.
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Returns the ports of the clients that are connected to a worker at the server's port `port`. The
/// list is exact if the worker is stopped.
///
/// # Panics
///
/// If the system has no IPv4.
#[must_use]
pub fn clients_of(pid: u32, port: u16) -> HashSet<u16> {
    let files = fs::read_dir(format!("/proc/{pid}/fd"))
        .into_iter()
        .flatten();
    let links = files.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
    let links: HashSet<String> = links
        .map(|link| link.to_string_lossy().into_owned())
        .collect();
    let sockets = fs::read_to_string("/proc/net/tcp").expect("the system has IPv4");
    let clients = sockets.lines().filter_map(|line| {
        // The fields are number, local address, remote address and state (0A listens); the tenth is
        // the inode.
        let fields: Vec<&str> = line.split_whitespace().collect();
        let is_open = fields[1].ends_with(&format!(":{port:04X}"))
            && fields[3] != "0A"
            && links.contains(&format!("socket:[{}]", fields[9]));
        let (_, client) = fields[2].rsplit_once(':').filter(|_| is_open)?;
        u16::from_str_radix(client, 16).ok()
    });
    clients.collect()
}
