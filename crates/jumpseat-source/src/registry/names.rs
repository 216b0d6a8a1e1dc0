//! One kind of names and their ids: a file, a cap, a count of what the cap kept out, and the word to the core about
//! each new name.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;
use hashbrown::HashSet;
use rustc_hash::FxHashMap;

use super::config::{RegistryConfig, RegistryError};
use super::definition::Definition;
use super::recycle::{Gone, Uses, period};
use super::taker::{Taken, Taker};
use pcp_ids::{IdMap, IdsError, MAX_ID, Settling};
use pcp_model::Inst;
use pcp_net::Limiter;

/// What names are of.
pub(super) trait Kind {
    /// Serial of the id file.
    const SERIAL: u32;
    /// The largest id.
    const MAX_ID: Inst = MAX_ID;
    /// What a name is of, in messages.
    const WHAT: &'static str;
    /// What is kept of each name that the core knows.
    type Kept;

    /// What the core is told of a name that has given its place to a newcomer, if it is to forget it.
    fn gone(id: Inst) -> Option<Definition>;
}

/// How names give their places to newcomers.
pub(super) struct Giving<'a> {
    /// Those that never do.
    pub keeps: &'a dyn Fn(Inst, &str) -> bool,
    /// Called before they do, with the table locked: what depends on them goes first.
    pub before: &'a dyn Fn(&[Gone]),
}

/// All names of one kind.
#[derive(Debug)]
pub(super) struct Names<K: Kind> {
    cap: usize,
    /// Read by the core, which must not wait for a lock.
    overflow: AtomicU64,
    /// How often because whoever wanted it has had its share.
    over_share: AtomicU64,
    /// How many have given their places to newcomers.
    recycled: AtomicU64,
    /// The id file's name, for messages.
    file: String,
    table: Mutex<Table<K::Kept>>,
    kind: PhantomData<K>,
}

#[derive(Debug)]
struct Table<T> {
    ids: IdMap,
    /// What is kept of the names that the core knows.
    announced: FxHashMap<Inst, T>,
    announce: Sender<Definition>,
    /// Names that have no id yet, and a place all the same.
    reserved: HashSet<String>,
    taken: Taken,
    /// When names were used.
    uses: Uses,
    /// They were, since that was on file.
    is_unsaved: bool,
    saved: Instant,
    report: Limiter,
}

/// How often it is noted on file which names are in use, at most.
const SAVE_EVERY: Duration = Duration::from_secs(3600);

/// Why a name has no id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoId {
    /// The cap is reached.
    Full,
    /// It could not be stored.
    Store,
}

/// Whether a new name counts against the cap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cap {
    Applies,
    /// For names that stand for all that is beyond it.
    Waived,
}

impl<K: Kind> Names<K> {
    /// Loads the id file, which is settled on disk later. The core is told of nothing yet.
    pub(super) fn load(
        config: &RegistryConfig,
        cap: usize,
        announce: &Sender<Definition>,
    ) -> Result<(Names<K>, Settling), RegistryError> {
        let file = format!("{}.{}", config.domain, K::SERIAL);
        let path = config.dir.as_ref().map(|dir| dir.join(&file));
        let (ids, settling) = IdMap::begin(path.as_deref(), K::MAX_ID)
            .map_err(|error| RegistryError::File { file: file.clone(), error })?;
        let table = Table {
            ids,
            announced: FxHashMap::default(),
            announce: announce.clone(),
            reserved: HashSet::default(),
            taken: Taken::default(),
            uses: Uses::new(config.recycle_after),
            is_unsaved: false,
            saved: Instant::now(),
            report: Limiter::new(3, Duration::from_secs(60)),
        };
        let (overflow, over_share, recycled) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
        let table = Mutex::new(table);
        let names = Names { cap, overflow, over_share, recycled, file, table, kind: PhantomData };
        Ok((names, settling))
    }

    /// Most names.
    pub(super) fn cap(&self) -> usize {
        self.cap
    }

    /// The id file's name.
    pub(super) fn file(&self) -> &str {
        &self.file
    }

    /// How often a name was kept out.
    pub(super) fn overflow(&self) -> u64 {
        self.overflow.load(Ordering::Relaxed)
    }

    /// How often because whoever wanted it has had its share.
    pub(super) fn over_share(&self) -> u64 {
        self.over_share.load(Ordering::Relaxed)
    }

    /// How many names have given their places to newcomers.
    pub(super) fn recycled(&self) -> u64 {
        self.recycled.load(Ordering::Relaxed)
    }

    /// Another time after which names may give their places.
    pub(super) fn set_after(&self, after: Duration) {
        self.lock().uses.set_after(after);
    }

    /// Notes that a name is in use, if it still has its place.
    pub(super) fn note(&self, id: Inst) -> bool {
        let mut table = self.lock();
        let has_place = table.has(id);
        if has_place {
            table.note(id, K::WHAT);
        }
        has_place
    }

    /// Puts the clock ahead.
    #[cfg(test)]
    pub(super) fn advance(&self, by: Duration) {
        self.lock().uses.ahead += by;
    }

    /// How many names were looked at for places.
    #[cfg(test)]
    pub(super) fn looks(&self) -> u64 {
        self.lock().uses.looks
    }

    /// Whether a name still has its place.
    pub(super) fn has(&self, id: Inst) -> bool {
        self.lock().has(id)
    }

    /// Takes their places from names, as those they depend on have lost theirs.
    pub(super) fn give_up(&self, goes: impl Fn(&str) -> bool) {
        let mut table = self.lock();
        let ids: Vec<Inst> = table.ids.iter().filter(|(_, name)| goes(name)).map(|(id, _)| id).collect();
        self.retire(&mut table, &ids);
    }

    /// Burns ids, on file, and has the core forget them.
    fn retire(&self, table: &mut Table<K::Kept>, ids: &[Inst]) {
        if ids.is_empty() {
            return;
        }
        table.ids.retire(ids.iter().copied());
        let Table { uses, taken, announced, announce, .. } = &mut *table;
        for id in ids {
            uses.gone(*id, taken);
            // What the core does not know it need not forget.
            if announced.remove(id).is_some()
                && let Some(gone) = K::gone(*id)
            {
                let _ = announce.send(gone);
            }
        }
        // Before the newcomer has its place. If the disk does not take it they are back after a restart, with their own ids.
        table.is_unsaved = true;
        table.save(K::WHAT);
        self.recycled.fetch_add(ids.len() as u64, Ordering::Relaxed);
    }

    /// A place for a name of `taker`, if there is one or somebody gives his.
    fn make_place(
        &self,
        table: &mut Table<K::Kept>,
        (name, taker): (&str, Taker),
        giving: &Giving<'_>,
    ) -> Result<(), NoId> {
        if self.has_room(table, taker) {
            return Ok(());
        }
        let (used, free) = self.used_and_free(table);
        let lacking = if free > 0 { 0 } else { used + 1 - self.cap };
        // Once there is no id left, no place helps.
        let gone = match table.ids.is_exhausted() {
            true => Vec::new(),
            false => {
                let many = (lacking, (self.cap / 64).max(1));
                table.uses.choose(&table.ids, &table.taken, taker, many, giving.keeps)
            }
        };
        if !gone.is_empty() {
            report_gone(K::WHAT, name, &gone);
            (giving.before)(&gone);
            let ids: Vec<Inst> = gone.iter().map(|gone| gone.id).collect();
            self.retire(table, &ids);
            return Ok(());
        }
        if free > 0 {
            self.over_share.fetch_add(1, Ordering::Relaxed);
            table.report_share(K::WHAT, taker);
        } else {
            table.report_full((K::WHAT, name), self.cap);
        }
        Err(NoId::Full)
    }

    /// Whether there is a place for a name of `taker`, and nobody has to give his.
    fn has_room(&self, table: &Table<K::Kept>, taker: Taker) -> bool {
        let (_, free) = self.used_and_free(table);
        free > 0 && table.taken.allows(taker, free)
    }

    fn used_and_free(&self, table: &Table<K::Kept>) -> (usize, usize) {
        let used = table.ids.len() + table.reserved.len();
        (used, self.cap.saturating_sub(used))
    }

    /// Counts a name that was kept out.
    pub(super) fn count_overflow(&self) {
        self.overflow.fetch_add(1, Ordering::Relaxed);
    }

    /// The id of a name that has one.
    pub(super) fn get(&self, name: &str) -> Option<Inst> {
        self.lock().ids.get(name)
    }

    /// The name of an id.
    pub(super) fn name(&self, id: Inst) -> Option<String> {
        self.lock().ids.name(id).map(str::to_owned)
    }

    /// What is kept of a name that the core knows.
    pub(super) fn kept(&self, id: Inst) -> Option<K::Kept>
    where
        K::Kept: Clone,
    {
        self.lock().announced.get(&id).cloned()
    }

    /// The id of a name. A new one gets an id if there is room, and is on file before the core is told; the core is
    /// told before anybody else sees the id, so that no record can get there first. `define` gives what is kept and
    /// what the core is told; it is called only for a name that the core does not know. `taker`: who wants it, which
    /// counts for new names.
    pub(super) fn define(
        &self,
        (name, taker): (&str, Taker),
        cap: Cap,
        giving: &Giving<'_>,
        define: impl FnOnce(Inst) -> (K::Kept, Definition),
    ) -> Result<Inst, NoId> {
        let mut table = self.lock();
        let id = self.place(&mut table, (name, taker), cap, giving)?;
        table.settle(K::WHAT, name)?;
        table.note(id, K::WHAT);
        // The lock is held until the core was told, so nobody can overtake the definition with a record.
        if !table.announced.contains_key(&id) {
            table.announce(id, define(id));
        }
        Ok(id)
    }

    /// Gives names ids, as far as there is room, with one wait for the disk and not one each: for who will define all of them now.
    /// Whoever does learns of what fails, and is counted then.
    pub(super) fn prepare(&self, names: impl Iterator<Item = String>, taker: Taker, giving: &Giving<'_>) {
        let mut table = self.lock();
        let mut last = None;
        for name in names {
            if table.ids.get(&name).is_some() {
                continue;
            }
            let has_place = table.reserved.contains(&name) || self.has_room(&table, taker);
            if !has_place || self.place(&mut table, (&name, taker), Cap::Applies, giving).is_err() {
                break;
            }
            last = Some(name);
        }
        if let Some(name) = last {
            let _ = table.settle(K::WHAT, &name);
        }
    }

    /// The id of a name, which a new one gets if there is room. It must not be given to anybody before [`Table::settle`].
    fn place(
        &self,
        table: &mut Table<K::Kept>,
        (name, taker): (&str, Taker),
        cap: Cap,
        giving: &Giving<'_>,
    ) -> Result<Inst, NoId> {
        if let Some(id) = table.ids.get(name) {
            return Ok(id);
        }
        // It has its place, even if a file from before holds more than there may be.
        let cap = if table.reserved.contains(name) { Cap::Waived } else { cap };
        // Only new names: lowering the cap must not take ids away from names that have them.
        if cap == Cap::Applies {
            self.make_place(table, (name, taker), giving)?;
        }
        let id = table.ids.get_or_add_unsettled(name).map_err(|error| {
            table.complain(K::WHAT, name, &error);
            NoId::Store
        })?;
        if cap == Cap::Applies {
            let account = table.taken.add(taker);
            table.uses.took(id, account);
            table.report_use(K::WHAT, self.cap);
        } else {
            table.reserved.remove(name);
        }
        Ok(id)
    }

