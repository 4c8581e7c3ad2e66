/work/main/tests/compat/target/debug/deps/on_async_io-01171d0b9e8981d8.d: tests/on_async_io/main.rs tests/on_async_io/threads.rs tests/on_async_io/echo.rs tests/on_async_io/half_close.rs tests/on_async_io/tasks.rs tests/on_async_io/timers.rs

/work/main/tests/compat/target/debug/deps/libon_async_io-01171d0b9e8981d8.rmeta: tests/on_async_io/main.rs tests/on_async_io/threads.rs tests/on_async_io/echo.rs tests/on_async_io/half_close.rs tests/on_async_io/tasks.rs tests/on_async_io/timers.rs

tests/on_async_io/main.rs:
tests/on_async_io/threads.rs:
tests/on_async_io/echo.rs:
tests/on_async_io/half_close.rs:
tests/on_async_io/tasks.rs:
tests/on_async_io/timers.rs:
