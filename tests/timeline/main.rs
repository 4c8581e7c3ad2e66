//! The page that draws a run, in a real browser: a failing run of the simulator, and the flight records
//! of `httpd`.
//!
//! Without Chromium, nothing is tested, and each test prints that.

mod failing_run;
mod flight_records;
mod page;