    /// A look at the ids.
    pub(super) fn look<T>(&self, look: impl FnOnce(&IdMap) -> T) -> T {
        look(&self.lock().ids)
    }

    /// Gives the name of an id more text ([`IdMap::extend`]), and tells the core anew if it knows the name.
    pub(super) fn extend(
        &self,
        id: Inst,
        text: &str,
        define: impl FnOnce(Inst) -> (K::Kept, Definition),
    ) -> Result<(), NoId> {
        let mut table = self.lock();
        table.ids.extend(id, text).map_err(|error| {
            table.complain(K::WHAT, text, &error);
            NoId::Store
        })?;
        if table.announced.contains_key(&id) {
            table.announce(id, define(id));
        }
        Ok(())
    }

    /// Binds names to ids of their own, or checks that they are: one wait for the disk.
    pub(super) fn reserve(
        &self,
        mut names: impl Iterator<Item = (Inst, String)>,
    ) -> Result<(), RegistryError> {
        let ids = &mut self.lock().ids;
        let reserved = names.try_for_each(|(id, name)| ids.reserve_unsettled(id, &name));
        reserved.and_then(|()| ids.settle()).map_err(|error| self.failed(error))
    }

    /// Keeps places for these names, and for no others any more, as far as they have no id yet. There may be more names
    /// than the cap says, by as many as this.
    pub(super) fn keep_places(&self, names: impl Iterator<Item = String>) {
        let mut table = self.lock();
        let Table { ids, reserved, .. } = &mut *table;
        *reserved = names.filter(|name| ids.get(name).is_none()).collect();
    }

    /// Gives a name an id without a word to the core: [`Names::announce_known`] follows.
    pub(super) fn restore(&self, name: &str) -> Result<Inst, RegistryError> {
        self.lock().ids.get_or_add(name).map_err(|error| self.failed(error))
    }

    /// All names that are not retired, in ascending order of id.
    pub(super) fn all(&self) -> Vec<(Inst, String)> {
        self.lock().ids.iter().map(|(id, name)| (id, name.to_owned())).collect()
    }

    /// Tells the core of the names in the file. `define` reads one of them; `None` for what is no name. `retired` is told
    /// of those that are, in their places, and gives what the core is to know of them all the same.
    ///
    /// # Errors
    /// `define` could not, and says what it expected.
    pub(super) fn announce_known(
        &self,
        mut retired: impl FnMut(Inst, &str) -> Option<Definition>,
        mut define: impl FnMut(Inst, &str) -> Result<Option<(K::Kept, Definition)>, String>,
    ) -> Result<(), RegistryError> {
        let history: Vec<_> =
            self.lock().ids.history().map(|(id, name, gone)| (id, name.to_owned(), gone)).collect();
        for (id, name, gone) in history {
            if gone {
                if let Some(definition) = retired(id, &name) {
                    let _ = self.lock().announce.send(definition);
                }
                continue;
            }
            let defined = define(id, &name).map_err(|expected| RegistryError::Content {
                file: self.file.clone(),
                id,
                found: name,
                expected,
            })?;
            if let Some(defined) = defined {
                self.lock().announce(id, defined);
            }
        }
        Ok(())
    }

    fn failed(&self, error: IdsError) -> RegistryError {
        RegistryError::File { file: self.file.clone(), error }
    }

    fn lock(&self) -> MutexGuard<'_, Table<K::Kept>> {
        // The table stays consistent at every step, so a panic elsewhere does not spoil it.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Kind> Drop for Names<K> {
    fn drop(&mut self) {
        self.lock().save(K::WHAT);
    }
}

impl<T> Table<T> {
    fn has(&self, id: Inst) -> bool {
        self.ids.name(id).is_some_and(|name| self.ids.get(name) == Some(id))
    }

