/work/main/tests/compat/target/debug/deps/event_listener-6032897ce5adaa72.d: /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/event-listener-5.4.2/src/lib.rs /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/event-listener-5.4.2/src/intrusive.rs /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/event-listener-5.4.2/src/notify.rs

/work/main/tests/compat/target/debug/deps/libevent_listener-6032897ce5adaa72.rmeta: /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/event-listener-5.4.2/src/lib.rs /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/event-listener-5.4.2/src/intrusive.rs /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/event-listener-5.4.2/src/notify.rs

/root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/event-listener-5.4.2/src/lib.rs:
/root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/event-listener-5.4.2/src/intrusive.rs:
/root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/event-listener-5.4.2/src/notify.rs:
