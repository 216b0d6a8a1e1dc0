//! [`IdMap`]: names to ids, on file before they are handed out.

use std::collections::{HashMap, HashSet};
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use pcp_files::Disk;

use super::MAX_ID;
use super::error::{Binding, IdsError, LineError};
use super::format::{Entry, header, looks_retired, parse_entry, parse_header, push_line, split_key};
use super::store::{Settling, Store};

/// A map of names to ids, on file or in memory only.
#[derive(Debug)]
pub struct IdMap {
    /// Without names that are retired.
    by_name: HashMap<Arc<str>, i32>,
    /// The same by what is before the first blank, which for PCP is the name; only of names that have one.
    by_word: HashMap<Box<str>, i32>,
    /// Sorted by id, with those that are retired.
    entries: Vec<Entry>,
    max: i32,
    file: Option<Store>,
    /// Lines of names that were added and are not in the file yet.
    unsettled: String,
    /// Their ids.
    waiting: HashSet<i32>,
}

impl IdMap {
    /// Reads the map at `path`, making file and directory if they are missing. `None` keeps the map in
    /// memory only. Ids are 0..=`max`.
    ///
    /// # Errors
    /// [`IdsError::Io`], [`IdsError::InUse`], and [`IdsError::Line`] for a file that is damaged anywhere but in a
    /// last line that a crash has cut short: its id was never handed out.
    pub fn load(path: Option<&Path>, max: i32) -> Result<IdMap, IdsError> {
        let (map, settling) = IdMap::begin(path, max)?;
        settling.finish()?;
        Ok(map)
    }

    /// The same for who has other things to do meanwhile: that what is in the file survives a loss of power is sure only when
    /// [`Settling::finish`] has returned, and nobody may rely on an id before.
    ///
    /// # Errors
    /// As [`IdMap::load`].
    pub fn begin(path: Option<&Path>, max: i32) -> Result<(IdMap, Settling), IdsError> {
        match path {
            Some(path) => IdMap::of(Store::lock(path)?, max, Above::IfItWas),
            None => Ok((IdMap { max, ..IdMap::in_memory() }, Settling::default())),
        }
    }

    /// The same for ids that mean nothing above `max`, such as those that PMIDs are made of: a file that has one is refused, whatever
    /// its header allows.
    ///
    /// # Errors
    /// As [`IdMap::load`].
    pub fn begin_within(path: Option<&Path>, max: i32) -> Result<(IdMap, Settling), IdsError> {
        match path {
            Some(path) => IdMap::of(Store::lock(path)?, max, Above::Never),
            None => IdMap::begin(None, max),
        }
    }

    /// The same from a file of any disk, which nobody else uses.
    ///
    /// # Errors
    /// As [`IdMap::load`], but for [`IdsError::InUse`].
    pub fn load_on(disk: Arc<dyn Disk>, name: &str, max: i32) -> Result<IdMap, IdsError> {
        let store = Store::on(disk, name);
        let (map, settling) = IdMap::of(
            store.map_err(|source| IdsError::Io { path: name.into(), source })?,
            max,
            Above::IfItWas,
        )?;
        settling.finish()?;
        Ok(map)
    }

    fn of(mut store: Store, max: i32, above: Above) -> Result<(IdMap, Settling), IdsError> {
        let mut map = IdMap { max, ..IdMap::in_memory() };
        let path = store.path().to_owned();
        let fail = |source| IdsError::Io { path: path.clone(), source };
        let mut text = store.read().map_err(fail)?;
        let whole = whole_lines(&text);
        // Whole lines are judged by `parse`. A beginning of something else must not be taken for a header that a crash
        // has cut short, and cut away.
        let begins = &text[..text.len().min(4)];
        if whole == 0
            && !header(MAX_ID).as_bytes().starts_with(begins)
            && begins.iter().any(|&byte| byte != 0)
        {
            return Err(IdsError::Line { path, line: 1, reason: LineError::Header });
        }
        if whole < text.len() {
            let rest = String::from_utf8_lossy(&text[whole..]);
            tracing::warn!("{}: dropped a last line that was cut short: {rest:?}", path.display());
            text.truncate(whole);
            store.cut(whole).map_err(fail)?;
        }
        map.parse(&path, &text, above)?;
        if text.is_empty() {
            store.begin(header(max).as_bytes()).map_err(fail)?;
        }
        let settling = if map.entries.is_empty() { Settling::default() } else { store.settling() };
        map.file = Some(store);
        Ok((map, settling))
    }

    /// What is in the file at `path`, whoever has it in use now: to look at. Nothing is changed there, and what is added
    /// here is in memory only.
    ///
    /// # Errors
    /// As [`IdMap::load`], but for [`IdsError::InUse`].
    pub fn peek(path: &Path, max: i32) -> Result<IdMap, IdsError> {
        let mut text = Vec::new();
        pcp_files::read(path)?
            .read_to_end(&mut text)
            .map_err(|source| IdsError::Io { path: path.to_owned(), source })?;
        // Its user may be writing the last line.
        text.truncate(whole_lines(&text));
        let mut map = IdMap { max, ..IdMap::in_memory() };
        map.parse(path, &text, Above::IfItWas)?;
        Ok(map)
    }

    /// A map that is not kept on file.
    pub fn in_memory() -> IdMap {
        IdMap {
            by_name: HashMap::new(),
            by_word: HashMap::new(),
            entries: Vec::new(),
            max: MAX_ID,
            file: None,
            unsettled: String::new(),
            waiting: HashSet::new(),
        }
    }

    /// The id of `name`, if it has one.
    pub fn get(&self, name: &str) -> Option<i32> {
        self.by_name.get(name).copied()
    }

    /// Who has this word as name, or as the beginning of the name up to the first blank: the id, and the whole name. With
    /// several of these any one.
    pub fn owner(&self, word: &str) -> Option<(i32, &str)> {
        let id = self.get(word).or_else(|| self.by_word.get(word).copied())?;
        Some((id, self.name(id)?))
    }

    /// Gives the name of `id` more text behind a blank, which is on disk before this returns. What is before the first
    /// blank stays, and so does what C agents take for the name.
    ///
    /// # Errors
    /// [`IdsError::Taken`] if `name` is not the id's with more behind it, or is another's; else as
    /// [`IdMap::get_or_add`].
    pub fn extend(&mut self, id: i32, name: &str) -> Result<(), IdsError> {
        let taken = |taken_by| IdsError::Taken { id, name: name.to_owned(), taken_by };
        let Some(old) = self.name(id).filter(|old| is_more(old, name)) else {
            return Err(taken(Binding::Id(self.name(id).unwrap_or_default().to_owned())));
        };
        let old = old.to_owned();
        if let Some(other) = self.get(name) {
            return Err(taken(Binding::Name(other)));
        }
        self.append(&Entry { id, name: name.into(), key: None, used: now(), retired: false })?;
        self.rename(&old, id, name);
        Ok(())
    }

    /// The id of `name`; a new name gets one above the highest id so far, which is on disk before this returns: about
    /// a millisecond, once in the life of a name.
    ///
    /// # Errors
    /// [`IdsError::Full`], [`IdsError::Name`], [`IdsError::Io`]. No id was handed out then.
    pub fn get_or_add(&mut self, name: &str) -> Result<i32, IdsError> {
        if let Some(id) = self.get(name) {
            // It may be one of those that wait.
            self.settle()?;
            return Ok(id);
        }
        let id = self.next_id()?;
        self.add(id, name)?;
        Ok(id)
    }

    /// As [`IdMap::get_or_add`] for who has many names to add: the id must not be given to anybody before [`IdMap::settle`],
    /// which brings all of them to disk at once.
    ///
    /// # Errors
    /// [`IdsError::Full`], [`IdsError::Name`].
    pub fn get_or_add_unsettled(&mut self, name: &str) -> Result<i32, IdsError> {
        if let Some(id) = self.get(name) {
            return Ok(id);
        }
        let id = self.next_id()?;
        self.add_unsettled(id, name)?;
        Ok(id)
    }

    /// Brings to disk what [`IdMap::get_or_add_unsettled`] and [`IdMap::reserve_unsettled`] have added: one write and one sync, and
    /// none if there is nothing.
    ///
    /// # Errors
    /// [`IdsError::Io`]: none of it is on disk, and the next call tries again.
    pub fn settle(&mut self) -> Result<(), IdsError> {
        let Some(store) = self.file.as_mut().filter(|_| !self.unsettled.is_empty()) else { return Ok(()) };
        let appended = store.append(self.unsettled.as_bytes());
        appended.map_err(|source| IdsError::Io { path: store.path().to_owned(), source })?;
        self.unsettled.clear();
        self.waiting.clear();
        Ok(())
    }

    /// Gives `name` the fixed id `id`. Doing it again is fine.
    ///
    /// # Errors
    /// [`IdsError::Taken`] when either is bound otherwise, [`IdsError::Full`] for an id outside 0..=max, and
    /// as [`IdMap::get_or_add`].
    pub fn reserve(&mut self, id: i32, name: &str) -> Result<(), IdsError> {
        if self.is_free(id, name)? { self.add(id, name) } else { self.settle() }
    }

    /// As [`IdMap::reserve`] for who has many: nobody may rely on it before [`IdMap::settle`].
    ///
    /// # Errors
    /// As [`IdMap::reserve`], but for [`IdsError::Io`].
    pub fn reserve_unsettled(&mut self, id: i32, name: &str) -> Result<(), IdsError> {
        if self.is_free(id, name)? { self.add_unsettled(id, name) } else { Ok(()) }
    }

    /// Whether an id is on disk with its name, or in a map in memory: if not, [`IdMap::settle`] has failed or was not called since.
    pub fn is_settled(&self, id: i32) -> bool {
        !self.waiting.contains(&id)
    }

    /// Whether id and name can be bound to each other, and are not yet.
    fn is_free(&self, id: i32, name: &str) -> Result<bool, IdsError> {
        let taken = |taken_by| IdsError::Taken { id, name: name.to_owned(), taken_by };
        match (self.get(name), self.name(id)) {
            (Some(has), _) if has == id => Ok(false),
            (Some(has), _) => Err(taken(Binding::Name(has))),
            (None, Some(other)) => Err(taken(Binding::Id(other.to_owned()))),
            (None, None) if !(0..=self.max).contains(&id) => Err(IdsError::Full { max: self.max }),
            (None, None) => Ok(true),
        }
    }

    /// The name of `id`, if it was handed out, also if the name is retired.
    pub fn name(&self, id: i32) -> Option<&str> {
        self.position(id).ok().map(|at| &*self.entries[at].name)
    }

    /// Ids and names, in ascending order of id, without those that are retired.
    pub fn iter(&self) -> impl Iterator<Item = (i32, &str)> {
        self.history().filter(|(.., retired)| !retired).map(|(id, name, _)| (id, name))
    }

    /// All ids that were ever handed out, in ascending order, and the names they mean in archives; last, whether the name
    /// is retired.
    pub fn history(&self) -> impl ExactSizeIterator<Item = (i32, &str, bool)> {
        self.entries.iter().map(|entry| (entry.id, &*entry.name, entry.retired))
    }

    /// How many names have an id.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Whether no name has an id.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Takes their names from ids, which nobody gets again. On file after the next [`IdMap::save`]; ids without a name are
    /// left as they are.
    pub fn retire(&mut self, ids: impl IntoIterator<Item = i32>) {
        for id in ids {
            if let Ok(at) = self.position(id)
                && !self.entries[at].retired
            {
                self.entries[at].retired = true;
                unbind(&mut self.by_name, &mut self.by_word, &self.entries[at]);
            }
        }
    }

    /// The largest id that may be handed out.
    pub fn max(&self) -> i32 {
        self.max
    }

    /// Forgets an id of a map in memory, so that short-lived names do not pile up. A map on file
    /// forgets nothing, and neither does this: returns whether it did.
    pub fn forget(&mut self, id: i32) -> bool {
        let Ok(at) = self.position(id) else { return false };
        if self.file.is_some() {
            return false;
        }
        let entry = self.entries.remove(at);
        unbind(&mut self.by_name, &mut self.by_word, &entry);
        true
    }

    /// As [`IdMap::forget`], for many ids, which are ascending: one pass, however many. Forgets nothing of a map on file.
    pub fn forget_all(&mut self, ids: &[i32]) {
        if self.file.is_some() {
            return;
        }
        let IdMap { entries, by_name, by_word, .. } = self;
        entries.retain(|entry| {
            let stays = ids.binary_search(&entry.id).is_err();
            if !stays {
                unbind(by_name, by_word, entry);
            }
            stays
        });
    }

    /// Whether no id is left that is above all others: new names get none, whatever is retired.
    pub fn is_exhausted(&self) -> bool {
        self.entries.last().is_some_and(|last| last.id >= self.max)
    }

    /// Notes that `id` was in use at a time, in seconds since the epoch. On file after the next [`IdMap::save`].
    pub fn mark_used_at(&mut self, id: i32, seconds: u64) {
        if let Ok(at) = self.position(id) {
            self.entries[at].used = seconds;
        }
    }

    /// Notes that `id` is in use now. Costs no I/O: the time is on file after the next [`IdMap::save`].
    pub fn mark_used(&mut self, id: i32) {
        if let Ok(at) = self.position(id) {
            self.entries[at].used = now();
        }
    }

    /// When `id` was last used (epoch seconds).
    pub fn last_used(&self, id: i32) -> Option<u64> {
        self.position(id).ok().map(|at| self.entries[at].used)
    }

    /// Writes the whole file anew, last-used times included. A reader (or a crash) sees the old file or the
    /// new one, never half of one. Does nothing for a map in memory.
    ///
    /// # Errors
    /// [`IdsError::Io`]; the old file is still in place then.
    pub fn save(&mut self) -> Result<(), IdsError> {
        let Some(store) = &mut self.file else { return Ok(()) };
        let mut text = header(self.max);
        for entry in &self.entries {
            push_line(&mut text, entry);
        }
        store.replace(text.as_bytes())?;
        self.unsettled.clear();
        self.waiting.clear();
        Ok(())
    }

    /// The id of the next name.
    fn next_id(&self) -> Result<i32, IdsError> {
        match self.entries.last() {
            Some(last) if last.id >= self.max => Err(IdsError::Full { max: self.max }),
            Some(last) => Ok(last.id + 1),
            None => Ok(0),
        }
    }

    fn position(&self, id: i32) -> Result<usize, usize> {
        self.entries.binary_search_by_key(&id, |entry| entry.id)
    }

    /// Adds a pair that is known to be free: to the file first.
    fn add(&mut self, id: i32, name: &str) -> Result<(), IdsError> {
        let entry = Entry { id, name: name.into(), key: None, used: now(), retired: false };
        self.append(&entry)?;
        self.insert(entry);
        Ok(())
    }

    /// The same without a wait for the disk.
    fn add_unsettled(&mut self, id: i32, name: &str) -> Result<(), IdsError> {
        let entry = Entry { id, name: name.into(), key: None, used: now(), retired: false };
        check_name(&entry.name)?;
        if self.file.is_some() {
            push_line(&mut self.unsettled, &entry);
            self.waiting.insert(id);
        }
        self.insert(entry);
        Ok(())
    }

    /// Writes a line at the file's end, if there is a file, and what it says can come back.
    fn append(&mut self, entry: &Entry) -> Result<(), IdsError> {
        check_name(&entry.name)?;
        // Ids are in the file in the order in which they were given out.
        self.settle()?;
        if let Some(store) = &mut self.file {
            let mut line = String::with_capacity(entry.name.len() + 24);
            push_line(&mut line, entry);
            // An identifier that was handed out is in archives by the time that the power fails.
            let appended = store.append(line.as_bytes());
            appended.map_err(|source| IdsError::Io { path: store.path().to_owned(), source })?;
        }
        Ok(())
    }

    /// Puts a longer name in the place of one that is not retired.
    fn rename(&mut self, old: &str, id: i32, name: &str) {
        if let Ok(at) = self.position(id) {
            self.by_name.remove(old);
            let entry = &mut self.entries[at];
            entry.name = name.into();
            bind(&mut self.by_name, &mut self.by_word, entry);
        }
    }

    fn insert(&mut self, entry: Entry) {
        let at = self.position(entry.id).unwrap_or_else(|at| at);
        if !entry.retired {
            bind(&mut self.by_name, &mut self.by_word, &entry);
        }
        self.entries.insert(at, entry);
    }

    fn parse(&mut self, path: &Path, text: &[u8], above: Above) -> Result<(), IdsError> {
        let bad = |line, reason| IdsError::Line { path: path.to_owned(), line, reason };
        let mut lines = text.split(|&byte| byte == b'\n').enumerate();
        let file_max = match lines.next() {
            Some((_, [])) | None if text.is_empty() => return Ok(()),
            Some((_, first)) => parse_header(first).ok_or(bad(1, LineError::Header))?,
            None => return Ok(()),
        };
        let max = match above {
            Above::IfItWas => self.max.max(file_max.unwrap_or(self.max)),
            Above::Never => self.max,
        };
        // Room for all of them at once: a line each.
        let count = text.iter().filter(|&&byte| byte == b'\n').count().saturating_sub(1);
        self.entries.reserve_exact(count);
        self.by_name.reserve(count);
        for (index, line) in lines {
            let number = index + 1;
            if line.is_empty() {
                continue;
            }
            let line = std::str::from_utf8(line).map_err(|_| bad(number, LineError::Encoding))?;
            let entry = parse_entry(line).ok_or(bad(number, LineError::Entry))?;
            if entry.id > max {
                return Err(bad(number, LineError::AboveMax(entry.id, max)));
            }
            // Others may have got the name since.
            let bound = if entry.retired { None } else { self.get(&entry.name) };
            match (bound, self.name(entry.id)) {
                (None, None) => self.insert(entry),
                // A C agent leaves such lines behind and ignores them when loading.
                (Some(id), Some(_)) if id == entry.id => {}
                // It has got more text since, in this file's life.
                (None, Some(old))
                    if !entry.retired && self.get(old) == Some(entry.id) && is_more(old, &entry.name) =>
                {
                    let old = old.to_owned();
                    self.rename(&old, entry.id, &entry.name);
                }
                (Some(id), _) => {
                    return Err(bad(number, LineError::DuplicateName(id, entry.name.to_string())));
                }
                (None, Some(other)) => {
                    return Err(bad(number, LineError::DuplicateId(entry.id, other.to_owned())));
                }
            }
        }
        Ok(())
    }
}

/// Whether a file may have ids above the largest that is given.
#[derive(Clone, Copy)]
enum Above {
    /// As far as its header says: a limit that has been lowered since does not make ids that were handed out wrong.
    IfItWas,
    Never,
}

/// Refuses what would not come back from a line of the file.
fn check_name(name: &str) -> Result<(), IdsError> {
    let is_bad = name.is_empty()
        || name.contains(['\n', '\r', '\0'])
        || split_key(name).0.is_some()
        || looks_retired(name);
    if is_bad { Err(IdsError::Name(name.to_owned())) } else { Ok(()) }
}

/// Whether a name is another one with more text behind a blank.
fn is_more(old: &str, name: &str) -> bool {
    name.strip_prefix(old).is_some_and(|more| more.len() > 1 && more.starts_with(' '))
}

/// What is before the first blank, of a name that has one.
fn first_word(name: &str) -> Option<&str> {
    name.split_once(' ').map(|(word, _)| word)
}

fn bind(by_name: &mut HashMap<Arc<str>, i32>, by_word: &mut HashMap<Box<str>, i32>, entry: &Entry) {
    by_name.insert(entry.name.clone(), entry.id);
    if let Some(word) = first_word(&entry.name) {
        by_word.entry(word.into()).or_insert(entry.id);
    }
}

fn unbind(by_name: &mut HashMap<Arc<str>, i32>, by_word: &mut HashMap<Box<str>, i32>, entry: &Entry) {
    by_name.remove(&entry.name);
    if let Some(word) = first_word(&entry.name)
        && by_word.get(word) == Some(&entry.id)
    {
        by_word.remove(word);
    }
}

