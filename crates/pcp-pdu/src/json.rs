//! As much JSON as labels need: is this one value, and which objects enclose a name.

/// Deepest nesting of a label's value.
const MAX_DEPTH: usize = 64;
/// Longest name of a label, dots included.
pub(super) const MAX_NAME: usize = 254;

/// Whether `text` is exactly one JSON value.
pub(super) fn is_value(text: &[u8]) -> bool {
    std::str::from_utf8(text).is_ok() && value(text, 0).is_some_and(<[u8]>::is_empty)
}

/// Whether `name` can stand between quotes as it is.
pub(super) fn is_plain_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= MAX_NAME && !name.bytes().any(|b| b < 0x20 || b == b'"' || b == b'\\')
}

/// What follows the JSON value at the front of `text`.
fn value(text: &[u8], depth: usize) -> Option<&[u8]> {
    let text = text.trim_ascii_start();
    let (close, is_object) = match *text.first()? {
        b'"' => return string(text),
        b'{' => (b'}', true),
        b'[' => (b']', false),
        b'-' | b'0'..=b'9' => return number(text),
        _ => return [&b"true"[..], b"false", b"null"].iter().find_map(|word| text.strip_prefix(*word)),
    };
    if depth == MAX_DEPTH {
        return None;
    }
    let mut rest = text.get(1..)?.trim_ascii_start();
    if let [first, after @ ..] = rest
        && *first == close
    {
        return Some(after);
    }
    loop {
        if is_object {
            rest = string(rest.trim_ascii_start())?.trim_ascii_start().strip_prefix(b":")?;
        }
        rest = value(rest, depth + 1)?.trim_ascii_start();
        match rest {
            [b',', after @ ..] => rest = after,
            [byte, after @ ..] if *byte == close => return Some(after),
            _ => return None,
        }
    }
}

fn string(text: &[u8]) -> Option<&[u8]> {
    let mut rest = text.strip_prefix(b"\"")?;
    loop {
        rest = match rest {
            [b'"', after @ ..] => return Some(after),
            [b'\\', b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', after @ ..] => after,
            [b'\\', b'u', a, b, c, d, after @ ..] if [a, b, c, d].iter().all(|x| x.is_ascii_hexdigit()) => {
                after
            }
            [b'\\', ..] | [0..0x20, ..] | [] => return None,
            [_, after @ ..] => after,
        };
    }
}

fn number(text: &[u8]) -> Option<&[u8]> {
    let digits = |text: &[u8]| text.iter().take_while(|b| b.is_ascii_digit()).count();
    let rest = text.strip_prefix(b"-").unwrap_or(text);
    let whole = digits(rest);
    if whole == 0 || whole > 1 && rest.first() == Some(&b'0') {
        return None;
    }
    let mut rest = rest.get(whole..)?;
    if let Some(fraction) = rest.strip_prefix(b".") {
        rest = fraction.get(digits(fraction)..).filter(|after| after.len() < fraction.len())?;
    }
    if let [b'e' | b'E', exponent @ ..] = rest {
        let exponent = exponent.strip_prefix(b"+").or(exponent.strip_prefix(b"-")).unwrap_or(exponent);
        rest = exponent.get(digits(exponent)..).filter(|after| after.len() < exponent.len())?;
    }
    Some(rest)
}

/// For every string in `json` that lies inside a nested object: the offset behind its opening quote,
/// and the names of the enclosing objects, each followed by a dot. Ascending offsets. Takes any bytes;
/// what is no JSON gives some answer. Paths longer than a name may be are left out.
pub(super) fn nested(json: &[u8]) -> Vec<(usize, String)> {
    let (mut found, mut depths, mut path) = (Vec::new(), Vec::new(), String::new());
    // The last string, and the string before the last colon: the name of what comes next.
    let (mut last, mut name) = ("".into(), None);
    let mut at = 0;
    while let Some(&byte) = json.get(at) {
        at += 1;
        match byte {
            b'"' => {
                let len = string_len(&json[at..]);
                if !path.is_empty() && path.len() < MAX_NAME {
                    found.push((at, path.clone()));
                }
                last = String::from_utf8_lossy(&json[at..at + len]);
                at += len + 1;
            }
            b':' => name = Some(last.clone()),
            b',' => name = None,
            b'{' | b'[' => {
                depths.push(path.len());
                // Once too long, the path stays too long below here and is not copied any further.
                if let Some(name) = name.take()
                    && path.len() < MAX_NAME
                {
                    path.extend([&name, "."]);
                }
            }
            b'}' | b']' => path.truncate(depths.pop().unwrap_or(0)),
            _ => {}
        }
    }
    found
}

/// Length of the string's inside, up to its closing quote or the end.
fn string_len(text: &[u8]) -> usize {
    let mut escaped = false;
    let end = text.iter().position(|&byte| {
        let end = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        end
    });
    end.unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_values_from_other_text() {
        for text in [
            "1",
            "-0",
            "0.5",
            "1e9",
            "-1.5E+10",
            "true",
            "null",
            "\"\"",
            "\"a\\\"b\\u00e9\"",
            "[]",
            "[1, [2], {}]",
            "{\"a\":{\"b\":[1]},\"c\":\"}\"}",
            " 1 ",
        ] {
            assert!(is_value(text.trim_end().as_bytes()), "{text}");
        }
        let deep = "[".repeat(1000);
        for text in [
            "",
            "a",
            "01",
            "1.",
            ".5",
            "1e",
            "-",
            "\"",
            "\"a",
            "\"\\x\"",
            "[1,]",
            "[1",
            "{1:2}",
            "{\"a\"}",
            "1 2",
            "\"a\"b",
            "\"a\n\"",
            "1,\"x\":2",
            "nulls",
            &deep,
        ] {
            assert!(!is_value(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn finds_the_objects_around_a_name() {
        let json = br#"{"a":{"b":1,"c":{"d":"x"}},"e":[{"f":1}],"g":"{"}"#;
        let found: Vec<_> = nested(json).into_iter().map(|(at, path)| (json[at] as char, path)).collect();
        let expected = [('b', "a."), ('c', "a."), ('d', "a.c."), ('x', "a.c."), ('f', "e.")];
        assert_eq!(found, expected.map(|(name, path)| (name, path.to_owned())));
        for bytes in [&b"}}}\"a"[..], b"{\"", b"\"\\", b"]", b"{{{{:::,,,"] {
            nested(bytes);
        }
    }

    #[test]
    fn a_hostile_nest_takes_little_memory() {
        let json = r#"{"abcdefgh":"#.repeat(5000);
        let found = nested(json.as_bytes());
        assert!(found.iter().all(|(_, path)| path.len() < MAX_NAME));
        assert!(found.len() < MAX_NAME);
    }
}
