//! Which source's spans call which other's: pairs `a->b`, over all sources.
//!
//! A call is two spans of one trace: that of the caller, and that of the called one, whose parent it is. They end, and come, in any
//! order and from different senders, so each waits for the other. A span calls if its `kind` is `client` or `producer`, and is called
//! if that is `server` or `consumer`; one without such a word does either, but within its own source neither.
//!
//! **Bounds:** `max_pending` spans that wait to be called by somebody, and as many that may have called somebody, about 100 bytes each, the oldest of
//! which give way; of those that wait, [`SIBLINGS`] have the same parent; `max_edges` pairs. Keys are hashes of trace and span ids with
//! a key of this process.
//!
//! **Cost:** one entry that goes when its time is over, and one look-up for a span that can only be called, [`SIBLINGS`] for one that
//! can call.

use rustc_hash::FxHashMap;

use super::arrivals::Arrivals;
use super::namer::{Namer, Ticket};
use super::times::{between, nanos};
use crate::config::ServiceMapConfig;
use pcp_model::{Inst, Timestamp};
use pcp_pmda::Instances;

/// Most spans that are given up at once, so that no batch waits long for it.
const GIVEN_UP_AT_ONCE: usize = 1024;
/// Most children that wait for the same parent.
const SIBLINGS: u64 = 8;
/// The pair that stands for all beyond `max_edges`.
const OTHER: (Inst, Inst) = (-1, -1);

/// What a span's `kind` says of calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Role {
    /// Nothing.
    #[default]
    Any,
    Client,
    Producer,
    Server,
    Consumer,
    /// It neither calls nor is called.
    Internal,
}

impl Role {
    pub(super) fn of(kind: &[u8]) -> Role {
        match kind {
            b"client" => Role::Client,
            b"producer" => Role::Producer,
            b"server" => Role::Server,
            b"consumer" => Role::Consumer,
            b"internal" => Role::Internal,
            _ => Role::Any,
        }
    }

    fn calls(self) -> bool {
        matches!(self, Role::Any | Role::Client | Role::Producer)
    }

    fn is_called(self) -> bool {
        matches!(self, Role::Any | Role::Server | Role::Consumer)
    }
}

/// A span that has ended, as far as calls go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Side {
    pub source: Inst,
    /// Its trace and its own id; `None`: without a trace nothing can be told.
    pub own: Option<u64>,
    /// Its trace and its parent's id.
    pub parent: Option<u64>,
    pub role: Role,
    pub began: Timestamp,
    pub ended: Timestamp,
    pub nanos: u64,
    pub failed: bool,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    side: Side,
    arrived: u64,
    /// Somebody has come for it.
    is_met: bool,
}

/// A pair of services.
#[derive(Clone, Debug, Default)]
pub(crate) struct Edge {
    /// Calls.
    pub calls: u64,
    /// Of these, those of which either side says that it failed.
    pub errors: u64,
    /// How long callers waited, in nanoseconds.
    pub time: u64,
    /// How long the called ones took, in nanoseconds.
    pub called_time: u64,
    /// Calls of which the called one is outside its caller, by their times.
    pub skewed: u64,
    /// Its instance, once it has a name.
    inst: Option<Inst>,
    /// The question for its name; 0: none is open, and its next call asks if there is no instance by then.
    turn: u32,
}

/// The map.
#[derive(Debug)]
pub(crate) struct ServiceMap {
    pub config: ServiceMapConfig,
    /// The instance domain of pairs.
    pub instances: Instances,
    /// Spans that are called, and whose caller did not come in time or had no place.
    pub orphans: u64,
    /// The same of spans that call: nobody was called, as far as was seen.
    pub unanswered: u64,
    /// Of both, those that gave way before their time, as too many waited.
    pub overflow: u64,
    /// Calls of pairs beyond the number.
    pub folded: u64,
    /// Instances that have gone.
    pub gone: u64,
    /// By their own ids.
    callers: Arrivals<Waiting>,
    /// By the ids of their parents, as [`sibling`] has them.
    called: Arrivals<Waiting>,
    edges: FxHashMap<(Inst, Inst), Edge>,
    by_inst: FxHashMap<Inst, (Inst, Inst)>,
    asked: FxHashMap<u32, (Inst, Inst)>,
    turn: u32,
    namer: Namer,
}

