//! Listeners at a path: the files that they replace, and the file that they leave.

use std::{
    fs::{self, File},
    io::{Read, Write},
    os::{
        fd::{AsFd, OwnedFd},
        unix::{
            ffi::OsStrExt,
            fs::{FileTypeExt, PermissionsExt, symlink},
            net::{UnixDatagram, UnixListener, UnixStream},
        },
    },
    path::Path,
};

use evcore_net::{Accept, Address, Error, Listener, PathError, Stream};
use evcore_testing::Scratch;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::retry_on_intr,
    net::{AddressFamily, SocketAddrUnix, SocketType},
};

fn listen_at(path: &Path) -> Result<Listener, Error> {
    Listener::bind(Address::Unix(path.into()))
}

fn listen_error(path: &Path) -> Error {
    listen_at(path).expect_err("a listener cannot be made at this path")
}

fn accept_one(listener: &Listener) -> (Stream, Address) {
    wait_readable(listener);
    match listener.accept().unwrap() {
        Accept::Connection(stream, peer) => (stream, peer),
        other => panic!("a client has connected, but accept returned {other:?}"),
    }
}

fn wait_readable(fd: impl AsFd) {
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    let deadline = Timespec {
        tv_sec: 10,
        tv_nsec: 0,
    };
    let ready = retry_on_intr(|| poll(&mut fds, Some(&deadline))).unwrap();
    assert_eq!(ready, 1, "the descriptor is not readable within 10 s");
}

fn is_socket(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket())
}

#[test]
fn a_client_and_a_server_exchange_bytes() {
    let dir = Scratch::new("unix_listener");
    let path = dir.file("a.sock");
    let listener = listen_at(&path).unwrap();
    assert_eq!(listener.local_addr().path(), Some(path.as_path()));
    assert!(matches!(listener.accept().unwrap(), Accept::WouldBlock));

    let mut client = UnixStream::connect(&path).unwrap();
    client.write_all(b"ping").unwrap();
    let (mut stream, _) = accept_one(&listener);
    wait_readable(&stream);
    let mut request = [0; 8];
    assert_eq!(stream.recv(&mut request).unwrap(), 4);
    stream.write_all(&request[..4]).unwrap();
    drop(stream);
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "ping");
}

#[test]
fn the_address_of_a_peer_is_its_path_if_it_has_one() {
    let dir = Scratch::new("unix_listener");
    let listener = listen_at(&dir.file("a.sock")).unwrap();
    let _unnamed = UnixStream::connect(dir.file("a.sock")).unwrap();
    let (stream, peer) = accept_one(&listener);
    assert_eq!(peer, Address::Unnamed);
    assert_eq!(stream.peer_addr().unwrap(), peer);

    let path = dir.file("client.sock");
    let _named = connect_from(path.as_os_str().as_bytes(), &dir.file("a.sock"));
    let (stream, peer) = accept_one(&listener);
    assert_eq!(peer, Address::Unix(path));
    assert_eq!(stream.peer_addr().unwrap(), peer);
}

fn connect_from(path: &[u8], server: &Path) -> OwnedFd {
    let client = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&client, &SocketAddrUnix::new(path).unwrap()).unwrap();
    rustix::net::connect(&client, &SocketAddrUnix::new(server).unwrap()).unwrap();
    client
}

/// For a path that fills the address, Linux returns a length beyond that of the structure.
#[cfg(target_os = "linux")]
#[test]
fn a_peer_with_a_path_that_fills_its_address_is_unnamed() {
    let dir = Scratch::new("unix_listener");
    let listener = listen_at(&dir.file("a.sock")).unwrap();
    let mut path = dir.file("").into_os_string().into_encoded_bytes();
    path.resize(108, b'x');
    let _client = connect_from(&path, &dir.file("a.sock"));
    let (stream, peer) = accept_one(&listener);
    assert_eq!(peer, Address::Unnamed);
    assert_eq!(stream.peer_addr().unwrap(), peer);
}

