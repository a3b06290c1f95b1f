//! Cron expressions and a timer wheel.

pub mod backoff;
pub mod calendar;
pub mod cron;
pub mod queue;
pub mod wheel;

pub use backoff::Backoff;
pub use cron::Schedule;
pub use queue::JobQueue;
pub use wheel::Wheel;
