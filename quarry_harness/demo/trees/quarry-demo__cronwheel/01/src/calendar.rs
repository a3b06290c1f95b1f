//! Just enough of the Gregorian calendar, in UTC.

/// A minute of a day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Minute {
    pub year: i32,
    pub month: u8,
    pub day: u8,
    pub hour: u8,
    pub minute: u8,
}

pub fn is_leap(year: i32) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

pub fn days_in_month(year: i32, month: u8) -> u8 {
    match month {
        2 => 28 + u8::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970-01-01, negative before.
pub fn days_from_civil(year: i32, month: u8, day: u8) -> i64 {
    let y = i64::from(if month <= 2 { year - 1 } else { year });
    let era = y.div_euclid(400);
    let of_era = y.rem_euclid(400);
    let shifted = (i64::from(month) + 9) % 12;
    let of_year = (153 * shifted + 2) / 5 + i64::from(day) - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

impl Minute {
    /// 0 is Sunday.
    pub fn weekday(&self) -> u8 {
        (days_from_civil(self.year, self.month, self.day) + 4).rem_euclid(7) as u8
    }

    pub fn unix_seconds(&self) -> i64 {
        let days = days_from_civil(self.year, self.month, self.day);
        days * 86_400 + i64::from(self.hour) * 3_600 + i64::from(self.minute) * 60
    }

    pub fn next_day(self) -> Self {
        let mut next = Minute { day: self.day + 1, hour: 0, minute: 0, ..self };
        if next.day > days_in_month(next.year, next.month) {
            next.day = 1;
            next.month += 1;
        }
        if next.month > 12 {
            next.month = 1;
            next.year += 1;
        }
        next
    }
}
