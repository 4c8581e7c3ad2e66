/work/main/tests/compat/target/debug/deps/evcore_compat-3646caff308ece0a.d: src/lib.rs src/each_backend.rs src/letters.rs src/watchdog.rs

/work/main/tests/compat/target/debug/deps/libevcore_compat-3646caff308ece0a.rmeta: src/lib.rs src/each_backend.rs src/letters.rs src/watchdog.rs

src/lib.rs:
src/each_backend.rs:
src/letters.rs:
src/watchdog.rs:
