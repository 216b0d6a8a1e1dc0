//! Which events there are, and which of them a configuration means.

use std::fs;
use std::path::Path;

use super::config::EventSpec;

/// Most names offered for one that is not there.
const OFFERED: usize = 3;

/// The names, system and event, that a selection means, in order.
///
/// # Errors
/// There is none: what to write instead.
pub fn select(events: &Path, spec: &EventSpec) -> Result<Vec<(String, String)>, String> {
    if spec.is_exact() {
        return match events.join(&spec.system).join(&spec.event).join("format").exists() {
            true => Ok(vec![(spec.system.clone(), spec.event.clone())]),
            false => Err(unknown(events, spec)),
        };
    }
    let mut found = Vec::new();
    for system in folders(events).into_iter().filter(|system| matches(&spec.system, system)) {
        for event in folders(&events.join(&system)).into_iter().filter(|event| matches(&spec.event, event)) {
            found.push((system.clone(), event));
        }
    }
    // What the kernel writes of its own accord cannot be enabled.
    found.retain(|(system, _)| system != "ftrace");
    if found.is_empty() { Err(unknown(events, spec)) } else { Ok(found) }
}

fn unknown(events: &Path, spec: &EventSpec) -> String {
    let EventSpec { system, event, .. } = spec;
    let mut names: Vec<(usize, String)> = Vec::new();
    for known in folders(events) {
        for name in folders(&events.join(&known)) {
            let distance = distance(&known, system) + distance(&name, event);
            names.push((distance, format!("{known}:{name}")));
        }
    }
    if names.is_empty() {
        return format!("there is no event {system}:{event}, nor any other");
    }
    names.sort();
    let offered: Vec<&str> = names.iter().take(OFFERED).map(|(_, name)| name.as_str()).collect();
    format!("there is no event {system}:{event}; nearest are {}", offered.join(", "))
}

/// The names of a folder's folders, in order.
pub fn folders(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

/// Whether a name fits a pattern in which `*` and `?` stand for any characters.
fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut p, mut n) = (0, 0);
    // Where to go on after the last star when the rest does not fit.
    let mut retry = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                retry = Some((p, n));
                p += 1;
            }
            Some(&c) if c == b'?' || c == name[n] => {
                p += 1;
                n += 1;
            }
            _ => match retry {
                Some((star, at)) => {
                    retry = Some((star, at + 1));
                    (p, n) = (star + 1, at + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == b'*')
}

/// Letters to change, insert or remove to make one word the other.
fn distance(one: &str, other: &str) -> usize {
    let other = other.as_bytes();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in other.iter().enumerate() {
            let change = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = change.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit() {
        for (pattern, name, fits) in [
            ("*", "anything", true),
            ("sys_enter_*", "sys_enter_openat", true),
            ("sys_enter_*", "sys_exit_openat", false),
            ("*open*", "sys_enter_openat", true),
            ("*a*b", "xaxbxb", true),
            ("*a*b", "xaxbx", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("", "", true),
            ("", "a", false),
        ] {
            assert_eq!(matches(pattern, name), fits, "{pattern} {name}");
        }
    }

    #[test]
    fn an_unknown_event_is_told_with_what_is_like_it() {
        let dir = tempfile::tempdir().unwrap();
        for event in ["sched/sched_switch", "sched/sched_waking", "block/block_rq_issue", "ftrace/print"] {
            fs::create_dir_all(dir.path().join(event)).unwrap();
            fs::write(dir.path().join(event).join("format"), "").unwrap();
        }
        let select = |text: &str| select(dir.path(), &EventSpec::parse(text).unwrap());
        let name = |system: &str, event: &str| (system.to_owned(), event.to_owned());
        assert_eq!(select("sched:sched_switch"), Ok(vec![name("sched", "sched_switch")]));
        assert_eq!(select("*:*_w*"), Ok(vec![name("sched", "sched_waking")]));
        assert_eq!(select("*:*").map(|all| all.len()), Ok(3));
        let error = select("sched:sched_swich").unwrap_err();
        assert!(
            error.starts_with("there is no event sched:sched_swich; nearest are sched:sched_switch, "),
            "{error}"
        );
        assert!(select("blocks:*").unwrap_err().contains("block:block_rq_issue"));
    }
}
