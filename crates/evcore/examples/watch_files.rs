//! Prints which files of a directory change: `watch_files /etc/server`. This example is for Linux,
//! whose inotify is a descriptor.

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    use evcore::{EventLoop, Interest, Mode, Step};
    use inotify::{Inotify, WatchMask};

    let directory = std::env::args_os()
        .nth(1)
        .ok_or("usage: watch_files DIRECTORY")?;
    let directory = std::path::PathBuf::from(directory);
    let mut changes = Inotify::init()?;
    // A file was closed after writing, or was deleted, or another file was moved into its place, as
    // editors and deployments do.
    let of_interest = WatchMask::CLOSE_WRITE | WatchMask::MOVED_TO | WatchMask::DELETE;
    changes.watches().add(&directory, of_interest)?;
    let mut ev = EventLoop::builder().build()?;
    ev.add(&changes, Interest::READ, Mode::Level)?;
    println!("watching {}", directory.display());
    let mut buffer = [0; 4096];
    while ev.wait()? {
        while let Some(step) = ev.next_step() {
            let Step::Ready(..) = step else { continue };
            // The buffer has room for some changes. The next wait reports the others.
            for change in changes.read_events(&mut buffer)? {
                let name = change.name.unwrap_or_default(); // none if the kernel's queue was full
                println!("{:?} {}", change.mask, std::path::Path::new(name).display());
            }
        }
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("this system has no inotify");
}
