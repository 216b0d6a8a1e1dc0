//! What to record: words of the command line and lines of a file.

use std::fs;
use std::path::Path;

use pcp_client::Context;

/// Names, and definitions of derived metrics.
pub(super) struct Selection {
    words: Vec<String>,
}

impl Selection {
    /// The words, and the lines of the file.
    pub(super) fn read(words: &[String], config: Option<&Path>) -> Result<Selection, String> {
        let mut all = words.to_vec();
        if let Some(path) = config {
            let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
            let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
            all.extend(lines.filter(|line| !line.is_empty()).map(str::to_owned));
        }
        // An empty name would be that of the whole name space.
        if let Some(word) = all
            .iter()
            .find(|word| word.split_once('=').map_or(word.trim(), |(name, _)| name.trim()).is_empty())
        {
            return Err(format!("'{word}': write a metric, or a name in front of ="));
        }
        match all.is_empty() {
            true => Err("no metric is named".to_owned()),
            false => Ok(Selection { words: all }),
        }
    }

    /// Names of metrics, derived ones included.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.words.iter().map(|word| word.split_once('=').map_or(word.as_str(), |(name, _)| name.trim()))
    }

    /// Makes the derived metrics known to the context.
    pub(super) fn register(&self, context: &Context) -> Result<(), String> {
        let registry = context.registry().clone();
        let mut registry = registry.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        for (name, expression) in self.words.iter().filter_map(|word| word.split_once('=')) {
            let (name, expression) = (name.trim(), expression.trim());
            let registered = registry.register(name, expression);
            registered.map_err(|error| error.report(name, expression).trim_end().to_owned())?;
        }
        Ok(())
    }
}

/// A number of bytes: a number and its unit.
pub(super) fn size(text: &str) -> Result<u64, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim().to_ascii_lowercase().as_str() {
        "b" | "byte" | "bytes" => 0,
        "k" | "kb" | "kbyte" | "kbytes" => 10,
        "m" | "mb" | "mbyte" | "mbytes" => 20,
        "g" | "gb" | "gbyte" | "gbytes" => 30,
        _ => return Err("write a number and b, kb, mb or gb".to_owned()),
    };
    let number: u64 = number.parse().map_err(|_| "write a number and b, kb, mb or gb".to_owned())?;
    number.checked_mul(1 << shift).ok_or_else(|| "too large".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(size("100mb"), Ok(100 << 20));
        assert_eq!(size("64 Kbytes"), Ok(64 << 10));
        assert_eq!(size("7b"), Ok(7));
        for bad in ["", "100", "mb", "1tb", "-1kb", "99999999999gb"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn words_and_lines() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("list");
        fs::write(&path, "# what we want\na.b\n\n twice = 2 * c.d # doubled\n").expect("written");
        let selection = Selection::read(&["x.y".to_owned()], Some(&path)).expect("read");
        assert_eq!(selection.names().collect::<Vec<_>>(), ["x.y", "a.b", "twice"]);
        assert!(Selection::read(&[], None).is_err());
        for bad in ["", " ", "=a.b", " = a.b"] {
            assert!(Selection::read(&[bad.to_owned()], None).is_err(), "{bad}");
        }
    }
}
