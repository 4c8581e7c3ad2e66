//! Names of files: no name makes the server send a file outside of the root.

use std::{fs, os::unix::fs::symlink, os::unix::net::UnixListener, process::Command};

use evcore_tests::{Client, Server};

use crate::files::{Site, ask};

fn assert_not_found(client: &mut Client, target: &str) {
    let response = client.get(target);
    assert_eq!(response.status, 404, "{target}");
    assert_eq!(response.text(), "404 Not Found\n", "{target}");
}

fn fill(site: &Site) {
    fs::write(site.scratch.file("secret"), "secret").expect("the directory is ours");
    site.write("a", "hello");
    site.write("d/a", "hello");
    site.write("a b%2e", "odd");
    let absolute = site.path("a");
    for (target, name) in [
        ("../secret", "out"),
        ("../../secret", "d/out"),
        ("..", "up"),
        ("/etc", "etc"),
        ("/etc/passwd", "passwd"),
        ("/proc/self/root", "proc"),
        ("../root/a", "again"),
        (absolute.to_str().expect("a text"), "absolute"),
        ("loop", "loop"),
        ("nothing", "dangling"),
        ("d/a", "inside"),
        ("../a", "d/inside"),
    ] {
        symlink(target, site.path(name)).expect("the directory is ours");
    }
}

/// Targets for which no file is sent. Some lead to a file beneath the root, but not in a permitted
/// way: `../root/a` leaves the root, and `d/../a` has a `..`.
fn hostile() -> Vec<String> {
    let mut names: Vec<String> = [
        "../secret",
        "../root/a",
        "d/../a",
        "./a",
        "d/.",
        "d/..",
        "..",
        "%2e%2e/secret",
        "%2E%2E%2Fsecret",
        "..%2fsecret",
        "%252e%252e/secret",
        "%252e%252e%252fsecret",
        "..%5csecret",
        "..\\secret",
        "d\\a",
        "%c0%ae%c0%ae/secret",
        "/a",
        "//a",
        "/etc/passwd",
        "//etc/passwd",
        "d//a",
        "%2fetc/passwd",
        "d%2fa",
        "a%00",
        "%00",
        "a%00.txt",
        "a%",
        "a%2",
        "a%zz",
        "a.",
        "a..",
        "a%20",
        "a/",
        "a/a",
        "out",
        "d/out",
        "up/secret",
        "up/root/a",
        "etc/passwd",
        "passwd",
        "proc/etc/passwd",
        "again",
        "absolute",
        "loop",
        "loop/a",
        "dangling",
        "nothing",
    ]
    .map(str::to_owned)
    .into();
    names.push("../".repeat(1_000) + "etc/passwd");
    names.push("%2e%2e/".repeat(500) + "etc/passwd");
    names.push("a".repeat(255));
    names.push("a".repeat(256));
    names.push("a".repeat(4_096));
    names.push("d/".repeat(2_048) + "a");
    names.push("%61".repeat(2_000));
    names
}

#[test]
fn nothing_outside_of_the_root_is_sent() {
    let site = Site::start(&["--index", "a"]);
    fill(&site);
    let mut client = site.server.connect();
    for name in hostile() {
        assert_not_found(&mut client, &format!("/files/{name}"));
        assert_not_found(&mut client, &format!("http://test/files/{name}?a=b"));
    }
    for name in ["a", "%61", "d/a", "d%2Fa/../a?", "a?/../../secret"] {
        let status = if name.contains("%2F") { 404 } else { 200 };
        assert_eq!(
            client.get(&format!("/files/{name}")).status,
            status,
            "{name}"
        );
    }
    assert_eq!(client.get("/files/a%20b%252e").text(), "odd");
    let long = format!("/files/{}", "a".repeat(9_000));
    assert_eq!(client.get(&long).status, 414);
}

#[test]
fn links_that_stay_within_the_root_are_followed() {
    let site = Site::start(&[]);
    fill(&site);
    let mut client = site.server.connect();
    for name in ["inside", "d/inside"] {
        assert_eq!(client.get(&format!("/files/{name}")).text(), "hello");
    }
}

