/work/main/tests/compat/target/debug/deps/async_channel-f79e575d2f3688a2.d: /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/async-channel-2.5.0/src/lib.rs

/work/main/tests/compat/target/debug/deps/libasync_channel-f79e575d2f3688a2.rmeta: /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/async-channel-2.5.0/src/lib.rs

/root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/async-channel-2.5.0/src/lib.rs:
