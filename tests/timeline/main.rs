//! The page that draws a run, in a real browser: a failing run of the simulator, and the flight records
//! of `httpd`.
//!
//! Where Chromium is not installed, nothing is tested, and each test prints that.

mod failing_run;
mod flight_records;
mod page;
