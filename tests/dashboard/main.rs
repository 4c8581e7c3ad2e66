//! The dashboard in a real browser, while workers are killed and replaced.
//!
//! Without Chromium nothing is tested, and each test reports that.

mod gone;
mod opened_late;
mod page;
mod screens;
mod workers;
