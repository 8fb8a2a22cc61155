//! Made-up time-series data as CSV, time-major, the same for a seed on every machine; nothing has to be downloaded.

mod billy;
mod churn;
mod cpu;
mod noisy;

pub use billy::billy;
pub use churn::churn;
pub use cpu::{cpu, COLUMNS as CPU_COLUMNS};
pub use noisy::noisy;

/// `YYYY-MM-DDTHH:MM:SSZ` of so many seconds after 1970 (days to civil date: Howard Hinnant's algorithm).
pub fn timestamp(unix_seconds: i64) -> String {
    let (days, second) = (
        unix_seconds.div_euclid(86_400),
        unix_seconds.rem_euclid(86_400),
    );
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z",
        second / 3_600,
        second / 60 % 60,
        second % 60
    )
}

/// 2026-01-01T00:00:00Z, where the generators begin.
const START: i64 = 1_767_225_600;

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(generate: impl FnOnce(&mut Vec<u8>) -> std::io::Result<()>) -> Vec<String> {
        let mut out = Vec::new();
        generate(&mut out).unwrap();
        String::from_utf8(out)
            .unwrap()
            .lines()
            .map(String::from)
            .collect()
    }

    #[test]
    fn timestamps_are_calendar_dates() {
        assert_eq!(timestamp(START), "2026-01-01T00:00:00Z");
        assert_eq!(timestamp(1_709_164_799), "2024-02-28T23:59:59Z");
        assert_eq!(timestamp(1_709_164_800), "2024-02-29T00:00:00Z");
    }

    #[test]
    fn each_generator_makes_the_rows_it_promises() {
        let made = lines(|out| billy(out, 3, 1));
        assert_eq!(made.len(), 3 * 1_440);
        assert!(made[0].starts_with("2026-01-01T00:00:00Z,1,"));
        let made = lines(|out| cpu(out, 2, 10));
        assert_eq!(made.len(), 20);
        assert_eq!(made[2].split(',').next(), Some("2016-01-01T00:00:10Z"));
        assert!(made.iter().all(|l| l
            .split(',')
            .skip(2)
            .all(|v| (0..=100).contains(&v.parse::<i32>().unwrap()))));
        assert_eq!(lines(|out| noisy(out, 2, 1)).len(), 2 * 10 * 288);
        let made = lines(|out| churn(out, 5));
        assert!(made.len() >= 5 * 10 * 20 && made.len() % 20 == 0);
        assert_eq!(made, lines(|out| churn(out, 5)));
    }
}
