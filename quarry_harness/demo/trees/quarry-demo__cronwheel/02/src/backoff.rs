//! Waiting longer and longer.

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

/// Spreads the waits of many clients, the same way for the same seed.
pub struct Jittered<B> {
    pub inner: B,
    pub seed: u64,
}

impl<B: Backoff> Backoff for Jittered<B> {
    fn delay(&self, attempt: u32) -> Option<u64> {
        let wait = self.inner.delay(attempt)?;
        let mut state = self.seed ^ u64::from(attempt).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        state ^= state >> 29;
        state = state.wrapping_mul(0xbf58_476d_1ce4_e5b9);
        Some(wait / 2 + state % (wait / 2 + 1))
    }
}
