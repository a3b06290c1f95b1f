//! A hashed timer wheel: adding and cancelling cost the same however many timers wait.

use std::collections::HashMap;

/// Names a timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TimerId(u64);

struct Timer<T> {
    id: TimerId,
    rounds: u64,
    payload: T,
}

/// The wheel; one slot a tick.
pub struct Wheel<T> {
    slots: Vec<Vec<Timer<T>>>,
    now: u64,
    issued: u64,
    places: HashMap<TimerId, usize>,
}

impl<T> Wheel<T> {
    pub fn new(slots: usize) -> Self {
        assert!(slots > 0, "a wheel needs a slot");
        Wheel { slots: (0..slots).map(|_| Vec::new()).collect(), now: 0, issued: 0, places: HashMap::new() }
    }

    pub fn after(&mut self, ticks: u64, payload: T) -> TimerId {
        let ticks = ticks.max(1);
        let size = self.slots.len() as u64;
        let slot = (self.now + ticks) % size;
        self.issued += 1;
        let id = TimerId(self.issued);
        self.places.insert(id, slot as usize);
        self.slots[slot as usize].push(Timer { id, rounds: (ticks - 1) / size, payload });
        id
    }

    pub fn cancel(&mut self, id: TimerId) -> Option<T> {
        let slot = self.places.remove(&id)?;
        let timers = &mut self.slots[slot];
        let position = timers.iter().position(|timer| timer.id == id)?;
        Some(timers.swap_remove(position).payload)
    }

    /// Turns the wheel by one tick and hands out what is due.
    pub fn advance(&mut self) -> Vec<T> {
        self.now += 1;
        let index = (self.now % self.slots.len() as u64) as usize;
        let mut due = Vec::new();
        let waiting = std::mem::take(&mut self.slots[index]);
        for mut timer in waiting {
            if timer.rounds == 0 {
                self.places.remove(&timer.id);
                due.push(timer.payload);
            } else {
                timer.rounds -= 1;
                self.slots[index].push(timer);
            }
        }
        due
    }

    pub fn len(&self) -> usize {
        self.slots.iter().map(Vec::len).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.slots.iter().all(Vec::is_empty)
    }
}

impl<T> Default for Wheel<T> {
    fn default() -> Self {
        Self::new(512)
    }
}
