//! Draws runs in a real browser: failing runs of the simulator, flight records of `httpd`, and a
//! recording of a worker.
//!
//! Without Chromium, no page is tested, and each test prints that.

mod failing_run;
mod flight_records;
mod page;
