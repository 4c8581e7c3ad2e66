/work/main/tests/compat/target/debug/deps/evcore_poller-b85bddf6a7f0f3c2.d: /work/main/crates/evcore-poller/src/lib.rs /work/main/crates/evcore-poller/src/event.rs /work/main/crates/evcore-poller/src/events.rs /work/main/crates/evcore-poller/src/interest.rs /work/main/crates/evcore-poller/src/kind.rs /work/main/crates/evcore-poller/src/pollable.rs /work/main/crates/evcore-poller/src/ready.rs /work/main/crates/evcore-poller/src/error.rs /work/main/crates/evcore-poller/src/asked.rs /work/main/crates/evcore-poller/src/backend.rs /work/main/crates/evcore-poller/src/descriptors.rs /work/main/crates/evcore-poller/src/entry.rs /work/main/crates/evcore-poller/src/poller.rs /work/main/crates/evcore-poller/src/poller/ghosts.rs /work/main/crates/evcore-poller/src/registry.rs /work/main/crates/evcore-poller/src/alarm.rs /work/main/crates/evcore-poller/src/waker.rs /work/main/crates/evcore-poller/src/sys/mod.rs /work/main/crates/evcore-poller/src/sys/epoll.rs /work/main/crates/evcore-poller/src/sys/fork.rs /work/main/crates/evcore-poller/src/sys/number.rs /work/main/crates/evcore-poller/src/sys/pieces.rs /work/main/crates/evcore-poller/src/sys/poll.rs /work/main/crates/evcore-poller/src/sys/select.rs /work/main/crates/evcore-poller/src/sys/select/sets.rs /work/main/crates/evcore-poller/src/../README.md

/work/main/tests/compat/target/debug/deps/libevcore_poller-b85bddf6a7f0f3c2.rmeta: /work/main/crates/evcore-poller/src/lib.rs /work/main/crates/evcore-poller/src/event.rs /work/main/crates/evcore-poller/src/events.rs /work/main/crates/evcore-poller/src/interest.rs /work/main/crates/evcore-poller/src/kind.rs /work/main/crates/evcore-poller/src/pollable.rs /work/main/crates/evcore-poller/src/ready.rs /work/main/crates/evcore-poller/src/error.rs /work/main/crates/evcore-poller/src/asked.rs /work/main/crates/evcore-poller/src/backend.rs /work/main/crates/evcore-poller/src/descriptors.rs /work/main/crates/evcore-poller/src/entry.rs /work/main/crates/evcore-poller/src/poller.rs /work/main/crates/evcore-poller/src/poller/ghosts.rs /work/main/crates/evcore-poller/src/registry.rs /work/main/crates/evcore-poller/src/alarm.rs /work/main/crates/evcore-poller/src/waker.rs /work/main/crates/evcore-poller/src/sys/mod.rs /work/main/crates/evcore-poller/src/sys/epoll.rs /work/main/crates/evcore-poller/src/sys/fork.rs /work/main/crates/evcore-poller/src/sys/number.rs /work/main/crates/evcore-poller/src/sys/pieces.rs /work/main/crates/evcore-poller/src/sys/poll.rs /work/main/crates/evcore-poller/src/sys/select.rs /work/main/crates/evcore-poller/src/sys/select/sets.rs /work/main/crates/evcore-poller/src/../README.md

/work/main/crates/evcore-poller/src/lib.rs:
/work/main/crates/evcore-poller/src/event.rs:
/work/main/crates/evcore-poller/src/events.rs:
/work/main/crates/evcore-poller/src/interest.rs:
/work/main/crates/evcore-poller/src/kind.rs:
/work/main/crates/evcore-poller/src/pollable.rs:
/work/main/crates/evcore-poller/src/ready.rs:
/work/main/crates/evcore-poller/src/error.rs:
/work/main/crates/evcore-poller/src/asked.rs:
/work/main/crates/evcore-poller/src/backend.rs:
/work/main/crates/evcore-poller/src/descriptors.rs:
/work/main/crates/evcore-poller/src/entry.rs:
/work/main/crates/evcore-poller/src/poller.rs:
/work/main/crates/evcore-poller/src/poller/ghosts.rs:
/work/main/crates/evcore-poller/src/registry.rs:
/work/main/crates/evcore-poller/src/alarm.rs:
/work/main/crates/evcore-poller/src/waker.rs:
/work/main/crates/evcore-poller/src/sys/mod.rs:
/work/main/crates/evcore-poller/src/sys/epoll.rs:
/work/main/crates/evcore-poller/src/sys/fork.rs:
/work/main/crates/evcore-poller/src/sys/number.rs:
/work/main/crates/evcore-poller/src/sys/pieces.rs:
/work/main/crates/evcore-poller/src/sys/poll.rs:
/work/main/crates/evcore-poller/src/sys/select.rs:
/work/main/crates/evcore-poller/src/sys/select/sets.rs:
/work/main/crates/evcore-poller/src/../README.md:
