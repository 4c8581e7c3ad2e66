//! Where the listeners come from: an older binary that passes them on, or the addresses of the options.

use std::{error::Error, os::fd::OwnedFd, vec};

use evcore::{
    Listener,
    accept::{Address, SocketFile},
    balancer::Policy,
};
use evcore_prefork::inherited;

use crate::{log::log, options::Options};

/// A set of listeners for all workers; or, with `reuseport`, one for each.
///
/// They are all made before any worker, so that they stay open when one goes: whoever waits at a
/// listener that is closed is sent away.
pub fn open(options: &Options) -> Result<Vec<Vec<Listener>>, Box<dyn Error>> {
    let spread_by_kernel = options.policy == Policy::ReusePort;
    let sets = if spread_by_kernel { options.workers } else { 1 };
    // In the order in which they were opened: the options are the same.
    let mut inherited = inherited()?.into_iter();
    let mut all = Vec::with_capacity(sets);
    let mut addresses = options.listen.clone();
    for _ in 0..sets {
        let set = addresses.iter().cloned();
        let set = set.map(|address| one(&mut inherited, address, spread_by_kernel));
        let set = set.collect::<Result<Vec<_>, _>>()?;
        // Where port 0 was asked for, the others listen at the one that came of it.
        addresses = set.iter().map(Listener::local_addr).cloned().collect();
        all.push(set);
    }
    Ok(all)
}

fn one(
    inherited: &mut vec::IntoIter<OwnedFd>,
    address: Address,
    reuse_port: bool,
) -> Result<Listener, Box<dyn Error>> {
    Ok(match inherited.next() {
        Some(descriptor) => Listener::from_fd(descriptor)?,
        None => Listener::builder().reuse_port(reuse_port).bind(address)?,
    })
}

/// Removes what Unix sockets leave behind: workers do not, since others share the listeners.
pub fn remove(files: &[SocketFile]) {
    for file in files {
        if let Err(error) = file.remove() {
            let path = file.path().display();
            log(format_args!("httpd: cannot remove {path}: {error}"));
        }
    }
}
