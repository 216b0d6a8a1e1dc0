//! Dates in words, for what is no interval and not of `ctime(3)`'s form: `yesterday`, `2001-09-09 02:00`,
//! `5 minutes ago` (PCPIntro(1), "datetime"; `docs/pcp/tools.md` 2.2).
//!
//! The language is that of the old `getdate`: a sequence of times, dates, weekdays, zones, relative times
//! and bare numbers, in any order, each at most once but for relative times. Words may be abbreviated as
//! listed below; a single letter is a military zone.

use super::Zone;
use super::window::Reference;
use super::zone::Civil;
use crate::Timestamp;

/// The instant, or `None` if the text is not a date.
pub(super) fn getdate(text: &str, reference: &Reference, zone: &Zone) -> Option<Timestamp> {
    let tokens = tokens(text)?;
    let mut parser = Parser { rest: &tokens, found: Found::default() };
    while !parser.rest.is_empty() {
        parser.item()?;
    }
    let found = parser.found;
    if found.times > 1 || found.zones > 1 || found.dates > 1 || found.days > 1 {
        return None;
    }
    let base = if is_relative(text) {
        let backwards = text.contains('-') || has_word(text, "ago") || has_word(text, "last");
        match reference.finite_end() {
            Some(end) if backwards => end.sec,
            _ => reference.start.sec,
        }
    } else {
        reference.now.sec
    };
    found.resolve(base, zone).map(|sec| Timestamp { sec, nsec: 0 })
}

/// Whether a unit stands as a word of its own after another: then the reference is that of the window, else
/// the current time. (`5 min ago` is before the end of the archive, `5min ago` is before now.)
fn is_relative(text: &str) -> bool {
    text.split_ascii_whitespace().skip(1).any(|word| matches!(lookup(word), Some(Token::Unit(_))))
}

fn has_word(text: &str, word: &str) -> bool {
    text.split_ascii_whitespace().any(|found| found.eq_ignore_ascii_case(word))
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Token {
    /// A number without sign, and its digits' count does not matter.
    Number(i64),
    /// A number with a sign in front.
    Signed(i64),
    /// 1 to 12.
    Month(u8),
    /// 0 Sunday to 6 Saturday.
    Weekday(u8),
    /// Afternoon or not.
    Meridian(bool),
    /// Minutes west of UTC, and whether one hour of summer time is to be subtracted from those.
    Zone {
        west: i64,
        summer: bool,
    },
    Unit(Unit),
    /// `today` and its neighbours: midnight, and days from it.
    Midnight(i64),
    Ago,
    Dst,
    Mark(u8),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Unit {
    Seconds(i64),
    Months(i64),
}

/// What the items said.
#[derive(Default)]
struct Found {
    times: u8,
    zones: u8,
    dates: u8,
    days: u8,
    relatives: u8,
    midnight: bool,
    hour: i64,
    minute: i64,
    second: i64,
    meridian: Option<bool>,
    west: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    year: Option<i64>,
    weekday: (i64, u8),
    seconds: i64,
    months: i64,
}

impl Found {
    fn resolve(&self, base: i64, zone: &Zone) -> Option<i64> {
        let now = zone.civil(base);
        let mut sec = if self.dates + self.times + self.days > 0 {
            self.absolute(&now, zone)?
        } else if self.midnight || self.relatives == 0 {
            zone.seconds(now.year, now.month, now.day.into(), 0)?
        } else {
            base
        };
        sec = sec.checked_add(self.seconds)?;
        // Months come after seconds, and weekdays after both: each step starts from the date the one before gave.
        if self.months != 0 {
            let t = zone.civil(sec);
            let months =
                t.year.checked_mul(12)?.checked_add(i64::from(t.month) - 1)?.checked_add(self.months)?;
            let clock = i64::from(t.hour) * 3_600 + i64::from(t.minute) * 60 + i64::from(t.second);
            let (year, month) = (months.div_euclid(12), months.rem_euclid(12) + 1);
            if i64::from(t.day) > days_in(year, month)? {
                return None;
            }
            sec = zone.seconds(year, month as u8, t.day.into(), clock)?;
        }
        if self.days > 0 && self.dates == 0 {
            let (ordinal, weekday) = self.weekday;
            let t = zone.civil(sec);
            let ahead = (i64::from(weekday) - i64::from(t.weekday)).rem_euclid(7);
            let weeks = if ordinal <= 0 { ordinal } else { ordinal - 1 };
            let day = i64::from(t.day).checked_add(ahead)?.checked_add(weeks.checked_mul(7)?)?;
            let clock = i64::from(t.hour) * 3_600 + i64::from(t.minute) * 60 + i64::from(t.second);
            sec = zone.seconds(t.year, t.month, day, clock)?;
        }
        Some(sec)
    }

    fn absolute(&self, now: &Civil, zone: &Zone) -> Option<i64> {
        let year = match self.year.unwrap_or(now.year).abs() {
            year @ 0..69 => year + 2_000,
            year @ 69..100 => year + 1_900,
            year => year,
        };
        let month = self.month.unwrap_or(now.month.into());
        let day = self.day.unwrap_or(now.day.into());
        let hour = match self.meridian {
            None if (0..24).contains(&self.hour) => self.hour,
            Some(afternoon) if (1..=12).contains(&self.hour) => {
                self.hour % 12 + if afternoon { 12 } else { 0 }
            }
            _ => return None,
        };
        let valid = year >= 1970
            && (1..=days_in(year, month)?).contains(&day)
            && (0..60).contains(&self.minute)
            && (0..60).contains(&self.second);
        let clock = hour * 3_600 + self.minute * 60 + self.second;
        match self.west {
            _ if !valid => None,
            None => zone.seconds(year, month as u8, day, clock),
            Some(west) => Some(Zone::utc().seconds(year, month as u8, day, clock)? + west * 60),
        }
    }
}

fn days_in(year: i64, month: i64) -> Option<i64> {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    Some(match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    })
}

struct Parser<'a> {
    /// What has not been taken yet.
    rest: &'a [Token],
    found: Found,
}