/// How many bytes are whole lines. A last line without its end is one that a crash has cut short, before its id was handed
/// out; and so is one with zeros, which no name has: the power went before all of its sectors were written.
fn whole_lines(text: &[u8]) -> usize {
    let whole = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
    let last =
        text[..whole.saturating_sub(1)].iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
    if text[last..whole].contains(&0) { last } else { whole }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn load(text: &[u8]) -> Result<IdMap, IdsError> {
        let mut map = IdMap::in_memory();
        map.parse(Path::new("250.3"), text, Above::IfItWas).map(|()| map)
    }

    #[test]
    fn many_names_are_on_file_once_they_are_settled() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("250.3");
        let mut map = IdMap::load(Some(&path), 5).unwrap();
        assert_eq!(map.get_or_add_unsettled("alpha").unwrap(), 0);
        assert_eq!(map.get_or_add_unsettled("beta").unwrap(), 1);
        assert_eq!(map.get_or_add_unsettled("alpha").unwrap(), 0);
        assert!(matches!(map.get_or_add_unsettled("a\nb"), Err(IdsError::Name(_))));
        assert_eq!(IdMap::peek(&path, 5).unwrap().len(), 0);
        map.settle().unwrap();
        map.settle().unwrap();
        assert_eq!(IdMap::peek(&path, 5).unwrap().iter().collect::<Vec<_>>(), [(0, "alpha"), (1, "beta")]);
        // One that is added at once comes behind those that wait.
        map.get_or_add_unsettled("gamma").unwrap();
        map.get_or_add("delta").unwrap();
        drop(map);
        let again = IdMap::load(Some(&path), 5).unwrap();
        assert_eq!((again.get("gamma"), again.get("delta")), (Some(2), Some(3)));
    }

    #[test]
    fn ids_above_the_largest_are_those_of_a_limit_that_was_lowered_or_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("250.3");
        fs::write(&path, "2 0 2147483647\n5 1795170946 five\n6 1795170946 six\n").unwrap();
        let (map, settling) = IdMap::begin(Some(&path), 5).unwrap();
        assert_eq!((map.get("five"), map.get("six")), (Some(5), Some(6)));
        drop((map, settling));
        let refused = IdMap::begin_within(Some(&path), 5).map(drop);
        assert!(
            matches!(refused, Err(IdsError::Line { line: 3, reason: LineError::AboveMax(6, 5), .. })),
            "{refused:?}"
        );
        let (map, _settling) = IdMap::begin_within(Some(&path), 6).unwrap();
        assert_eq!(map.get("six"), Some(6));
        assert!(IdMap::begin_within(None, 5).unwrap().0.is_empty());
    }

    #[test]
    fn what_a_process_that_was_killed_while_saving_has_left_goes_with_the_next_save() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deep/250.3");
        let mut map = IdMap::load(Some(&path), 5).unwrap();
        map.get_or_add("one").unwrap();
        let left = path.with_file_name(pcp_files::temporary("250.3", 7));
        fs::write(&left, "half a li").unwrap();
        drop(map);
        let mut map = IdMap::load(Some(&path), 5).unwrap();
        assert_eq!(map.get("one"), Some(0));
        map.save().unwrap();
        let names = fs::read_dir(dir.path().join("deep")).unwrap();
        assert_eq!(names.map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>(), ["250.3"]);
        // What was put in its place is this process's alone, too.
        assert!(matches!(IdMap::load(Some(&path), 5), Err(IdsError::InUse { .. })));
        map.get_or_add("two").unwrap();
        drop(map);
        assert_eq!(IdMap::load(Some(&path), 5).unwrap().get("two"), Some(1));
    }

    #[test]
    fn an_id_that_waits_is_told_from_one_on_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("250.3");
        let on_file = || IdMap::peek(&path, 50).unwrap().iter().map(|(id, _)| id).collect::<Vec<_>>();
        let mut map = IdMap::load(Some(&path), 50).unwrap();
        map.reserve_unsettled(4, "four").unwrap();
        map.reserve_unsettled(4, "four").unwrap();
        assert!(matches!(map.reserve_unsettled(4, "five"), Err(IdsError::Taken { .. })));
        assert!(matches!(map.reserve_unsettled(51, "five"), Err(IdsError::Full { .. })));
        assert_eq!(map.get_or_add_unsettled("44").unwrap(), 5);
        assert_eq!([4, 5, 44].map(|id| map.is_settled(id)), [false, false, true]);
        assert!(on_file().is_empty());
        map.settle().unwrap();
        assert_eq!([4, 5].map(|id| map.is_settled(id)), [true, true]);
        assert_eq!(on_file(), [4, 5]);
        // Whoever asks for one that waits, and does not say that it can, has it when it is on file.
        map.get_or_add_unsettled("six").unwrap();
        assert_eq!(map.get_or_add("six").unwrap(), 6);
        assert_eq!(on_file(), [4, 5, 6]);
        map.reserve_unsettled(7, "seven").unwrap();
        map.reserve(7, "seven").unwrap();
        assert_eq!(on_file(), [4, 5, 6, 7]);
    }

    #[test]
    fn ids_and_names_survive_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deep/er/250.3");
        let mut map = IdMap::load(Some(&path), 5).unwrap();
        assert_eq!(map.get_or_add("alpha").unwrap(), 0);
        assert_eq!(map.get_or_add("beta two").unwrap(), 1);
        assert_eq!(map.get_or_add("alpha").unwrap(), 0);
        map.reserve(4, "four").unwrap();
        map.reserve(4, "four").unwrap();
        // No save: being added is being on file.
        drop(map);
        let mut again = IdMap::load(Some(&path), 5).unwrap();
        assert_eq!(again.iter().collect::<Vec<_>>(), [(0, "alpha"), (1, "beta two"), (4, "four")]);
        assert_eq!(again.get_or_add("five").unwrap(), 5);
        assert!(matches!(again.get_or_add("six"), Err(IdsError::Full { max: 5 })));
        again.save().unwrap();
        assert!(again.get_or_add("five").is_ok());
        drop(again);
        assert_eq!(IdMap::load(Some(&path), 5).unwrap().get("five"), Some(5));
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "temporary file left behind");
    }

    #[test]
    fn entries_after_a_save_go_to_the_new_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("250.1");
        let mut map = IdMap::load(Some(&path), MAX_ID).unwrap();
        map.get_or_add("a").unwrap();
        map.save().unwrap();
        map.get_or_add("b").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 3);
        assert!(
            matches!(IdMap::load(Some(&path), MAX_ID), Err(IdsError::InUse { .. })),
            "the new file is locked"
        );
        drop(map);
        assert_eq!(IdMap::load(Some(&path), MAX_ID).unwrap().get("b"), Some(1));
    }

    #[test]
    fn reads_what_c_agents_write_and_keeps_their_keys() {
        let map =
            load(b"2 0 2147483647\n0 1795170946 alpha\n87612619 1795170946 [010203ff] keyed\n").unwrap();
        assert_eq!(map.get("keyed"), Some(87_612_619));
        assert_eq!(map.last_used(0), Some(1_795_170_946));
        let mut line = String::new();
        push_line(&mut line, &map.entries[1]);
        assert_eq!(line, "87612619 1795170946 [010203ff] keyed\n");
        assert_eq!(load(b"1 0\n3 7 x\n").unwrap().get("x"), Some(3));
        assert!(load(b"").unwrap().is_empty());
    }

    #[test]
    fn a_last_line_that_a_crash_cut_short_is_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("250.3");
        let whole = "2 0 2147483647\n0 1 alpha\n1 17 alphabet\n";
        // Wherever the crash came, among them after a name that is another's beginning.
        for length in 0..whole.len() {
            fs::write(&path, &whole[..length]).unwrap();
            let known = whole[..length].matches('\n').count().saturating_sub(1);
            let mut map = IdMap::load(Some(&path), MAX_ID).expect(&whole[..length]);
            let expected = &[(0, "alpha")][..known.min(1)];
            assert_eq!(map.iter().collect::<Vec<_>>(), expected, "{:?}", &whole[..length]);
            assert_eq!(map.get_or_add("beta").unwrap(), known as i32);
            drop(map);
            assert_eq!(IdMap::load(Some(&path), MAX_ID).unwrap().get("beta"), Some(known as i32));
        }
    }

    #[test]
    fn two_processes_cannot_hand_out_the_same_ids() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("250.3");
        let first = IdMap::load(Some(&path), MAX_ID).unwrap();
        let error = IdMap::load(Some(&path), MAX_ID).unwrap_err().to_string();
        let process = std::process::id();
        let expected =
            format!("250.3: process {process} uses it; stop that one, or configure another directory");
        assert!(error.ends_with(&expected), "{error}");
        // One that is ending is waited for.
        let other = std::thread::spawn({
            let path = path.clone();
            move || IdMap::load(Some(&path), MAX_ID).map(|map| map.len())
        });
        std::thread::sleep(std::time::Duration::from_millis(60));
        drop(first);
        assert_eq!(other.join().unwrap().unwrap(), 0);
    }

    #[test]
    fn a_link_in_place_of_the_file_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (path, precious) = (dir.path().join("250.3"), dir.path().join("precious"));
        for text in ["kept", ""] {
            fs::write(&precious, text).unwrap();
            std::os::unix::fs::symlink(&precious, &path).unwrap();
            let error = IdMap::load(Some(&path), MAX_ID).unwrap_err().to_string();
            assert!(error.contains("250.3: is a symbolic link; only a regular file is allowed"), "{error}");
            assert_eq!(fs::read_to_string(&precious).unwrap(), text);
            // Put there while the file is in use, it is replaced.
            fs::remove_file(&path).unwrap();
            let mut map = IdMap::load(Some(&path), MAX_ID).unwrap();
            fs::remove_file(&path).unwrap();
            std::os::unix::fs::symlink(&precious, &path).unwrap();
            map.get_or_add("a").unwrap();
            map.save().unwrap();
            assert_eq!(fs::read_to_string(&precious).unwrap(), text);
            assert!(!fs::symlink_metadata(&path).unwrap().is_symlink());
            drop(map);
            fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn a_file_of_another_kind_is_left_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("250.3");
        fs::write(&path, "precious").unwrap();
        assert!(matches!(IdMap::load(Some(&path), MAX_ID), Err(IdsError::Line { line: 1, .. })));
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    }

    #[test]
    fn damage_is_told_by_line() {
        let line = |text: &[u8]| match load(text) {
            Err(IdsError::Line { line, reason, .. }) => (line, reason),
            other => panic!("{other:?}"),
        };
        assert_eq!(line(b"junk\n"), (1, LineError::Header));
        assert_eq!(line(b"\n0 1 a\n"), (1, LineError::Header));
        assert_eq!(line(b"2 0 -1\n"), (1, LineError::Header));
        assert_eq!(line(b"2 0 9\nx 1 foo\n"), (2, LineError::Entry));
        assert_eq!(line(b"2 0 9\n1 1\n"), (2, LineError::Entry));
        assert_eq!(line(b"2 0 9\n-1 1 a\n"), (2, LineError::Entry));
        assert_eq!(line(b"2 0 9\n1 1 a\n1 1 b\n"), (3, LineError::DuplicateId(1, "a".into())));
        assert_eq!(line(b"2 0 9\n1 1 a\n2 1 a\n"), (3, LineError::DuplicateName(1, "a".into())));
        assert_eq!(line(b"2 0 9\n1 1 \xff\n"), (2, LineError::Encoding));
        assert!(load(b"2 0 9\n1 1 a\n\n1 2 a\n").is_ok());
    }

    #[test]
    fn ids_of_retired_names_are_nobodys() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("250.3");
        let mut map = IdMap::load(Some(&path), MAX_ID).unwrap();
        for name in ["alpha", "beta two", "gamma"] {
            map.get_or_add(name).unwrap();
        }
        map.retire([1, 2, 7]);
        map.save().unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(" (retired:1) beta two\n") && text.contains(" (retired:2) gamma\n"), "{text}");
        drop(map);
        for _ in 0..2 {
            let mut map = IdMap::load(Some(&path), MAX_ID).unwrap();
            assert_eq!((map.get("alpha"), map.get("beta two")), (Some(0), None));
            assert_eq!(map.name(2), Some("gamma"), "to archives it means that");
            assert!(matches!(map.reserve(1, "delta"), Err(IdsError::Taken { .. })));
            map.save().unwrap();
        }
        let mut map = IdMap::load(Some(&path), MAX_ID).unwrap();
        assert_eq!(map.get_or_add("gamma").unwrap(), 3);
        map.retire([3]);
        map.save().unwrap();
        drop(map);
        let map = IdMap::peek(&path, MAX_ID).unwrap();
        assert_eq!(map.iter().collect::<Vec<_>>(), [(0, "alpha")]);
        assert_eq!((map.len(), map.history().len()), (1, 4));
    }

    #[test]
    fn a_name_gets_more_text_and_keeps_its_id() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("250.3");
        let mut map = IdMap::load(Some(&path), MAX_ID).unwrap();
        for name in ["a_b", "c"] {
            map.get_or_add(name).unwrap();
        }
        map.extend(0, "a_b a b").unwrap();
        for (id, name) in [(0, "a_b a b"), (0, "x y"), (1, "c"), (1, "c "), (1, "cd e"), (7, "c d")] {
            assert!(matches!(map.extend(id, name), Err(IdsError::Taken { .. })), "{id} {name:?}");
        }
        assert!(matches!(map.extend(1, "c d\ne"), Err(IdsError::Name(_))));
        for save in [false, true] {
            if save {
                map.save().unwrap();
            }
            drop(map);
            map = IdMap::load(Some(&path), MAX_ID).unwrap();
            assert_eq!(map.iter().collect::<Vec<_>>(), [(0, "a_b a b"), (1, "c")]);
            assert_eq!(map.owner("a_b"), Some((0, "a_b a b")));
            assert_eq!((map.owner("c"), map.owner("a"), map.get("a_b")), (Some((1, "c")), None, None));
        }
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 3);
        map.retire([0]);
        assert_eq!(map.owner("a_b"), None);
    }

    #[test]
    fn names_that_would_not_come_back_are_refused() {
        let mut map = IdMap::in_memory();
        for name in ["", "a\nb", "a\0", "[01] x", "(retired:1) x"] {
            assert!(matches!(map.get_or_add(name), Err(IdsError::Name(_))), "{name:?}");
        }
        assert_eq!(map.get_or_add("[x] y").unwrap(), 0);
        assert!(matches!(map.reserve(0, "z"), Err(IdsError::Taken { .. })));
        assert!(matches!(map.reserve(1, "[x] y"), Err(IdsError::Taken { .. })));
        assert!(matches!(map.reserve(-1, "n"), Err(IdsError::Full { .. })));
    }
}
