/work/main/tests/compat/target/debug/deps/event_listener_strategy-1d5f4d10507d5065.d: /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/event-listener-strategy-0.5.4/src/lib.rs

/work/main/tests/compat/target/debug/deps/libevent_listener_strategy-1d5f4d10507d5065.rmeta: /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/event-listener-strategy-0.5.4/src/lib.rs

/root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/event-listener-strategy-0.5.4/src/lib.rs:
