//! Cron expressions and a timer wheel.

pub mod calendar;
pub mod cron;
pub mod queue;
pub mod wheel;

pub use cron::Schedule;
pub use queue::{Backoff, JobQueue};
pub use wheel::Wheel;
