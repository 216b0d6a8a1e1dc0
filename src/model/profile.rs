//! Instance profiles: which instances a client wants (spec `wire.md` 9, `pmAddProfile(3)`).

use super::{InDom, Inst};

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
}