#[cfg(target_os = "linux")]
#[test]
fn an_inherited_listener_has_its_abstract_name() {
    use std::os::{linux::net::SocketAddrExt, unix::net::SocketAddr};

    let text = format!("evcore-net-{}\0ä", std::process::id());
    let name = SocketAddr::from_abstract_name(&text).unwrap();
    let inherited = UnixListener::bind_addr(&name).unwrap();
    let listener = Listener::from_fd(inherited.into()).unwrap();
    let address = listener.local_addr();
    assert_eq!(*address, Address::Abstract(text.as_bytes().into()));
    assert!(address.is_unix() && address.path().is_none() && listener.file().is_none());
    let shown = format!("unix:@{}", text.escape_debug());
    assert_eq!(
        address.to_string(),
        shown.replace("\\0ä", "\\x00\\xc3\\xa4")
    );
    let client = UnixStream::connect_addr(&name).unwrap();
    let (stream, _) = accept_one(&listener);
    assert_eq!(stream.local_addr().unwrap(), *address);
    drop(client);

    for refused in [
        Listener::bind(address).map(drop).unwrap_err(),
        Stream::connect(address).map(drop).unwrap_err(),
    ] {
        let message = refused.to_string();
        assert!(message.contains("abstract"), "{message}");
        assert!(message.contains("write unix:PATH"), "{message}");
    }
}

#[test]
fn a_stale_socket_is_replaced() {
    let dir = Scratch::new("unix_listener");
    let path = dir.file("a.sock");
    drop(UnixListener::bind(&path).unwrap());
    assert!(is_socket(&path), "the file outlives its server");

    let listener = listen_at(&path).unwrap();
    let _client = UnixStream::connect(&path).unwrap();
    accept_one(&listener);
}

#[test]
fn the_socket_of_a_running_server_is_an_address_in_use() {
    let dir = Scratch::new("unix_listener");
    let path = dir.file("a.sock");
    let server = listen_at(&path).unwrap();
    let error = listen_error(&path);
    assert!(matches!(error, Error::AddressInUse { .. }), "{error}");
    assert!(error.to_string().contains("another path"), "{error}");

    // The first client is the probe of the second server. The running server still listens.
    accept_one(&server);
    let _client = UnixStream::connect(&path).unwrap();
    accept_one(&server);
}

#[cfg(target_os = "linux")] // on other systems a full backlog refuses
#[test]
fn the_socket_of_a_server_with_a_full_backlog_stays() {
    let dir = Scratch::new("unix_listener");
    let path = dir.file("a.sock");
    let _server = Listener::builder()
        .backlog(0)
        .bind(Address::Unix(path.clone()))
        .unwrap();
    let _client = UnixStream::connect(&path).unwrap();
    let error = listen_error(&path);
    assert!(matches!(error, Error::AddressInUse { .. }), "{error}");
    assert!(is_socket(&path));
}

#[test]
fn a_datagram_socket_is_an_address_in_use() {
    let dir = Scratch::new("unix_listener");
    let path = dir.file("a.sock");
    let _socket = UnixDatagram::bind(&path).unwrap();
    let error = listen_error(&path);
    assert!(matches!(error, Error::AddressInUse { .. }), "{error}");
}

#[test]
fn a_file_that_is_not_a_socket_stays() {
    let dir = Scratch::new("unix_listener");
    let (directory, file, link) = (dir.file("dir"), dir.file("file"), dir.file("link"));
    fs::create_dir(&directory).unwrap();
    File::create(&file).unwrap();
    symlink("nowhere", &link).unwrap();
    for (path, name) in [
        (directory, "a directory"),
        (file, "a regular file"),
        (link, "a symbolic link"),
        ("/dev/null".into(), "a device"),
    ] {
        let error = listen_error(&path);
        match error {
            Error::UnusablePath {
                source: PathError::Taken { by },
                ..
            } => assert_eq!(by, name),
            other => panic!("{path:?}: {other}"),
        }
        assert!(fs::symlink_metadata(&path).is_ok(), "{path:?} is gone");
    }
}