    /// Notes that a name is in use; on file before long.
    fn note(&mut self, id: Inst, what: &str) {
        self.uses.note(id);
        self.is_unsaved = true;
        if self.saved.elapsed() >= SAVE_EVERY.min(period(self.uses.after()).max(Duration::from_secs(1))) {
            self.save(what);
        }
    }

    /// Notes on file when names were used.
    fn save(&mut self, what: &str) {
        self.saved = Instant::now();
        if !std::mem::take(&mut self.is_unsaved) {
            return;
        }
        self.uses.noted().for_each(|(id, used)| self.ids.mark_used_at(id, used));
        if let Err(error) = self.ids.save() {
            tracing::warn!("cannot note when names of {what}s were last used: {error}");
        }
    }

    fn announce(&mut self, id: Inst, (kept, definition): (T, Definition)) {
        self.announced.insert(id, kept);
        // Nobody listens any more only when the agent is shutting down.
        let _ = self.announce.send(definition);
    }

    /// Says that there is no place for a newcomer, and what to do.
    fn report_full(&mut self, (what, name): (&str, &str), cap: usize) {
        let after = self.uses.after();
        if let Some(held_back) = self.report.allow(Instant::now()) {
            let why = match after.is_zero() {
                true => "names give no places (events.recycle_after)".to_owned(),
                false => format!("none has been unused for {} (events.recycle_after)", words(after)),
            };
            tracing::warn!(
                held_back,
                "no place for the {what} {name}: all {cap} are taken, and {why}; set a larger limit or a shorter time, or see `jumpseat names`"
            );
        }
    }

    /// Says that a table fills up, at four fifths and when it is full.
    fn report_use(&mut self, what: &str, cap: usize) {
        // A place that is kept for somebody is taken, for everybody else.
        let used = self.ids.len() + self.reserved.len();
        if (used == cap || used == cap / 5 * 4)
            && let Some((taker, count)) = self.taken.most()
        {
            tracing::warn!(
                "{used} of {cap} names of {what}s are taken; most of them since the start by {taker}: {count}"
            );
        }
    }

    fn report_share(&mut self, what: &str, taker: Taker) {
        if let Some(held_back) = self.report.allow(Instant::now()) {
            tracing::warn!(
                held_back,
                "{taker} has taken its share of the names of {what}s, half of what was free: further ones are kept with others"
            );
        }
    }

    /// Brings to disk the names that have got ids, of which this is one.
    fn settle(&mut self, what: &str, name: &str) -> Result<(), NoId> {
        self.ids.settle().map_err(|error| {
            self.complain(what, name, &error);
            NoId::Store
        })
    }

    fn complain(&mut self, what: &str, name: &str, error: &IdsError) {
        // A full disk would otherwise fill the log with every event.
        if let Some(held_back) = self.report.allow(Instant::now()) {
            tracing::error!(name, held_back, "cannot store the id of a new {what}: {error}");
        }
    }
}

/// Says which names have given their places, and for whom: one line each time, with the first of them.
fn report_gone(what: &str, newcomer: &str, gone: &[Gone]) {
    const SHOWN: usize = 8;
    let shown: Vec<String> = gone
        .iter()
        .take(SHOWN)
        .map(|Gone { id, name, idle }| format!("{name} (id {id}, unused for {})", words(*idle)))
        .collect();
    let more = match gone.len() {
        0..=SHOWN => String::new(),
        many => format!(" and {} more", many - SHOWN),
    };
    tracing::info!("names of {what}s are full: {}{more} make room for {newcomer}", shown.join(", "));
}

/// A time in its largest unit.
fn words(time: Duration) -> String {
    let seconds = time.as_secs();
    let unit = [(86_400, "days"), (3600, "hours"), (60, "minutes")]
        .into_iter()
        .find(|(unit, _)| seconds >= 2 * unit);
    match unit {
        Some((unit, name)) => format!("{} {name}", seconds / unit),
        None => format!("{seconds} s"),
    }
}
