//! The dashboard in a real browser, while workers are killed and replaced.
//!
//! Without Chromium, each test reports that it did not run.

mod gone;
mod opened_late;
mod page;
mod screens;
mod workers;