impl ServiceMap {
    pub(super) fn new(config: ServiceMapConfig) -> ServiceMap {
        ServiceMap {
            config,
            instances: Instances::in_memory(),
            orphans: 0,
            unanswered: 0,
            overflow: 0,
            folded: 0,
            gone: 0,
            callers: Arrivals::default(),
            called: Arrivals::default(),
            edges: FxHashMap::default(),
            by_inst: FxHashMap::default(),
            asked: FxHashMap::default(),
            turn: 0,
            namer: Namer::in_memory(),
        }
    }

    /// Has names put on file from now on. Before there are any pairs.
    pub(crate) fn name_by(&mut self, namer: Namer) {
        debug_assert!(self.edges.is_empty(), "names in memory are none");
        self.namer = namer;
    }

    /// The pair of an instance: caller, called, and their figures.
    pub(crate) fn get(&self, inst: Inst) -> Option<((Inst, Inst), &Edge)> {
        let pair = *self.by_inst.get(&inst)?;
        Some((pair, self.edges.get(&pair)?))
    }

    /// Whether a pair is the one for all that have none of their own.
    pub(crate) fn is_other(pair: (Inst, Inst)) -> bool {
        pair == OTHER
    }

    /// Spans that wait, of either kind.
    pub(crate) fn pending(&self) -> usize {
        self.callers.len() + self.called.len()
    }

    /// Takes in a span that has ended. `name` gives the name of a source for a pair that is new.
    pub(super) fn ended<'a>(&mut self, side: Side, now: u64, name: impl Fn(Inst) -> Option<&'a str>) {
        let waiting = Waiting { side, arrived: now, is_met: false };
        if side.role.is_called()
            && let Some(parent) = side.parent
        {
            let caller = self.callers.get_mut(parent).filter(|caller| is_call(&caller.side, &side));
            match caller {
                Some(caller) => {
                    caller.is_met = true;
                    let caller = caller.side;
                    self.call(&caller, &side, &name);
                }
                None => self.wait_for(parent, waiting),
            }
        }
        if side.role.calls()
            && let Some(own) = side.own
        {
            let is_met = self.call_waiting(own, &side, &name);
            if let Some(before) = self.callers.insert(own, Waiting { is_met, ..waiting }) {
                self.unanswered += u64::from(!before.is_met);
            }
        }
        self.make_room();
    }

    /// Has a child wait for its parent; as an orphan, if too many of that parent do already.
    fn wait_for(&mut self, parent: u64, child: Waiting) {
        let Some(free) = siblings(parent).find(|key| self.called.get_mut(*key).is_none()) else {
            self.orphans += 1;
            return;
        };
        self.called.insert(free, child);
    }

    /// Counts the calls of a parent that has ended to children that wait for it: all places, as those before may be free again.
    /// Whether there were any.
    fn call_waiting<'a>(&mut self, own: u64, side: &Side, name: &impl Fn(Inst) -> Option<&'a str>) -> bool {
        let mut is_met = false;
        for key in siblings(own) {
            let Some(called) = self.called.get_mut(key).map(|called| called.side) else { continue };
            if is_call(side, &called) {
                self.called.remove(key);
                self.call(side, &called, name);
                is_met = true;
            }
        }
        is_met
    }

    fn make_room(&mut self) {
        let most = self.config.max_pending as usize;
        if self.called.len() > most && self.called.pop_oldest().is_some() {
            (self.orphans, self.overflow) = (self.orphans + 1, self.overflow + 1);
        }
        if self.callers.len() > most
            && let Some(caller) = self.callers.pop_oldest()
        {
            // It may have called somebody else, too, but there is nothing lost for sure.
            self.unanswered += u64::from(!caller.is_met);
            self.overflow += u64::from(!caller.is_met);
        }
    }

    /// Gives up on what has waited for too long; a part of it, if there is much.
    pub(crate) fn expire(&mut self, now: u64) {
        let wait = nanos(self.config.wait.0);
        let is_over = |waiting: &Waiting| now.saturating_sub(waiting.arrived) > wait;
        for _ in 0..GIVEN_UP_AT_ONCE {
            if !self.called.oldest().is_some_and(is_over) || self.called.pop_oldest().is_none() {
                break;
            }
            self.orphans += 1;
        }
        for _ in 0..GIVEN_UP_AT_ONCE {
            let Some(caller) = self.callers.oldest().copied().filter(is_over) else { break };
            self.callers.pop_oldest();
            self.unanswered += u64::from(!caller.is_met);
        }
        // After a reload with a smaller number.
        for _ in 0..GIVEN_UP_AT_ONCE {
            if self.callers.len().max(self.called.len()) <= self.config.max_pending as usize {
                break;
            }
            self.make_room();
        }
    }

    fn call<'a>(&mut self, caller: &Side, called: &Side, name: &impl Fn(Inst) -> Option<&'a str>) {
        let mut pair = (caller.source, called.source);
        if !self.edges.contains_key(&pair) {
            let is_full = self.edges.len()
                >= self.config.max_edges as usize + usize::from(self.edges.contains_key(&OTHER));
            if is_full {
                pair = OTHER;
            }
        }
        self.folded += u64::from(pair == OTHER);
        let tolerance = nanos(self.config.tolerance.0);
        let edge = self.edges.entry(pair).or_default();
        edge.calls += 1;
        edge.errors += u64::from(caller.failed || called.failed);
        edge.time = edge.time.wrapping_add(caller.nanos);
        edge.called_time = edge.called_time.wrapping_add(called.nanos);
        edge.skewed += u64::from(is_skewed(caller, called, tolerance));
        if edge.inst.is_none() && edge.turn == 0 {
            self.ask(pair, name);
        }
    }

    /// Asks for the instance of a pair. Without a name, as a source may be gone, or an answer to come there is no question.
    fn ask<'a>(&mut self, pair: (Inst, Inst), name: &impl Fn(Inst) -> Option<&'a str>) {
        let text = match pair {
            OTHER => Some("(other)".to_owned()),
            (caller, called) => name(caller).and_then(|caller| Some(format!("{caller}->{}", name(called)?))),
        };
        let (Some(text), Some(edge)) = (text, self.edges.get_mut(&pair)) else { return };
        // Never 0, which is no question.
        self.turn = self.turn.wrapping_add(1).max(1);
        if self.namer.ask(Ticket { place: 0, turn: self.turn }, text) {
            edge.turn = self.turn;
            self.asked.insert(self.turn, pair);
        }
    }

    /// Takes in the names that are on file by now.
    pub(crate) fn take_names(&mut self) {
        while let Some(told) = self.namer.told() {
            let Some(pair) = self.asked.remove(&told.ticket.turn) else { continue };
            let edge = self.edges.get_mut(&pair).filter(|edge| edge.turn == told.ticket.turn);
            let Some(edge) = edge else { continue };
            // Where it gets none, be it that the instance is still that of a source that goes, the next call asks anew.
            edge.turn = 0;
            if let Some(inst) = told.inst
                && !self.by_inst.contains_key(&inst)
                && self.instances.add_as(inst, &told.name).is_ok()
            {
                edge.inst = Some(inst);
                self.by_inst.insert(inst, pair);
            }
        }
    }

    /// A source has given its place to a newcomer: pairs with it go.
    pub(crate) fn source_gone(&mut self, source: Inst) {
        let mut gone = Vec::new();
        self.edges.retain(|(caller, called), edge| {
            let stays = *caller != source && *called != source;
            if !stays {
                gone.extend(edge.inst);
            }
            stays
        });
        gone.sort_unstable();
        gone.iter().for_each(|inst| {
            self.by_inst.remove(inst);
        });
        self.instances.forget_all(&gone);
        self.gone += gone.len() as u64;
    }
}

