/work/main/tests/compat/target/debug/deps/on_calloop-d50770656e71f22c.d: tests/on_calloop/main.rs tests/on_calloop/turn.rs tests/on_calloop/channels.rs tests/on_calloop/sources.rs tests/on_calloop/timers.rs

/work/main/tests/compat/target/debug/deps/libon_calloop-d50770656e71f22c.rmeta: tests/on_calloop/main.rs tests/on_calloop/turn.rs tests/on_calloop/channels.rs tests/on_calloop/sources.rs tests/on_calloop/timers.rs

tests/on_calloop/main.rs:
tests/on_calloop/turn.rs:
tests/on_calloop/channels.rs:
tests/on_calloop/sources.rs:
tests/on_calloop/timers.rs:
