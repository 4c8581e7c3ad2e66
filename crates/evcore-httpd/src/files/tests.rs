//! Tests that compare the resolution of names with a model, on a real tree with symbolic links.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{FileExt, symlink},
    path::Path,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::SystemTime,
};

use evcore_testing::Scratch;
use proptest::prelude::*;

use super::*;

pub(crate) fn open_file() -> Arc<OpenFile> {
    let file = File::open("Cargo.toml").expect("cargo runs the tests in the crate's directory");
    let found = Found::of(&file).expect("it has metadata");
    let found = found.expect("it is not a directory");
    Arc::new(OpenFile::new(file, found, b"a", i64::MAX))
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Node {
    File(String),
    Dir,
    Link(String),
}

/// A real directory tree, and its nodes by their paths in the tree. The server's root is `top`.
struct Tree {
    scratch: Scratch,
    nodes: BTreeMap<Vec<String>, Node>,
}

/// The entries of the tree: `DIR/`, a file, or `LINK -> TARGET`, where `@` is the tree's own
/// directory.
const TREE: [&str; 22] = [
    "outside/",
    "outside/secret",
    "top/",
    "top/a",
    "top/%2e%2e",
    "top/back\\slash",
    "top/...",
    "top/a.",
    "top/d/",
    "top/d/b",
    "top/d/e/",
    "top/d/e/c",
    "top/d/up -> ../a",
    "top/d/here -> .",
    "top/d/parent -> ..",
    "top/link -> d/e",
    "top/out -> ../outside",
    "top/secret -> ../outside/secret",
    "top/d/far -> ../../outside/secret",
    "top/again -> ../top/a",
    "top/absolute -> @/top/a",
    "top/loop -> loop",
];

impl Tree {
    fn new() -> Self {
        let scratch = Scratch::new("tree");
        let base = scratch.path().to_str().expect("a text").to_owned();
        let nodes = TREE.map(|entry| {
            let (name, node) = match entry.split_once(" -> ") {
                Some((name, target)) => (name, Node::Link(target.replace('@', &base))),
                None if entry.ends_with('/') => (entry.trim_end_matches('/'), Node::Dir),
                None => (entry, Node::File(format!("the content of {entry}"))),
            };
            let path = scratch.path().join(name);
            match &node {
                Node::File(content) => fs::write(path, content),
                Node::Dir => fs::create_dir(path),
                Node::Link(target) => symlink(target, path),
            }
            .expect("the directory is ours");
            (split(name), node)
        });
        Self {
            nodes: nodes.into_iter().collect(),
            scratch,
        }
    }

    fn files(&self, resolves_links: bool) -> Files {
        let mut files = files(&self.scratch.file("top"));
        if !resolves_links {
            files.root = files.root.walked();
        }
        files
    }

    /// The content of the file that a path names by the rules of `path` and `root`; `None` if it
    /// names no file. At most `left` symbolic links are followed.
    fn resolve(&self, path: &str, left: u32) -> Option<&str> {
        let names = split(path);
        if names
            .iter()
            .any(|name| matches!(name.as_str(), "" | "." | ".."))
        {
            return None;
        }
        let mut left = left;
        let at = self.walk(split("top"), names, &mut left)?;
        match self.nodes.get(&at)? {
            Node::File(content) => Some(content),
            _ => None,
        }
    }

    fn walk(&self, from: Vec<String>, names: Vec<String>, left: &mut u32) -> Option<Vec<String>> {
        let mut at = from;
        for name in names {
            if self.nodes.get(&at) != Some(&Node::Dir) {
                return None;
            }
            match name.as_str() {
                "." => continue,
                // The root has no parent.
                ".." if at.len() == 1 => return None,
                ".." => {
                    at.pop();
                    continue;
                }
                _ => at.push(name),
            }
            if let Node::Link(target) = self.nodes.get(&at)? {
                *left = left.checked_sub(1)?;
                if target.starts_with('/') {
                    return None;
                }
                at.pop();
                at = self.walk(at, split(target), left)?;
            }
        }
        Some(at)
    }
}

fn split(path: &str) -> Vec<String> {
    path.split('/').map(str::to_owned).collect()
}

fn files(root: &Path) -> Files {
    let options = Options {
        root: Some(root.to_owned()),
        open_files: 4,
        ..Options::default()
    };
    let files = Files::open(&options).expect("a directory");
    files.expect("a root")
}

fn content(files: &mut Files, target: &str) -> Option<String> {
    let file = files.find(target, &Clock::system()).ok()?;
    let mut bytes = vec![0; usize::try_from(file.size).expect("it is small")];
    file.file
        .read_exact_at(&mut bytes, 0)
        .expect("it is readable");
    Some(String::from_utf8(bytes).expect("a text"))
}

/// Decodes by hand; `None` if the target cannot be decoded to a name.
fn decode(encoded: &str) -> Option<String> {
    let mut parts = encoded.split('%');
    let mut decoded = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2)?;
        let byte = u8::from_str_radix(digits, 16).ok()?;
        if digits.starts_with('+') || byte == 0 || byte == b'/' {
            return None;
        }
        decoded.push(byte);
        decoded.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(decoded).ok()
}

/// A component of a path, from the tree or hostile, with some of its bytes encoded.
fn component() -> impl Strategy<Value = String> {
    let names = TREE.iter().flat_map(|entry| {
        let name = entry.split(" -> ").next().unwrap_or_default();
        name.split('/').map(str::to_owned)
    });
    let mut names: Vec<String> = names.filter(|name| !name.is_empty()).collect();
    names.extend(["d", "d", "d", "link", "d/here", "d/parent"].map(str::to_owned));
    let hostile = [
        "",
        ".",
        "..",
        "%2e%2e",
        ".%2E",
        "%252e%252e",
        "%2f",
        "..%2f",
        "%00",
        "%",
        "%g0",
        "..\\",
        "\\",
        "nothing",
        "%5c",
    ];
    let name = prop_oneof![
        6 => prop::sample::select(names),
        1 => prop::sample::select(hostile.map(str::to_owned).to_vec()),
    ];
    (name, any::<u16>()).prop_map(|(name, encoded)| {
        let bytes = name.bytes().zip(0..);
        bytes
            .map(|(byte, at)| match byte {
                b'%' | b'/' => char::from(byte).to_string(),
                _ if encoded & 0x11 == 0x11 && encoded >> (at % 16) & 1 == 1 => {
                    format!("%{byte:02x}")
                }
                _ => char::from(byte).to_string(),
            })
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn names_are_resolved_as_a_model_resolves_them(
        paths in prop::collection::vec(prop::collection::vec(component(), 1..6), 1..40)
    ) {
        let tree = Tree::new();
        // Only Linux's kernel resolves a whole name, and follows links within the root.
        let modes = [(0, false), (40, true)];
        for (links, resolves_links) in &modes[..if cfg!(target_os = "linux") { 2 } else { 1 }] {
            let mut files = tree.files(*resolves_links);
            for path in &paths {
                let path = path.join("/");
                let expected = decode(&path).and_then(|path| tree.resolve(&path, *links));
                // The second time, the file may come from the cache.
                for _ in 0..2 {
                    let found = content(&mut files, &format!("/files/{path}"));
                    prop_assert_eq!(found.as_deref(), expected, "{}", path);
                }
            }
        }
    }
}

#[test]
#[cfg(target_os = "linux")]
fn links_within_the_root_are_followed_by_the_kernel_alone() {
    let tree = Tree::new();
    for (path, entry) in [
        ("d/up", "top/a"),
        ("link/c", "top/d/e/c"),
        ("d/here/b", "top/d/b"),
        ("d/parent/d/parent/a", "top/a"),
    ] {
        let target = format!("/files/{path}");
        let expected = format!("the content of {entry}");
        assert_eq!(content(&mut tree.files(true), &target), Some(expected));
        assert_eq!(content(&mut tree.files(false), &target), None, "{path}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn no_race_of_renames_leads_outside() {
    use rustix::fs::{CWD, RenameFlags, renameat_with};

    let scratch = Scratch::new("race");
    let at = |name| scratch.file(name);
    for (dir, content) in [
        ("outside", "secret"),
        ("top", "of the root"),
        ("top/d", "public"),
    ] {
        fs::create_dir(at(dir)).expect("the directory is ours");
        fs::write(at(dir).join("a"), content).expect("the directory is ours");
    }
    symlink("../outside", at("top/link")).expect("the directory is ours");
    let is_done = AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            while !is_done.load(Relaxed) {
                let (one, other) = (at("top/d"), at("top/link"));
                renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).expect("both are there");
            }
        });
        let mut others = Vec::new();
        let served = [true, false].map(|resolves_links| {
            let mut files = files(&at("top"));
            if !resolves_links {
                files.root = files.root.walked();
            }
            let (mut served, mut tries) = (0, 0);
            // While `d` is the link, no file is found. If the other thread does not run meanwhile,
            // many tries in a row fail.
            while tries < 3_000 || served == 0 && tries < 1_000_000 {
                files.close_cached();
                let found = content(&mut files, "/files/d/a");
                served += usize::from(found.is_some());
                others.extend(found.filter(|found| found != "public"));
                tries += 1;
            }
            served
        });
        // This comes before the assertions, because the scope waits for the other thread even after
        // a panic.
        is_done.store(true, Relaxed);
        assert_eq!(others, [""; 0]);
        assert!(!served.contains(&0), "no file was found: {served:?}");
    });
}

#[test]
fn a_file_is_opened_once_a_second() {
    let tree = Tree::new();
    let mut files = tree.files(true);
    let time = evcore::clock::ManualTimeSource::new();
    let mut clock = Clock::with_source(time.clone());
    let mut find = |ms| {
        time.advance(Duration::from_millis(ms));
        clock.update();
        files.find("/files/a", &clock)
    };
    let first = find(0).expect("a file");
    assert!(Arc::ptr_eq(&find(999).expect("a file"), &first));
    let second = find(1).expect("a file");
    assert!(!Arc::ptr_eq(&second, &first));
    fs::remove_file(tree.scratch.file("top/a")).expect("it is ours");
    assert!(Arc::ptr_eq(&find(500).expect("a file"), &second));
    assert_eq!(find(500).unwrap_err(), Miss::Status(Status::NotFound));
    fs::write(tree.scratch.file("top/a"), "again").expect("the directory is ours");
    assert_eq!(find(0).expect("errors are not kept").size, 5);
}

fn set_modified(tree: &Tree, modified: SystemTime) {
    let mut options = fs::File::options();
    let file = options.write(true).open(tree.scratch.file("top/a"));
    file.and_then(|file| file.set_modified(modified))
        .expect("it is ours");
}

#[test]
fn the_entity_tag_changes_with_the_time_of_modification() {
    let tree = Tree::new();
    let mut tags = Vec::new();
    for content in ["one", "two", "three"] {
        fs::write(tree.scratch.file("top/a"), content).expect("the directory is ours");
        let nanoseconds = tags.len() as u64;
        let modified =
            SystemTime::UNIX_EPOCH + Duration::new(7, 0) + Duration::from_nanos(nanoseconds);
        set_modified(&tree, modified);
        let file = tree.files(true).find("/files/a", &Clock::system());
        let file = file.expect("a file");
        assert_eq!(file.modified, Some(7));
        assert!(
            file.validators
                .ends_with("Last-Modified: Thu, 01 Jan 1970 00:00:07 GMT")
        );
        tags.push(file.etag.clone());
    }
    tags.dedup();
    assert_eq!(tags.len(), 3, "{tags:?}");
}

#[test]
fn a_file_of_the_future_has_no_date() {
    let tree = Tree::new();
    let modified = SystemTime::now() + Duration::from_secs(86_400);
    set_modified(&tree, modified);
    let file = tree.files(true).find("/files/a", &Clock::system());
    let file = file.expect("a file");
    assert_eq!(file.modified, None);
    assert!(!file.validators.contains("Last-Modified"));
}
