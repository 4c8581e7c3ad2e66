//! The dashboard in a real browser, while workers are killed and replaced.
//!
//! Where Chromium is not installed, nothing is tested, and each test prints that.

mod gone;
mod page;
mod screens;
mod workers;