/// The keys under which the children of a parent wait. Far apart, so that no other parent's are among them.
fn siblings(parent: u64) -> impl Iterator<Item = u64> {
    (0..SIBLINGS).map(move |nth| sibling(parent, nth))
}

fn sibling(parent: u64, nth: u64) -> u64 {
    parent.wrapping_add(nth.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// Whether a span that could have called another one did so by the kinds of both. Where neither says what it is, parts of one
/// service are nothing that calls.
fn is_call(caller: &Side, called: &Side) -> bool {
    caller.source != called.source || (caller.role != Role::Any && called.role != Role::Any)
}

/// Whether the called one begins before its caller, or ends after it though the caller waits for it.
fn is_skewed(caller: &Side, called: &Side, tolerance: u64) -> bool {
    let is_early = between(called.began, caller.began).is_some_and(|early| early > tolerance);
    let waits = caller.role == Role::Client && called.role == Role::Server;
    is_early || (waits && between(caller.ended, called.ended).is_some_and(|late| late > tolerance))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jumpseat_source::Interval;
    use proptest::prelude::*;

    use super::*;

    fn name(source: Inst) -> Option<&'static str> {
        ["web", "shop", "db"].get(source as usize).copied()
    }

    fn map(max_pending: u32, max_edges: u32) -> ServiceMap {
        let wait = Interval(Duration::from_secs(1));
        ServiceMap::new(ServiceMapConfig { enabled: true, wait, max_pending, max_edges, ..<_>::default() })
    }

    fn side(source: Inst, own: u64, parent: Option<u64>, role: Role) -> Side {
        let at = |millis: i128| Timestamp::from_nanos(millis * 1_000_000);
        Side {
            source,
            own: Some(own),
            parent,
            role,
            began: at(100),
            ended: at(200),
            nanos: 100,
            failed: false,
        }
    }

    fn told(map: &mut ServiceMap) -> Vec<(String, u64, u64)> {
        map.take_names();
        let edge = |(inst, name): (Inst, &str)| {
            let (_, edge) = map.get(inst).expect("it has figures");
            (name.to_owned(), edge.calls, edge.skewed)
        };
        map.instances.iter().map(edge).collect()
    }

    #[test]
    fn calls_are_found_in_whatever_order_spans_end() {
        for called_first in [false, true] {
            let mut map = map(10, 10);
            let mut sides = [side(0, 1, None, Role::Client), side(1, 2, Some(1), Role::Server)];
            if called_first {
                sides.reverse();
            }
            sides.into_iter().for_each(|side| map.ended(side, 0, name));
            assert_eq!(told(&mut map), [("web->shop".to_owned(), 1, 0)]);
            map.expire(2_000_000_000);
            assert_eq!((map.pending(), map.orphans, map.unanswered), (0, 0, 0));
        }
    }

    #[test]
    fn parts_of_a_service_call_nobody_unless_they_say_so() {
        let mut map = map(10, 10);
        map.ended(side(0, 1, None, Role::Any), 0, name);
        map.ended(side(0, 2, Some(1), Role::Any), 0, name);
        map.ended(side(0, 3, Some(1), Role::Internal), 0, name);
        assert_eq!(told(&mut map), []);
        map.ended(side(1, 4, Some(2), Role::Any), 0, name);
        map.ended(side(2, 5, None, Role::Client), 0, name);
        map.ended(side(2, 6, Some(5), Role::Server), 0, name);
        assert_eq!(told(&mut map), [("web->shop".to_owned(), 1, 0), ("db->db".to_owned(), 1, 0)]);
        map.expire(2_000_000_000);
        assert_eq!(
            (map.orphans, map.unanswered),
            (1, 2),
            "a child within its source; two that called nobody"
        );
    }

    #[test]
    fn clocks_that_differ_are_told() {
        let at = |millis: i128| Timestamp::from_nanos(millis * 1_000_000);
        for (began, ended, role, skewed) in [
            (95, 205, Role::Server, 0),
            (80, 150, Role::Server, 1),
            (120, 230, Role::Server, 1),
            (120, 230, Role::Consumer, 0),
        ] {
            let mut map = map(10, 10);
            map.ended(side(0, 1, None, Role::Client), 0, name);
            let called = Side { began: at(began), ended: at(ended), ..side(1, 2, Some(1), role) };
            map.ended(called, 0, name);
            assert_eq!(told(&mut map), [("web->shop".to_owned(), 1, skewed)], "{began} {ended}");
        }
    }

    #[test]
    fn pairs_beyond_the_number_are_others_and_go_with_their_source() {
        let mut map = map(10, 1);
        map.ended(side(0, 1, None, Role::Client), 0, name);
        for (source, id) in [(1, 2), (2, 3), (2, 4)] {
            map.ended(side(source, id, Some(1), Role::Server), 0, name);
        }
        assert_eq!(told(&mut map), [("web->shop".to_owned(), 1, 0), ("(other)".to_owned(), 2, 0)]);
        assert_eq!(map.folded, 2);
        map.source_gone(1);
        assert_eq!(told(&mut map), [("(other)".to_owned(), 2, 0)]);
        map.ended(side(2, 5, Some(1), Role::Server), 0, name);
        assert_eq!(told(&mut map)[1], ("web->db".to_owned(), 1, 0));
    }

    #[test]
    fn children_beyond_the_number_of_siblings_are_orphans() {
        let mut map = map(20, 10);
        for id in 2..12 {
            map.ended(side(1, id, Some(1), Role::Server), 0, name);
        }
        assert_eq!((map.called.len() as u64, map.orphans), (SIBLINGS, 2));
        map.ended(side(0, 1, None, Role::Client), 0, name);
        assert_eq!(told(&mut map), [("web->shop".to_owned(), SIBLINGS, 0)]);
        assert_eq!((map.called.len(), map.orphans, map.unanswered), (0, 2, 0));
    }

    #[test]
    fn siblings_are_found_where_the_first_of_them_has_gone() {
        let mut map = map(2, 10);
        for id in 2..5 {
            map.ended(side(1, id, Some(1), Role::Server), 0, name);
        }
        assert_eq!((map.orphans, map.overflow), (1, 1), "the first gave way");
        map.ended(side(0, 1, None, Role::Client), 0, name);
        assert_eq!(told(&mut map), [("web->shop".to_owned(), 2, 0)]);
    }

    #[test]
    fn a_pair_without_a_name_is_asked_for_with_its_next_call() {
        let mut map = map(10, 10);
        map.ended(side(0, 1, None, Role::Client), 0, name);
        map.ended(side(1, 2, Some(1), Role::Server), 0, |_| None);
        assert_eq!((told(&mut map).len(), map.edges.len(), map.asked.len()), (0, 1, 0));
        for id in 3..6 {
            map.ended(side(1, id, Some(1), Role::Server), 0, name);
            assert_eq!(map.asked.len(), 1, "one question until there is an answer");
        }
        assert_eq!(told(&mut map), [("web->shop".to_owned(), 4, 0)]);
        map.ended(side(1, 6, Some(1), Role::Server), 0, name);
        assert_eq!((map.asked.len(), map.turn), (0, 1), "it has its instance");
    }

    #[test]
    fn a_pair_gets_the_instance_that_another_one_had() {
        let mut map = map(10, 10);
        // Two sources of one name, as it is while one takes the place of the other.
        let name = |source: Inst| Some(if source == 1 { "shop" } else { "web" });
        map.ended(side(0, 1, None, Role::Client), 0, name);
        map.ended(side(2, 2, None, Role::Client), 0, name);
        for (id, parent) in [(3, 1), (4, 2), (5, 2)] {
            map.ended(side(1, id, Some(parent), Role::Server), 0, name);
        }
        assert_eq!(told(&mut map), [("web->shop".to_owned(), 1, 0)]);
        map.source_gone(0);
        assert_eq!(told(&mut map), [], "nobody has asked");
        map.ended(side(1, 6, Some(2), Role::Server), 0, name);
        assert_eq!(told(&mut map), [("web->shop".to_owned(), 3, 0)]);
    }

    #[test]
    fn a_pair_is_asked_for_again_where_the_namer_had_no_room() {
        let mut map = map(10, 10);
        let stale = Ticket { place: 0, turn: 0 };
        while map.namer.ask(stale, "stale".to_owned()) {}
        map.ended(side(0, 1, None, Role::Client), 0, name);
        map.ended(side(1, 2, Some(1), Role::Server), 0, name);
        assert_eq!((told(&mut map).len(), map.asked.len()), (0, 0));
        map.ended(side(1, 3, Some(1), Role::Server), 0, name);
        assert_eq!(told(&mut map), [("web->shop".to_owned(), 2, 0)]);
    }

    /// One that calls another source's spans three times and has a child of its own source.
    fn family() -> Vec<Side> {
        let mut family: Vec<Side> = (2..5).map(|id| side(1, id, Some(1), Role::Any)).collect();
        family.extend([side(0, 1, None, Role::Any), side(0, 5, Some(1), Role::Any)]);
        family
    }

    proptest! {
        #[test]
        fn all_calls_of_a_span_count_in_any_order(family in Just(family()).prop_shuffle()) {
            let mut map = map(20, 10);
            family.into_iter().for_each(|side| map.ended(side, 0, name));
            prop_assert_eq!(told(&mut map), [("web->shop".to_owned(), 3, 0)]);
            map.expire(2_000_000_000);
            // The child in its own source, and those that called nobody: all four children.
            prop_assert_eq!((map.orphans, map.unanswered, map.pending()), (1, 4, 0));
        }

        /// Nothing is lost without a count, and tables hold no more than they may.
        #[test]
        fn what_waits_is_bounded_and_each_span_that_is_called_is_counted_once(
            spans in prop::collection::vec((0..3_i32, 0..12_u64, 0..12_u64, any::<bool>(), 0..700_u64), 0..200),
            max_pending in 0..6_u32,
        ) {
            let mut map = map(max_pending, 100);
            let (mut now, mut called) = (0, 0);
            for (source, own, parent, calls, later) in spans {
                now += later * 1_000_000;
                map.expire(now);
                let role = if calls { Role::Client } else { Role::Server };
                called += u64::from(!calls);
                map.ended(side(source, own, (!calls).then_some(parent), role), now, name);
                prop_assert!(map.callers.len().max(map.called.len()) <= max_pending as usize);
                let calls: u64 = map.edges.values().map(|edge| edge.calls).sum();
                prop_assert_eq!(calls + map.orphans + map.called.len() as u64, called);
            }
        }
    }
}
