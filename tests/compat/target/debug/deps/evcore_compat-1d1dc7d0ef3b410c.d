/work/main/tests/compat/target/debug/deps/evcore_compat-1d1dc7d0ef3b410c.d: src/lib.rs src/each_backend.rs src/letters.rs src/watchdog.rs

/work/main/tests/compat/target/debug/deps/libevcore_compat-1d1dc7d0ef3b410c.rmeta: src/lib.rs src/each_backend.rs src/letters.rs src/watchdog.rs

src/lib.rs:
src/each_backend.rs:
src/letters.rs:
src/watchdog.rs:
