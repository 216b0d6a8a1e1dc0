//! Instance profiles: which instances a client wants (`docs/pcp/wire.md` 9, `pmAddProfile(3)`).

use super::{InDom, Inst, PmError};

/// Whether instances are in or out unless listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ProfileState {
    /// All but the listed.
    #[default]
    Include,
    /// Only the listed.
    Exclude,
}

/// The choice for one instance domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndomProfile {
    /// The instance domain.
    pub indom: InDom,
    /// What holds for instances that are not in `instances`.
    pub state: ProfileState,
    /// The exceptions to `state`.
    pub instances: Vec<Inst>,
}

/// A client context's instance profile. The default includes everything.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Profile {
    /// What holds for instance domains that are not listed.
    pub state: ProfileState,
    /// The listed instance domains, as they came.
    pub indoms: Vec<IndomProfile>,
}

impl Profile {
    /// Sorts the lists of instances, which is all the same to their meaning: asking takes logarithmic time then,
    /// however long a list a client has sent.
    pub fn sort(&mut self) {
        self.indoms.iter_mut().for_each(|indom| indom.instances.sort_unstable());
    }

    /// Wants instances of a domain as well: all of them without a list; with one, those, and of a domain not yet
    /// mentioned only those. Without a domain, wants everything (`pmAddProfile(3)`).
    ///
    /// # Errors
    /// `PM_ERR_PROFILESPEC` for a list without a domain.
    pub fn add(&mut self, indom: InDom, instances: &[Inst]) -> Result<(), PmError> {
        self.change(indom, instances, ProfileState::Include)
    }

    /// Does not want instances of a domain any more: none without a list; with one, all but those. Of a domain
    /// not yet mentioned nothing is wanted then, whatever the list, as in PCP. Without a domain, wants nothing
    /// (`pmDelProfile(3)`).
    ///
    /// # Errors
    /// `PM_ERR_PROFILESPEC` for a list without a domain.
    pub fn delete(&mut self, indom: InDom, instances: &[Inst]) -> Result<(), PmError> {
        self.change(indom, instances, ProfileState::Exclude)
    }

    /// Brings all instances of a domain, or those listed, into a state.
    fn change(&mut self, indom: InDom, instances: &[Inst], to: ProfileState) -> Result<(), PmError> {
        if indom == InDom::NULL {
            if !instances.is_empty() {
                return Err(PmError::PROFILESPEC);
            }
            *self = Profile { state: to, indoms: Vec::new() };
            return Ok(());
        }
        let Some(entry) = self.indoms.iter_mut().find(|entry| entry.indom == indom) else {
            let (state, listed) = match to {
                ProfileState::Include if !instances.is_empty() => (ProfileState::Exclude, instances),
                state => (state, &[][..]),
            };
            self.indoms.push(IndomProfile { indom, state, instances: listed.to_vec() });
            return Ok(());
        };
        if instances.is_empty() {
            (entry.state, entry.instances) = (to, Vec::new());
        } else if entry.state == to {
            entry.instances.retain(|inst| !instances.contains(inst));
        } else {
            for &inst in instances {
                if !entry.instances.contains(&inst) {
                    entry.instances.push(inst);
                }
            }
        }
        Ok(())
    }

    /// The part of the profile for one instance domain. Ask it once per metric, then for each instance.
    pub fn of(&self, indom: InDom) -> ProfileView<'_> {
        match self.indoms.iter().find(|p| p.indom == indom) {
            Some(p) => {
                ProfileView { state: p.state, exceptions: &p.instances, sorted: p.instances.is_sorted() }
            }
            None => ProfileView { state: self.state, exceptions: &[], sorted: true },
        }
    }

    /// Whether `inst` of `indom` is wanted.
    pub fn includes(&self, indom: InDom, inst: Inst) -> bool {
        self.of(indom).includes(inst)
    }
}

/// What a [`Profile`] says about one instance domain.
#[derive(Clone, Copy, Debug)]
pub struct ProfileView<'a> {
    state: ProfileState,
    exceptions: &'a [Inst],
    sorted: bool,
}

impl ProfileView<'_> {
    /// Whether every instance is wanted.
    pub fn includes_all(&self) -> bool {
        self.state == ProfileState::Include && self.exceptions.is_empty()
    }

    /// The instances that are wanted at most, ascending, if the client has listed them and its list is sorted
    /// ([`Profile::sort`]). An instance may be there more than once.
    pub fn listed(&self) -> Option<&[Inst]> {
        (self.state == ProfileState::Exclude && self.sorted).then_some(self.exceptions)
    }

    /// Whether `inst` is wanted. Linear in the length of the client's list unless it is sorted
    /// ([`Profile::sort`]).
    pub fn includes(&self, inst: Inst) -> bool {
        let listed = match self.sorted {
            true => self.exceptions.binary_search(&inst).is_ok(),
            false => self.exceptions.contains(&inst),
        };
        match self.state {
            ProfileState::Include => !listed,
            ProfileState::Exclude => listed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listed_instances_are_the_exceptions() {
        let indom = InDom::new(29, 2);
        let only = |state, instances: &[Inst]| Profile {
            state: ProfileState::Include,
            indoms: vec![IndomProfile { indom, state, instances: instances.to_vec() }],
        };
        assert_eq!(only(ProfileState::Exclude, &[100, 200]).of(indom).listed(), Some(&[100, 200][..]));
        assert_eq!(only(ProfileState::Exclude, &[200, 100]).of(indom).listed(), None);
        assert_eq!(only(ProfileState::Include, &[100]).of(indom).listed(), None);
        assert!(only(ProfileState::Exclude, &[100]).includes(indom, 100));
        assert!(!only(ProfileState::Exclude, &[100]).includes(indom, 200));
        assert!(!only(ProfileState::Include, &[100]).includes(indom, 100));
        assert!(only(ProfileState::Include, &[100]).includes(indom, 200));
        assert!(only(ProfileState::Include, &[]).of(indom).includes_all());
        assert!(!only(ProfileState::Exclude, &[]).includes(indom, 1));
        let none = Profile { state: ProfileState::Exclude, indoms: vec![] };
        assert!(!none.includes(indom, 1));
        assert!(Profile::default().includes(indom, 1));
        let mut mixed = only(ProfileState::Exclude, &[9, 3, 7, 3]);
        let wanted =
            |profile: &Profile| (0..12).filter(|inst| profile.includes(indom, *inst)).collect::<Vec<_>>();
        assert_eq!(wanted(&mixed), [3, 7, 9]);
        mixed.sort();
        assert_eq!(wanted(&mixed), [3, 7, 9]);
    }

    /// The table of `docs/pcp/fetchgroup.md` 24.
    #[test]
    fn adding_and_deleting_is_as_in_pcp() {
        let indom = InDom::new(29, 2);
        let of = |profile: &Profile| {
            profile.indoms.iter().map(|entry| (entry.state, entry.instances.clone())).collect::<Vec<_>>()
        };
        let mut profile = Profile::default();
        assert_eq!(profile.add(InDom::NULL, &[1]), Err(PmError::PROFILESPEC));
        assert_eq!(profile.delete(InDom::NULL, &[1]), Err(PmError::PROFILESPEC));
        profile.add(indom, &[1, 1, 2]).unwrap();
        assert_eq!(of(&profile), [(ProfileState::Exclude, vec![1, 1, 2])]);
        profile.add(indom, &[2, 3]).unwrap();
        assert_eq!(of(&profile), [(ProfileState::Exclude, vec![1, 1, 2, 3])]);
        profile.delete(indom, &[1]).unwrap();
        assert_eq!(of(&profile), [(ProfileState::Exclude, vec![2, 3])]);
        profile.add(indom, &[]).unwrap();
        profile.delete(indom, &[5, 6, 5]).unwrap();
        assert_eq!(of(&profile), [(ProfileState::Include, vec![5, 6])]);
        profile.add(indom, &[6]).unwrap();
        assert_eq!(of(&profile), [(ProfileState::Include, vec![5])]);
        profile.delete(indom, &[]).unwrap();
        assert_eq!(of(&profile), [(ProfileState::Exclude, vec![])]);
        profile.delete(InDom::new(29, 3), &[7]).unwrap();
        assert_eq!(of(&profile).last(), Some(&(ProfileState::Exclude, vec![])));
        profile.delete(InDom::NULL, &[]).unwrap();
        assert_eq!(profile, Profile { state: ProfileState::Exclude, indoms: vec![] });
        profile.add(InDom::NULL, &[]).unwrap();
        assert_eq!(profile, Profile::default());
    }
}
