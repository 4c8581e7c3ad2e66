//! Tests that a file is sent although the kernel refuses sendfile(2). A seccomp filter refuses the
//! call for one thread.

#![cfg(any(target_os = "linux", target_os = "android"))]

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use evcore_net::Stream;
use evcore_testing::without;
use libc::{EINVAL, ENOSYS, EOPNOTSUPP, EPERM, SYS_sendfile};

#[test]
fn a_file_is_sent_where_sendfile_is_refused() {
    let content = std::fs::read("Cargo.toml").unwrap();
    for errno in [ENOSYS, EINVAL, EOPNOTSUPP, EPERM] {
        let (near, mut far) = UnixStream::pair().unwrap();
        let stream = Stream::from(OwnedFd::from(near));
        let file = File::open("Cargo.toml").unwrap();
        let send = || stream.send_file(&file, 0, content.len()).unwrap();
        assert_eq!(without(SYS_sendfile, errno, send), content.len());
        let mut received = vec![0; content.len()];
        far.read_exact(&mut received).unwrap();
        assert!(received == content, "error {errno}");
    }
}
