//! Text of bounded length, and words that were meant.

use std::fmt::{self, Write as _};

/// The longest start of `text` of at most `max` bytes that does not cut a character in two.
pub fn cut(text: &str, max: usize) -> &str {
    let mut end = text.len().min(max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The candidate that somebody must have meant who wrote `word`, if one is near enough: for "did you mean". Case
/// makes no difference; a third of the characters may be wrong, missing, too many, or in each other's place.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    let allowed = (word.chars().count() / 3).clamp(1, 6);
    let near = candidates.into_iter().filter_map(|candidate| {
        // Cheaper than to compare them.
        if candidate.len().abs_diff(word.len()) > 4 * allowed {
            return None;
        }
        let distance = strsim::osa_distance(&word, &candidate.to_lowercase());
        (distance <= allowed).then_some((distance, candidate))
    });
    near.min_by_key(|(distance, _)| *distance).map(|(_, candidate)| candidate)
}

/// The first items of a list with blanks between, and how many more there are: for messages about lists of any length.
pub fn listed<T: fmt::Display>(items: impl IntoIterator<Item = T>, most: usize) -> String {
    let (mut text, mut more) = (String::new(), 0_usize);
    for (number, item) in items.into_iter().enumerate() {
        if number >= most {
            more += 1;
            continue;
        }
        let blank = if number == 0 { "" } else { " " };
        // Writing to a String does not fail.
        let _ = write!(text, "{blank}{item}");
    }
    if more > 0 {
        let _ = write!(text, " and {more} more");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_meant_is_near() {
        let words = ["order_window", "budget", "name", "sample", "sample_by"];
        for (word, meant) in [
            ("order_windw", Some("order_window")),
            ("order-window", Some("order_window")),
            ("Budget", Some("budget")),
            ("budgte", Some("budget")),
            ("smaple_by", Some("sample_by")),
            ("nme", Some("name")),
            ("colour", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, words), meant, "{word}");
        }
        assert_eq!(nearest("x", []), None);
    }

    #[test]
    fn lists_end_somewhere() {
        assert_eq!(listed([1, 2, 3], 3), "1 2 3");
        assert_eq!(listed([1, 2, 3], 1), "1 and 2 more");
        assert_eq!(listed([""; 0], 1), "");
    }

    #[test]
    fn characters_stay_whole() {
        for (max, expected) in [(0, ""), (1, "a"), (2, "a"), (3, "aé"), (4, "aéz"), (9, "aéz")] {
            assert_eq!(cut("aéz", max), expected);
        }
        assert_eq!(cut("é", 1), "");
    }
}