/// An old kernel has no `openat2`, and an old sandbox refuses it.
#[cfg(target_os = "linux")]
#[test]
fn without_openat2_no_link_is_followed() {
    for errno in [libc::ENOSYS, libc::EPERM] {
        let site = Site::with_command(|root| {
            evcore_tests::without(libc::SYS_openat2, errno, || {
                Server::start(&["--workers", "1", "--root", root])
            })
        });
        fill(&site);
        let mut client = site.server.connect();
        for name in hostile() {
            assert_not_found(&mut client, &format!("/files/{name}"));
        }
        for name in ["inside", "d/inside"] {
            assert_not_found(&mut client, &format!("/files/{name}"));
        }
        for name in ["a", "d/a"] {
            assert_eq!(client.get(&format!("/files/{name}")).text(), "hello");
        }
    }
}

#[test]
fn only_regular_files_are_found() {
    let site = Site::start(&[]);
    let fifo = Command::new("mkfifo").arg(site.path("fifo")).status();
    assert!(fifo.expect("it runs").success());
    let _socket = UnixListener::bind(site.path("socket")).expect("the directory is ours");
    fs::create_dir(site.path("d")).expect("the directory is ours");
    let mut client = site.server.connect();
    for name in ["fifo", "socket", "d", "d/", ""] {
        for method in ["GET", "HEAD"] {
            let target = format!("/files/{name}");
            assert_eq!(ask(&mut client, method, &target, "").status, 404, "{name}");
        }
    }
}

#[test]
fn a_device_is_not_found() {
    let server = Server::start(&["--workers", "0", "--root", "/dev"]);
    let mut client = server.connect();
    for name in ["null", "zero", "tty", "full"] {
        assert_not_found(&mut client, &format!("/files/{name}"));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_that_may_not_be_read_is_forbidden() {
    let site = start_without_privileges(&[]);
    site.write("a", "hello");
    site.write("d/a", "hello");
    let mut client = site.server.connect();
    set_mode(&site, "a", 0);
    set_mode(&site, "d", 0);
    for target in ["/files/a", "/files/d/a"] {
        assert_eq!(client.get(target).status, 403, "{target}");
    }
    set_mode(&site, "a", 0o600);
    set_mode(&site, "d", 0o700);
    for target in ["/files/a", "/files/d/a"] {
        assert_eq!(client.get(target).text(), "hello", "{target}");
    }
}

/// Only the directory's list is secret. Its files are served, and so is the redirect to its name
/// with `/`.
#[cfg(target_os = "linux")]
#[test]
fn a_directory_that_may_not_be_listed_is_redirected() {
    let site = start_without_privileges(&["--index", "a"]);
    site.write("d/a", "hello");
    site.write("d/secret/a", "secret");
    set_mode(&site, "d", 0o311);
    set_mode(&site, "d/secret", 0);
    let mut client = site.server.connect();
    let response = client.get("/files/d");
    assert_eq!(response.status, 301);
    assert_eq!(response.header("location"), Some("/files/d/"));
    assert_eq!(client.get("/files/d/").text(), "hello");
    assert_eq!(client.get("/files/d/secret/").status, 403);
    // The parent of this directory may be searched, so the directory is found.
    assert_eq!(client.get("/files/d/secret").status, 301);
    set_mode(&site, "d", 0o700);
    set_mode(&site, "d/secret", 0o700);
}

#[cfg(target_os = "linux")]
fn set_mode(site: &Site, name: &str, mode: u32) {
    use std::os::unix::fs::PermissionsExt;

    let permissions = fs::Permissions::from_mode(mode);
    fs::set_permissions(site.path(name), permissions).expect("it is ours");
}

/// Starts a server without the privileges by which root reads everything.
#[cfg(target_os = "linux")]
fn start_without_privileges(options: &[&str]) -> Site {
    use rustix::thread::{CapabilitySet, remove_capability_from_bounding_set};

    Site::with_command(|root| {
        std::thread::scope(|threads| {
            let starting = threads.spawn(|| {
                if rustix::process::getuid().is_root() {
                    for given_up in [CapabilitySet::DAC_OVERRIDE, CapabilitySet::DAC_READ_SEARCH] {
                        remove_capability_from_bounding_set(given_up).expect("it has it");
                    }
                }
                let all = ["--workers", "0", "--open-files", "0", "--root", root];
                Server::start(&[&all[..], options].concat())
            });
            starting.join().expect("it starts")
        })
    })
}
