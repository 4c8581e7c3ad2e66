/work/main/tests/compat/target/debug/deps/futures_io-bc2a7b711149a765.d: /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/futures-io-0.3.34/src/lib.rs

/work/main/tests/compat/target/debug/deps/libfutures_io-bc2a7b711149a765.rmeta: /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/futures-io-0.3.34/src/lib.rs

/root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/futures-io-0.3.34/src/lib.rs:
