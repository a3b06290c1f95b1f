//! Five-field cron expressions.

use std::fmt;
use std::str::FromStr;

use crate::calendar::Minute;

/// Why an expression was refused.
#[derive(Debug, PartialEq, Eq)]
pub enum CronError {
    FieldCount(usize),
    NotANumber(String),
    OutOfRange { value: u8, low: u8, high: u8 },
    ZeroStep,
}

impl fmt::Display for CronError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CronError::FieldCount(n) => write!(f, "expected 5 fields, found {n}"),
            CronError::NotANumber(text) => write!(f, "{text:?} is not a number"),
            CronError::OutOfRange { value, low, high } => write!(f, "{value} is not within {low}-{high}"),
            CronError::ZeroStep => write!(f, "a step must not be 0"),
        }
    }
}

impl std::error::Error for CronError {}

/// The allowed values of one field, a bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Field {
    bits: u64,
    any: bool,
}

impl Field {
    fn parse(text: &str, low: u8, high: u8) -> Result<Self, CronError> {
        let mut bits = 0u64;
        for part in text.split(',') {
            let (range, step) = match part.split_once('/') {
                Some((range, step)) => (range, number(step)?),
                None => (part, 1),
            };
            if step == 0 {
                return Err(CronError::ZeroStep);
            }
            let (from, to) = match range {
                "*" => (low, high),
                _ => match range.split_once('-') {
                    Some((from, to)) => (number(from)?, number(to)?),
                    None if part.contains('/') => (number(range)?, high),
                    None => (number(range)?, number(range)?),
                },
            };
            for value in [from, to] {
                if value < low || value > high {
                    return Err(CronError::OutOfRange { value, low, high });
                }
            }
            for value in (from..=to).step_by(usize::from(step)) {
                bits |= 1 << value;
            }
        }
        Ok(Field { bits, any: text == "*" })
    }

    #[inline]
    fn has(&self, value: u8) -> bool {
        self.bits >> value & 1 == 1
    }

    /// The smallest allowed value that is at least `from`.
    fn at_or_after(&self, from: u8) -> Option<u8> {
        let rest = self.bits.checked_shr(u32::from(from)).unwrap_or(0);
        (rest != 0).then(|| from + rest.trailing_zeros() as u8)
    }
}

fn number(text: &str) -> Result<u8, CronError> {
    text.parse().map_err(|_| CronError::NotANumber(text.to_owned()))
}

/// When something is to happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    minute: Field,
    hour: Field,
    day: Field,
    month: Field,
    weekday: Field,
}

impl FromStr for Schedule {
    type Err = CronError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = expand_alias(text.trim());
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [minute, hour, day, month, weekday] = fields[..] else {
            return Err(CronError::FieldCount(fields.len()));
        };
        Ok(Schedule {
            minute: Field::parse(minute, 0, 59)?,
            hour: Field::parse(hour, 0, 23)?,
            day: Field::parse(day, 1, 31)?,
            month: Field::parse(month, 1, 12)?,
            weekday: Field::parse(weekday, 0, 6)?,
        })
    }
}

fn expand_alias(text: &str) -> &str {
    match text {
        "@hourly" => "0 * * * *",
        "@daily" | "@midnight" => "0 0 * * *",
        "@weekly" => "0 0 * * 0",
        "@monthly" => "0 0 1 * *",
        other => other,
    }
}

impl Schedule {
    /// Cron's odd rule: where both day fields are restricted, either one is enough.
    fn allows_date(&self, date: &Minute) -> bool {
        if !self.month.has(date.month) {
            return false;
        }
        let by_day = self.day.has(date.day);
        let by_weekday = self.weekday.has(date.weekday());
        if self.day.any || self.weekday.any {
            by_day && by_weekday
        } else {
            by_day || by_weekday
        }
    }

    /// The first matching minute after `after`, or None within the next eight years.
    pub fn upcoming(&self, after: Minute) -> Option<Minute> {
        let mut date = Minute { ..after };
        let mut earliest = (after.hour, after.minute + 1);
        for _ in 0..366 * 8 {
            if self.allows_date(&date) {
                if let Some((hour, minute)) = self.time_from(earliest) {
                    return Some(Minute { hour, minute, ..date });
                }
            }
            date = date.next_day();
            earliest = (0, 0);
        }
        None
    }

    fn time_from(&self, (hour, minute): (u8, u8)) -> Option<(u8, u8)> {
        if self.hour.has(hour) {
            if let Some(found) = self.minute.at_or_after(minute) {
                return Some((hour, found));
            }
        }
        let hour = self.hour.at_or_after(hour + 1)?;
        Some((hour, self.minute.at_or_after(0)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leap_day_is_found() {
        let schedule: Schedule = "0 12 29 2 *".parse().unwrap();
        let start = Minute { year: 2025, month: 3, day: 1, hour: 0, minute: 0 };
        assert_eq!(schedule.upcoming(start).map(|m| m.year), Some(2028));
    }

    #[test]
    fn a_step_of_zero_is_refused() {
        assert_eq!("*/0 * * * *".parse::<Schedule>(), Err(CronError::ZeroStep));
    }
}
