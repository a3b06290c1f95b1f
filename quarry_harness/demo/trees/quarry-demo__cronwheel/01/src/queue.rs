//! Jobs that wait for their time, most urgent first.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// How long to wait before the next try.
pub trait Backoff {
    /// Seconds before try number `attempt` (the first is 1), or None to give up.
    fn delay(&self, attempt: u32) -> Option<u64>;

    fn total(&self, attempts: u32) -> u64 {
        (1..=attempts).filter_map(|n| self.delay(n)).sum()
    }
}

/// The same wait every time.
pub struct Constant {
    pub seconds: u64,
    pub tries: u32,
}

impl Backoff for Constant {
    fn delay(&self, attempt: u32) -> Option<u64> {
        (attempt <= self.tries).then_some(self.seconds)
    }
}

/// Twice the wait every time, up to a ceiling.
pub struct Doubling {
    pub first: u64,
    pub ceiling: u64,
    pub tries: u32,
}

impl Backoff for Doubling {
    fn delay(&self, attempt: u32) -> Option<u64> {
        if attempt > self.tries {
            return None;
        }
        let factor = 1u64.checked_shl(attempt - 1).unwrap_or(u64::MAX);
        Some(self.first.saturating_mul(factor).min(self.ceiling))
    }
}

struct Job<J> {
    due: i64,
    priority: u8,
    serial: u64,
    attempt: u32,
    body: J,
}

impl<J> Ord for Job<J> {
    fn cmp(&self, other: &Self) -> Ordering {
        other
            .due
            .cmp(&self.due)
            .then(self.priority.cmp(&other.priority))
            .then(other.serial.cmp(&self.serial))
    }
}

impl<J> PartialOrd for Job<J> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<J> PartialEq for Job<J> {
    fn eq(&self, other: &Self) -> bool {
        self.serial == other.serial
    }
}

impl<J> Eq for Job<J> {}

/// A job in somebody's hands; give it back by `finish` or `fail`.
pub struct Lease<J> {
    pub body: J,
    pub attempt: u32,
    priority: u8,
}

/// The queue.
pub struct JobQueue<J, B: Backoff> {
    heap: BinaryHeap<Job<J>>,
    backoff: B,
    serial: u64,
    running: usize,
    buried: Vec<J>,
}

impl<J, B: Backoff> JobQueue<J, B> {
    pub fn new(backoff: B) -> Self {
        JobQueue { heap: BinaryHeap::new(), backoff, serial: 0, running: 0, buried: Vec::new() }
    }

    pub fn push(&mut self, body: J, due: i64, priority: u8) {
        self.enqueue(body, due, priority, 0);
    }

    fn enqueue(&mut self, body: J, due: i64, priority: u8, attempt: u32) {
        self.serial += 1;
        self.heap.push(Job { due, priority, serial: self.serial, attempt, body });
    }

    /// Takes a job whose time has come.
    pub fn lease(&mut self, now: i64) -> Option<Lease<J>> {
        if self.heap.peek()?.due > now {
            return None;
        }
        let job = self.heap.pop()?;
        self.running += 1;
        Some(Lease { body: job.body, attempt: job.attempt + 1, priority: job.priority })
    }

    pub fn finish(&mut self, lease: Lease<J>) -> J {
        self.running -= 1;
        lease.body
    }

    /// Puts the job back for later, or buries it when there are no tries left.
    pub fn fail(&mut self, lease: Lease<J>, now: i64) -> bool {
        self.running -= 1;
        match self.backoff.delay(lease.attempt) {
            Some(wait) => {
                self.enqueue(lease.body, now + wait as i64, lease.priority, lease.attempt);
                true
            }
            None => {
                self.buried.push(lease.body);
                false
            }
        }
    }

    pub fn next_due(&self) -> Option<i64> {
        self.heap.peek().map(|job| job.due)
    }

    pub fn drain_buried(&mut self) -> Vec<J> {
        std::mem::take(&mut self.buried)
    }
}