#[test]
fn an_unusable_path_is_refused_with_the_reason() {
    let long = format!("/{}", "x".repeat(200));
    for (path, reason) in [
        ("", "write unix:PATH"),
        ("/zero\0byte", "zero byte"),
        (long.as_str(), "201 bytes"),
        ("/no/such/directory/a.sock", "does not exist"),
        ("/dev/null/a.sock", "does not exist"),
    ] {
        let error = listen_error(Path::new(path));
        assert!(matches!(error, Error::UnusablePath { .. }), "{error}");
        assert!(error.to_string().contains(reason), "{error}");
    }
    assert!(matches!(
        Listener::bind(Address::Unnamed),
        Err(Error::UnusablePath {
            source: PathError::Empty,
            ..
        })
    ));
}

#[test]
fn the_longest_path_is_as_long_as_the_error_states() {
    let dir = Scratch::new("unix_listener");
    let refused = listen_error(Path::new(&"x".repeat(500)));
    let Error::UnusablePath {
        source: PathError::TooLong { bytes_max, .. },
        ..
    } = refused
    else {
        panic!("{refused}");
    };
    let padding = bytes_max - dir.file("").as_os_str().len();
    let longest = dir.file(&"x".repeat(padding));
    let listener = listen_at(&longest).unwrap();
    let _client = UnixStream::connect(&longest).unwrap();
    accept_one(&listener);
    let inherited = Listener::from_fd(listener.into()).unwrap();
    assert_eq!(inherited.local_addr().path(), Some(longest.as_path()));

    let error = listen_error(&dir.file(&"x".repeat(padding + 1)));
    assert!(matches!(error, Error::UnusablePath { .. }), "{error}");
}

#[test]
fn the_file_stays_until_it_is_removed() {
    let dir = Scratch::new("unix_listener");
    let path = dir.file("a.sock");
    let listener = listen_at(&path).unwrap();
    let file = listener.file().unwrap().clone();
    assert_eq!(file.path(), path);
    drop(listener);
    assert!(is_socket(&path), "other processes may share the listener");
    assert!(file.remove().unwrap());
    assert!(!path.exists());
    assert!(!file.remove().unwrap(), "the file is removed already");
}

#[test]
fn the_file_of_a_successor_is_not_removed() {
    let dir = Scratch::new("unix_listener");
    let (path, aside) = (dir.file("a.sock"), dir.file("b.sock"));
    let old = listen_at(&path).unwrap();
    let _new = listen_at(&aside).unwrap();
    // Both files exist at the same time, so they have different inode numbers.
    fs::rename(&aside, &path).unwrap();
    assert!(!old.file().unwrap().remove().unwrap());
    assert!(is_socket(&path));
}

#[test]
fn an_inherited_listener_has_its_path_and_its_file() {
    let dir = Scratch::new("unix_listener");
    let path = dir.file("a.sock");
    let inherited = UnixListener::bind(&path).unwrap();
    let listener = Listener::from_fd(inherited.into()).unwrap();
    assert_eq!(listener.local_addr().path(), Some(path.as_path()));
    assert!(matches!(listener.accept().unwrap(), Accept::WouldBlock));
    let _client = UnixStream::connect(&path).unwrap();
    accept_one(&listener);
    assert!(listener.file().unwrap().remove().unwrap());

    // The file is gone, so the listener has none.
    let again = Listener::from_fd(listener.into()).unwrap();
    assert!(again.file().is_none());
}

#[test]
fn the_file_has_the_mode_of_the_options() {
    let dir = Scratch::new("unix_listener");
    for mode in [0o600, 0o660, 0o666] {
        let path = dir.file(&format!("{mode:o}.sock"));
        let options = Listener::builder().mode(mode);
        let _listener = options.bind(Address::Unix(path.clone())).unwrap();
        let permissions = fs::metadata(&path).unwrap().permissions();
        assert_eq!(permissions.mode() & 0o777, mode);
    }
}

#[test]
fn retry_in_use_binds_when_the_path_is_free_again() {
    let dir = Scratch::new("unix_listener");
    let path = dir.file("a.sock");
    let mut server = Some(listen_at(&path).unwrap());
    let listener =
        Listener::builder()
            .retry_in_use(true)
            .bind_with(Address::Unix(path.clone()), |_pause| {
                server = None;
                std::ops::ControlFlow::Continue(())
            });
    let listener = listener.unwrap();
    let _client = UnixStream::connect(&path).unwrap();
    accept_one(&listener);
}
