/work/main/tests/compat/target/debug/deps/async_executor-4fe2cea3fa6441ca.d: /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/async-executor-1.14.1/src/lib.rs

/work/main/tests/compat/target/debug/deps/libasync_executor-4fe2cea3fa6441ca.rmeta: /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/async-executor-1.14.1/src/lib.rs

/root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/async-executor-1.14.1/src/lib.rs:
