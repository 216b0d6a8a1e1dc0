//! Instance domains: fixed, persistent, or kept in the agent's state.

use std::path::Path;

use pcp_ids::{IdMap, IdsError, MAX_ID};
use pcp_model::{InDom, Inst, PmError};

/// The instances of a domain: which ids exist, under which names, and which of them are there now.
///
/// **Invariant:** an id never changes its name, within a run and (if persistent) across runs. Hiding an
/// instance only takes it out of listings and fetches; the same name comes back under the same id.
#[derive(Debug)]
pub struct Instances {
    ids: IdMap,
    /// Ids of the instances that are there now, ascending.
    active: Vec<Inst>,
}

impl Instances {
    /// No instances yet, ids handed out in order and forgotten at exit.
    pub fn in_memory() -> Instances {
        Instances { ids: IdMap::in_memory(), active: Vec::new() }
    }

    /// Ids kept in the file `<dir>/<domain>.<serial>` (`docs/pcp/agent.md` 17). The names on file are known but
    /// hidden until they are added again.
    ///
    /// # Errors
    /// Those of [`IdMap::load`].
    pub fn persistent(dir: &Path, indom: InDom) -> Result<Instances, IdsError> {
        Ok(Instances::with_ids(IdMap::load(Some(&dir.join(indom.to_string())), MAX_ID)?))
    }

    /// Over an id map of one's own making; all its names start hidden.
    pub fn with_ids(ids: IdMap) -> Instances {
        Instances { ids, active: Vec::new() }
    }

    /// Makes `name` an instance that is there, giving it an id if it never had one.
    ///
    /// # Errors
    /// Those of [`IdMap::get_or_add`].
    pub fn add(&mut self, name: &str) -> Result<Inst, IdsError> {
        let id = self.ids.get_or_add(name)?;
        if let Err(at) = self.active.binary_search(&id) {
            self.ids.mark_used(id);
            self.active.insert(at, id);
        }
        Ok(id)
    }

    /// Makes `name` an instance under a fixed id.
    ///
    /// # Errors
    /// Those of [`IdMap::reserve`].
    pub fn add_as(&mut self, id: Inst, name: &str) -> Result<(), IdsError> {
        self.ids.reserve(id, name)?;
        if let Err(at) = self.active.binary_search(&id) {
            self.active.insert(at, id);
        }
        Ok(())
    }

    /// Takes an instance out of listings and fetches. Its id stays taken.
    pub fn hide(&mut self, inst: Inst) {
        if let Ok(at) = self.active.binary_search(&inst) {
            self.ids.mark_used(inst);
            self.active.remove(at);
        }
    }

    /// Takes out an instance that will not come back, such as one for each connection. In a domain on
    /// file it is only hidden: an id there must never mean another name.
    pub fn forget(&mut self, inst: Inst) {
        self.hide(inst);
        self.ids.forget(inst);
    }

    /// Takes out many at once, as [`Instances::forget`] does; `insts` are ascending. One pass, however many.
    pub fn forget_all(&mut self, insts: &[Inst]) {
        debug_assert!(insts.is_sorted(), "they are looked up by halves");
        insts.iter().for_each(|&inst| self.ids.mark_used(inst));
        self.active.retain(|inst| insts.binary_search(inst).is_err());
        self.ids.forget_all(insts);
    }

    /// The ids of the instances that are there, ascending.
    pub fn active(&self) -> &[Inst] {
        &self.active
    }

    /// Ids and names of the instances that are there, in ascending order of id.
    pub fn iter(&self) -> impl Iterator<Item = (Inst, &str)> {
        self.active.iter().filter_map(|&id| Some((id, self.ids.name(id)?)))
    }

    /// Whether `inst` is there.
    pub fn contains(&self, inst: Inst) -> bool {
        self.active.binary_search(&inst).is_ok()
    }

    /// The name of an instance that is there.
    pub fn name(&self, inst: Inst) -> Option<&str> {
        if self.contains(inst) { self.ids.name(inst) } else { None }
    }

    /// The instance a client means by `name`: the whole name, or, when `name` has no blank, a name's part
    /// before its first blank (`docs/pcp/agent.md` 16).
    ///
    /// # Errors
    /// `PM_ERR_INST` for the empty name and for no match.
    pub fn find(&self, name: &str) -> Result<Inst, PmError> {
        match self.ids.get(name) {
            Some(id) if self.contains(id) => return Ok(id),
            // With a blank it was meant whole.
            _ if name.is_empty() || name.contains(' ') => return Err(PmError::INST),
            _ => {}
        }
        self.iter()
            .find(|(_, full)| full.split(' ').next() == Some(name))
            .map_or(Err(PmError::INST), |(id, _)| Ok(id))
    }

    /// The names and ids beneath, hidden ones included.
    pub fn ids(&self) -> &IdMap {
        &self.ids
    }

    /// Writes last-used times to the file ([`IdMap::save`]).
    ///
    /// # Errors
    /// Those of [`IdMap::save`].
    pub fn save(&mut self) -> Result<(), IdsError> {
        for index in 0..self.active.len() {
            self.ids.mark_used(self.active[index]);
        }
        self.ids.save()
    }
}

pub(super) type Locate<S> = Box<dyn Fn(&S) -> &Instances>;
pub(super) type Refresh<S> = Box<dyn Fn(&mut S)>;

/// An instance domain of an agent.
pub struct Indom<S> {
    /// Its number within the agent.
    pub serial: u32,
    pub(super) instances: Where<S>,
    pub(super) refresh: Option<Refresh<S>>,
}

pub(super) enum Where<S> {
    Fixed(Box<Instances>),
    State(Locate<S>),
}

impl<S> Indom<S> {
    /// A domain that never changes.
    ///
    /// # Errors
    /// [`IdsError`] when an id or name occurs twice.
    pub fn fixed<'a>(
        serial: u32,
        instances: impl IntoIterator<Item = (Inst, &'a str)>,
    ) -> Result<Indom<S>, IdsError> {
        let mut table = Instances::in_memory();
        for (id, name) in instances {
            table.add_as(id, name)?;
        }
        Ok(Indom { serial, instances: Where::Fixed(Box::new(table)), refresh: None })
    }

    /// A domain whose instances live in the agent's state, where callbacks can add and hide them.
    pub fn of(serial: u32, instances: impl Fn(&S) -> &Instances + 'static) -> Indom<S> {
        Indom { serial, instances: Where::State(Box::new(instances)), refresh: None }
    }

    /// Calls `refresh` before each use of the domain (once per metric fetched, instance or label request), to
    /// bring the instances up to date.
    pub fn refreshed_by(mut self, refresh: impl Fn(&mut S) + 'static) -> Indom<S> {
        self.refresh = Some(Box::new(refresh));
        self
    }

    /// Brings the domain up to date and gives its instances.
    pub(super) fn instances<'a>(&'a self, state: &'a mut S) -> &'a Instances {
        if let Some(refresh) = &self.refresh {
            refresh(state);
        }
        match &self.instances {
            Where::Fixed(instances) => instances,
            Where::State(locate) => locate(state),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_instances_keep_their_ids() {
        let mut instances = Instances::in_memory();
        assert_eq!(instances.add("a").unwrap(), 0);
        assert_eq!(instances.add("b").unwrap(), 1);
        instances.hide(0);
        assert_eq!(instances.iter().collect::<Vec<_>>(), [(1, "b")]);
        assert_eq!(instances.name(0), None);
        assert_eq!(instances.find("a"), Err(PmError::INST));
        assert_eq!(instances.add("c").unwrap(), 2);
        assert_eq!(instances.add("a").unwrap(), 0);
        assert_eq!(instances.active(), [0, 1, 2]);
    }

    #[test]
    fn forgotten_instances_leave_nothing_behind_unless_on_file() {
        let mut instances = Instances::in_memory();
        instances.add_as(7, "passing").unwrap();
        instances.forget(7);
        assert!(instances.ids().is_empty());
        instances.add_as(8, "passing").unwrap();

        let dir = tempfile::tempdir().unwrap();
        let mut instances = Instances::persistent(dir.path(), InDom::new(250, 4)).unwrap();
        let id = instances.add("kept").unwrap();
        instances.forget(id);
        assert_eq!((instances.name(id), instances.ids().name(id)), (None, Some("kept")));
    }

    #[test]
    fn names_match_whole_or_up_to_their_first_blank() {
        let mut instances = Instances::in_memory();
        instances.add_as(5, "one minute").unwrap();
        instances.add_as(3, "one").unwrap();
        instances.add_as(9, "two minutes ago").unwrap();
        assert_eq!(instances.find("one"), Ok(3));
        assert_eq!(instances.find("two"), Ok(9));
        assert_eq!(instances.find("two minutes ago"), Ok(9));
        assert_eq!(instances.find("two minutes"), Err(PmError::INST));
        assert_eq!(instances.find(""), Err(PmError::INST));
        assert_eq!(instances.find("t"), Err(PmError::INST));
    }

    #[test]
    fn persistent_instances_come_back_under_their_ids() {
        let dir = tempfile::tempdir().unwrap();
        let indom = InDom::new(250, 3);
        let mut first = Instances::persistent(dir.path(), indom).unwrap();
        first.add("x").unwrap();
        first.add("y").unwrap();
        first.save().unwrap();
        drop(first);
        let mut second = Instances::persistent(dir.path(), indom).unwrap();
        assert!(second.active().is_empty());
        assert_eq!(second.add("y").unwrap(), 1);
        assert_eq!(second.add("z").unwrap(), 2);
        assert!(dir.path().join("250.3").exists());
    }
}
