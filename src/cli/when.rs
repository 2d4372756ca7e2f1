//! Times for people, in UTC: `12:04` on the day it is, `2026-11-29 12:04` otherwise; durations as they are typed.
//!
//! UTC because a team's devices stand in several zones and the server's clock is the one that is shown. Nothing here
//! reads a clock.

use std::time::Duration;

const MINUTE_S: u64 = 60;
const HOUR_S: u64 = 60 * MINUTE_S;
const DAY_S: u64 = 24 * HOUR_S;

/// `12:04` where both times are of one day, else `2026-11-29 12:04`.
#[must_use]
pub fn short(time_ms: u64, now_ms: u64) -> String {
    if time_ms / 1000 / DAY_S == now_ms / 1000 / DAY_S { clock(time_ms) } else { full(time_ms) }
}

/// `2026-11-29 12:04`.
#[must_use]
pub fn full(time_ms: u64) -> String {
    format!("{} {}", day(time_ms), clock(time_ms))
}

/// `2026-11-29`.
#[must_use]
pub fn day(time_ms: u64) -> String {
    let (year, month, day) = civil(time_ms / 1000 / DAY_S);
    format!("{year:04}-{month:02}-{day:02}")
}

/// `3 d 4 h`, `4 h 5 min`, `5 min 6 s`, `6 s`: the two largest units that are not zero.
#[must_use]
pub fn span(duration_ms: u64) -> String {
    let seconds = duration_ms / 1000;
    let units =
        [(seconds / DAY_S, "d"), (seconds / HOUR_S % 24, "h"), (seconds / MINUTE_S % 60, "min"), (seconds % 60, "s")];
    let from = units.iter().position(|(count, _)| *count > 0).unwrap_or(units.len().saturating_sub(1));
    let shown: Vec<_> = units
        .iter()
        .skip(from)
        .take(2)
        .enumerate()
        .filter(|(index, (count, _))| *index == 0 || *count > 0)
        .map(|(_, (count, unit))| format!("{count} {unit}"))
        .collect();
    shown.join(" ")
}

/// Reads `90s`, `30m`, `24h`, `7d`.
///
/// # Errors
/// With words for the person who typed it.
pub fn parse_span(text: &str) -> Result<Duration, String> {
    let wrong = || "write a number and its unit: 90s, 30m, 24h or 7d".to_owned();
    let unit = text.chars().last().ok_or_else(wrong)?;
    let seconds = match unit {
        's' => 1,
        'm' => MINUTE_S,
        'h' => HOUR_S,
        'd' => DAY_S,
        _ => return Err(wrong()),
    };
    let digits = text.strip_suffix(unit).unwrap_or_default();
    let count: u64 = digits.parse().map_err(|_| wrong())?;
    match count.checked_mul(seconds) {
        None | Some(0) => Err("it must be more than nothing, and less than the age of the universe".to_owned()),
        Some(all) => Ok(Duration::from_secs(all)),
    }
}

fn clock(time_ms: u64) -> String {
    let seconds = time_ms / 1000 % DAY_S;
    format!("{:02}:{:02}", seconds / HOUR_S, seconds / MINUTE_S % 60)
}

/// Year, month and day of a count of days since 1970, by eras of 400 years that begin in March (Hinnant's method).
const fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days.saturating_add(719_468);
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + if month <= 2 { 1 } else { 0 };
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        assert_eq!(full(0), "1970-01-01 00:00");
        assert_eq!(full(951_782_399_000), "2000-02-28 23:59");
        assert_eq!(full(951_782_400_000), "2000-02-29 00:00");
        assert_eq!(full(1_796_000_000_000), "2026-11-30 00:53");
        assert_eq!(full(4_294_967_295_000), "2106-02-07 06:28");
        assert_eq!(day(u64::MAX).len(), "584556019-04-03".len());
    }

    #[test]
    fn the_day_is_named_where_it_is_another() {
        assert_eq!(short(1_796_000_000_000, 1_796_000_060_000), "00:53");
        assert_eq!(short(1_796_000_000_000, 1_796_100_000_000), "2026-11-30 00:53");
    }

    #[test]
    fn spans_read_as_they_are_typed() {
        assert_eq!(parse_span("24h"), Ok(Duration::from_secs(86_400)));
        assert_eq!(parse_span("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_span("7d"), Ok(Duration::from_secs(604_800)));
        for wrong in ["", "h", "24", "0h", "-1h", "1.5h", "99999999999999999d", "24 h"] {
            assert!(parse_span(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn spans_show_their_two_largest_units() {
        assert_eq!(span(0), "0 s");
        assert_eq!(span(61_000), "1 min 1 s");
        assert_eq!(span(3_600_000), "1 h");
        assert_eq!(span(100 * 3_600_000 + 59_000), "4 d 4 h");
    }
}