impl Parser<'_> {
    /// Takes one item. `None` if none can start here.
    fn item(&mut self) -> Option<()> {
        use Token::{Ago, Dst, Mark, Meridian, Midnight, Month, Number, Signed, Weekday};
        let rest = self.rest;
        // Of two items that begin alike the longer one comes first.
        let taken = match *rest {
            [Number(hour), Mark(b':'), Number(minute), Mark(b':'), Number(second), ..] => {
                self.time(hour, minute, second);
                5 + self.time_end(rest.get(5))
            }
            [Number(hour), Mark(b':'), Number(minute), ..] => {
                self.time(hour, minute, 0);
                3 + self.time_end(rest.get(3))
            }
            [Number(hour), Meridian(_), ..] => {
                self.time(hour, 0, 0);
                1 + self.time_end(rest.get(1))
            }
            [Number(a), Mark(b'/'), Number(b), Mark(b'/'), Number(c), ..] => {
                let (year, month, day) = if a >= 1_000 { (a, b, c) } else { (c, a, b) };
                self.date(Some(year), month, day);
                5
            }
            [Number(month), Mark(b'/'), Number(day), ..] => {
                self.date(None, month, day);
                3
            }
            [Number(year), Signed(month), Signed(day), ..] => {
                self.date(Some(year), -month, -day);
                3
            }
            [Number(day), Month(month), Signed(year), ..] => {
                self.date(Some(-year), month.into(), day);
                3
            }
            [Number(day), Month(month), Number(year), ..] => {
                self.date(Some(year), month.into(), day);
                3
            }
            [Number(day), Month(month), ..] => {
                self.date(None, month.into(), day);
                2
            }
            [Month(month), Number(day), Mark(b','), Number(year), ..] => {
                self.date(Some(year), month.into(), day);
                4
            }
            [Month(month), Number(day), ..] => {
                self.date(None, month.into(), day);
                2
            }
            [Number(n) | Signed(n), Token::Unit(unit), ..] => {
                self.relative(n, unit)?;
                2
            }
            [Number(ordinal), Weekday(day), ..] => {
                self.weekday(ordinal, day);
                2
            }
            [Weekday(day), Mark(b','), ..] => {
                self.weekday(1, day);
                2
            }
            [Weekday(day), ..] => {
                self.weekday(1, day);
                1
            }
            [Token::Unit(unit), ..] => {
                self.relative(1, unit)?;
                1
            }
            [Midnight(days), ..] => {
                self.found.midnight = true;
                self.relative(days, Unit::Seconds(86_400))?;
                1
            }
            [Ago, ..] if self.found.relatives > 0 => {
                self.found.seconds = -self.found.seconds;
                self.found.months = -self.found.months;
                1
            }
            [Token::Zone { west, summer }, ref rest @ ..] => {
                let dst = rest.first() == Some(&Dst);
                self.zone(west - if summer || dst { 60 } else { 0 });
                1 + usize::from(dst)
            }
            [Number(n), ..] => {
                self.number(n);
                1
            }
            _ => return None,
        };
        self.rest = rest.get(taken..)?;
        Some(())
    }

    fn time(&mut self, hour: i64, minute: i64, second: i64) {
        self.found.times = self.found.times.saturating_add(1);
        (self.found.hour, self.found.minute, self.found.second) = (hour, minute, second);
    }

    /// What may follow a time: `AM`, `PM`, or a zone as a number, `+0100`. The number of tokens taken.
    fn time_end(&mut self, next: Option<&Token>) -> usize {
        match next {
            Some(&Token::Meridian(afternoon)) => self.found.meridian = Some(afternoon),
            Some(&Token::Signed(east)) => self.found.west = Some(-(east % 100 + east / 100 * 60)),
            _ => return 0,
        }
        1
    }

    fn date(&mut self, year: Option<i64>, month: i64, day: i64) {
        self.found.dates = self.found.dates.saturating_add(1);
        self.found.year = year.or(self.found.year);
        (self.found.month, self.found.day) = (Some(month), Some(day));
    }

    fn weekday(&mut self, ordinal: i64, day: u8) {
        self.found.days = self.found.days.saturating_add(1);
        self.found.weekday = (ordinal, day);
    }

    fn zone(&mut self, west: i64) {
        self.found.zones = self.found.zones.saturating_add(1);
        self.found.west = Some(west);
    }

    fn relative(&mut self, n: i64, unit: Unit) -> Option<()> {
        let found = &mut self.found;
        found.relatives = found.relatives.saturating_add(1);
        match unit {
            Unit::Seconds(seconds) => found.seconds = found.seconds.checked_add(n.checked_mul(seconds)?)?,
            Unit::Months(months) => found.months = found.months.checked_add(n.checked_mul(months)?)?,
        }
        Some(())
    }

    /// A bare number: the year after a time and a date, else a date if it is long, else a time.
    fn number(&mut self, n: i64) {
        if self.found.times > 0 && self.found.dates > 0 && self.found.relatives == 0 {
            self.found.year = Some(n);
        } else if n > 10_000 {
            self.date(Some(n / 10_000), n / 100 % 100, n % 100);
        } else if n < 100 {
            self.time(n, 0, 0);
        } else {
            self.time(n / 100, n % 100, 0);
        }
    }
}

/// The tokens of a text; `None` if a word is not known. Parentheses hold comments.
fn tokens(text: &str) -> Option<Vec<Token>> {
    let bytes = text.as_bytes();
    let (mut tokens, mut at, mut depth) = (Vec::new(), 0, 0usize);
    while let Some(&byte) = bytes.get(at) {
        let run = |accept: fn(&u8) -> bool| bytes[at..].iter().take_while(|byte| accept(byte)).count();
        match byte {
            b'(' => depth += 1,
            b')' if depth > 0 => depth -= 1,
            _ if depth > 0 || byte.is_ascii_whitespace() => (),
            // A sign without a number directly after it says nothing.
            b'+' | b'-' if !bytes.get(at + 1).is_some_and(u8::is_ascii_digit) => (),
            b'+' | b'-' | b'0'..=b'9' => {
                let signed = matches!(byte, b'+' | b'-');
                let end = at + 1 + bytes[at + 1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
                // A plus sign is one of those that a number is parsed with. 32 bits, as PCP has them: no sum
                // or product of those that make sense is too large then.
                let number = text.get(at..end)?.parse::<i32>().ok()?.into();
                tokens.push(if signed { Token::Signed(number) } else { Token::Number(number) });
                at = end;
                continue;
            }
            b'a'..=b'z' | b'A'..=b'Z' | b'.' => {
                let end = at + run(|byte| byte.is_ascii_alphabetic() || *byte == b'.');
                tokens.push(lookup(text.get(at..end)?)?);
                at = end;
                continue;
            }
            mark => tokens.push(Token::Mark(mark)),
        }
        at += 1;
    }
    Some(tokens)
}

/// What a word means.
fn lookup(word: &str) -> Option<Token> {
    let word = word.to_ascii_lowercase();
    match word.as_str() {
        "am" | "a.m." => return Some(Token::Meridian(false)),
        "pm" | "p.m." => return Some(Token::Meridian(true)),
        "ago" => return Some(Token::Ago),
        "dst" => return Some(Token::Dst),
        "now" | "this" => return Some(Token::Unit(Unit::Seconds(0))),
        "today" => return Some(Token::Midnight(0)),
        "yesterday" => return Some(Token::Midnight(-1)),
        "tomorrow" => return Some(Token::Midnight(1)),
        _ => (),
    }
    // Three letters, or four with a point, abbreviate months and weekdays.
    let stem = word.strip_suffix('.').unwrap_or(&word);
    let named = |names: &[(&str, &[&str])]| {
        names.iter().position(|(name, others)| {
            *name == word || stem.len() == 3 && name.starts_with(stem) || others.contains(&word.as_str())
        })
    };
    if let Some(at) = named(&MONTHS) {
        return Some(Token::Month(at as u8 + 1));
    }
    if let Some(at) = named(&WEEKDAYS) {
        return Some(Token::Weekday(at as u8));
    }
    let zone = |name: &str| {
        let found = ZONES.iter().find(|(zone, ..)| *zone == name);
        found.map(|&(_, west, summer)| Token::Zone { west, summer })
    };
    if let Some(found) = zone(&word) {
        return Some(found);
    }
    let unit = |name: &str| UNITS.iter().find(|(unit, _)| *unit == name).map(|&(_, unit)| Token::Unit(unit));
    if let Some(found) = unit(&word).or_else(|| unit(word.strip_suffix('s')?)) {
        return Some(found);
    }
    if let Some(&(_, n)) = ORDINALS.iter().find(|(name, _)| *name == word) {
        return Some(Token::Number(n));
    }
    if let [letter] = word.as_bytes() {
        return military(*letter).map(|west| Token::Zone { west: west * 60, summer: false });
    }
    let plain = word.replace('.', "");
    if plain == word { None } else { zone(&plain) }
}

/// Hours west of UTC of a letter, as old mail had them: `a` is one hour west.
fn military(letter: u8) -> Option<i64> {
    Some(match letter {
        b'a'..=b'i' => i64::from(letter - b'a') + 1,
        b'k'..=b'm' => i64::from(letter - b'k') + 10,
        b'n'..=b'y' => -(i64::from(letter - b'n') + 1),
        b'z' => 0,
        _ => return None,
    })
}

const MONTHS: [(&str, &[&str]); 12] = [
    ("january", &[]),
    ("february", &[]),
    ("march", &[]),
    ("april", &[]),
    ("may", &[]),
    ("june", &[]),
    ("july", &[]),
    ("august", &[]),
    ("september", &["sept"]),
    ("october", &[]),
    ("november", &[]),
    ("december", &[]),
];

const WEEKDAYS: [(&str, &[&str]); 7] = [
    ("sunday", &[]),
    ("monday", &[]),
    ("tuesday", &["tues"]),
    ("wednesday", &["wednes"]),
    ("thursday", &["thur", "thurs"]),
    ("friday", &[]),
    ("saturday", &[]),
];

const UNITS: [(&str, Unit); 10] = [
    ("year", Unit::Months(12)),
    ("month", Unit::Months(1)),
    ("fortnight", Unit::Seconds(14 * 86_400)),
    ("week", Unit::Seconds(7 * 86_400)),
    ("day", Unit::Seconds(86_400)),
    ("hour", Unit::Seconds(3_600)),
    ("minute", Unit::Seconds(60)),
    ("min", Unit::Seconds(60)),
    ("second", Unit::Seconds(1)),
    ("sec", Unit::Seconds(1)),
];

/// `second` is a unit, and `next` counts as the one after the first.
const ORDINALS: [(&str, i64); 13] = [
    ("last", -1),
    ("next", 2),
    ("first", 1),
    ("third", 3),
    ("fourth", 4),
    ("fifth", 5),
    ("sixth", 6),
    ("seventh", 7),
    ("eighth", 8),
    ("ninth", 9),
    ("tenth", 10),
    ("eleventh", 11),
    ("twelfth", 12),
];

/// Minutes west of UTC, and whether the name is that of the summer time of the zone.
const ZONES: [(&str, i64, bool); 46] = [
    ("gmt", 0, false),
    ("ut", 0, false),
    ("utc", 0, false),
    ("wet", 0, false),
    ("bst", 0, true),
    ("wat", 60, false),
    ("at", 120, false),
    ("ast", 240, false),
    ("adt", 240, true),
    ("est", 300, false),
    ("edt", 300, true),
    ("cst", 360, false),
    ("cdt", 360, true),
    ("mst", 420, false),
    ("mdt", 420, true),
    ("pst", 480, false),
    ("pdt", 480, true),
    ("yst", 540, false),
    ("ydt", 540, true),
    ("hst", 600, false),
    ("hdt", 600, true),
    ("cat", 600, false),
    ("ahst", 600, false),
    ("nt", 660, false),
    ("idlw", 720, false),
    ("cet", -60, false),
    ("met", -60, false),
    ("mewt", -60, false),
    ("mest", -60, true),
    ("swt", -60, false),
    ("sst", -60, true),
    ("fwt", -60, false),
    ("fst", -60, true),
    ("eet", -120, false),
    ("bt", -180, false),
    ("wast", -420, false),
    ("wadt", -420, true),
    ("cct", -480, false),
    ("jst", -540, false),
    ("east", -600, false),
    ("eadt", -600, true),
    ("gst", -600, false),
    ("nzt", -720, false),
    ("idle", -720, false),
    ("nzst", -720, false),
    ("nzdt", -720, true),
];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn date(text: &str) -> Option<Timestamp> {
        getdate(text, &Reference::live(Timestamp { sec: 1_000_000_000, nsec: 0 }), &Zone::utc())
    }

    #[test]
    fn numbers_beyond_all_sense_are_no_dates() {
        for number in [i64::MAX, i64::MIN, 1 << 31] {
            for text in
                ["10:N", "10:00 +N", "2001-N-1", "5 jan N", "N years", "N sec ago", "1/1/N", "N monday"]
            {
                let text = text.replace('N', &number.to_string());
                assert_eq!(date(&text), None, "{text}");
            }
        }
        assert_eq!(date("2147483647 sec ago").map(|time| time.sec), Some(1_000_000_000 - 2_147_483_647));
    }

    proptest! {
        /// Whatever follows what: a date or none, but no panic.
        #[test]
        fn any_sequence_of_tokens(parts in prop::collection::vec(prop_oneof![
            any::<i32>().prop_map(|n| n.to_string()),
            any::<i32>().prop_map(|n| format!("+{n}")),
            (0..70_i32).prop_map(|n| n.to_string()),
            prop::sample::select(vec![
                ":", "/", "-", ",", "(", ")", "am", "pm", "jan", "Sept.", "mon", "est", "dst", "x", "years",
                "months", "weeks", "sec", "ago", "yesterday", "next", "last", "é",
            ]).prop_map(str::to_owned),
        ], 0..12), blanks: bool) {
            let _ = date(&parts.join(if blanks { " " } else { "" }));
        }
    }
}
