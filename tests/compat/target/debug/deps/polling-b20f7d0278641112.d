/work/main/tests/compat/target/debug/deps/polling-b20f7d0278641112.d: polling/src/lib.rs polling/src/event.rs polling/src/events.rs polling/src/mode.rs polling/src/source.rs polling/src/poller.rs polling/src/loan.rs polling/src/watch.rs polling/src/under_test.rs

/work/main/tests/compat/target/debug/deps/libpolling-b20f7d0278641112.rmeta: polling/src/lib.rs polling/src/event.rs polling/src/events.rs polling/src/mode.rs polling/src/source.rs polling/src/poller.rs polling/src/loan.rs polling/src/watch.rs polling/src/under_test.rs

polling/src/lib.rs:
polling/src/event.rs:
polling/src/events.rs:
polling/src/mode.rs:
polling/src/source.rs:
polling/src/poller.rs:
polling/src/loan.rs:
polling/src/watch.rs:
polling/src/under_test.rs:
