//! The backends of this system with a number that has no file. (Safe code cannot register one, but a
//! closed descriptor has such a number.)

use super::*;

#[test]
fn a_number_without_a_file_is_refused() {
    for kind in BackendKind::available() {
        let mut poller = Poller::with(*kind).expect("it is available");
        for number in [-100, RawFd::MAX] {
            let refused = poller.add_number(number, 1, Interest::READ, Mode::Level);
            let expected = match refused {
                Err(Error::BeyondSets { fd, .. }) => *kind == BackendKind::Select && fd == number,
                Err(Error::NotOpen { fd }) => fd == number,
                _ => false,
            };
            assert!(expected, "{kind}: {refused:?}");
        }
    }
}

#[test]
fn a_change_for_a_number_without_a_file_is_an_error_event() {
    for kind in BackendKind::available() {
        let mut poller = Poller::with(*kind).expect("it is available");
        let mut events = Events::bounded(4);
        for number in [-100, RawFd::MAX] {
            let added = poller.add_number(number, 1, Interest::NONE, Mode::Level);
            added.expect("the interest is empty");
            let count = poller.wait(&mut events, Some(Duration::ZERO));
            assert_eq!(count.expect("a wait"), 0, "{kind}");
            poller.modify(1, Interest::READ).expect("registered");
            poller.wait(&mut events, None).expect("a wait");
            let trace: Vec<_> = events.iter().map(|it| (it.key, it.ready)).collect();
            assert_eq!(trace, [(1, Ready::READABLE | Ready::ERROR)], "{kind}");
            poller.remove(1).expect("registered");
            let count = poller.wait(&mut events, Some(Duration::ZERO));
            assert_eq!(count.expect("a wait"), 0, "{kind}");
        }
    }
}
