/work/main/tests/compat/target/debug/deps/parking-5ba56881c2718e2e.d: /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/parking-2.2.1/src/lib.rs

/work/main/tests/compat/target/debug/deps/libparking-5ba56881c2718e2e.rmeta: /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/parking-2.2.1/src/lib.rs

/root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/parking-2.2.1/src/lib.rs:
