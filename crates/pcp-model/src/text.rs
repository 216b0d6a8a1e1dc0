//! Text of bounded length.

/// The longest start of `text` of at most `max` bytes that does not cut a character in two.
pub fn cut(text: &str, max: usize) -> &str {
    let mut end = text.len().min(max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_stay_whole() {
        for (max, expected) in [(0, ""), (1, "a"), (2, "a"), (3, "aé"), (4, "aéz"), (9, "aéz")] {
            assert_eq!(cut("aéz", max), expected);
        }
        assert_eq!(cut("é", 1), "");
    }
}
