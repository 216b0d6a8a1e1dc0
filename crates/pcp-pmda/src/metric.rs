//! An agent's own metrics: descriptor, and how values are got and stored.

use super::call::{Access, Call};
use super::row::Row;
use super::set::SetWriter;
use pcp_model::{Inst, PmError, Semantics, Units, Value, ValueType};

/// Writes the values of these instances, one after the other ([`Metric::each`]).
pub type EachFn<S> = Box<dyn Fn(&mut S, &Call<'_>, &[Inst], &mut SetWriter<'_>)>;
/// Writes a metric's whole value set.
pub type SetFn<S> = Box<dyn Fn(&mut S, &Call<'_>, &mut SetWriter<'_>) -> Result<(), PmError>>;
/// Stores one instance's value, which has the metric's type. What is stored into event metrics is text
/// ([`Value::String`]) about the events, such as a filter; its instance may be `PM_IN_NULL`, meaning all.
pub type StoreFn<S> = Box<dyn Fn(&mut S, &Call<'_>, Inst, &Value) -> Result<(), PmError>>;

/// How the values of a metric are got.
pub enum Fetch<S> {
    /// Never a value of its own: descriptors of event parameters. Fetching gives no values, and no error.
    None,
    /// Asked for the one value of a singular metric (instance [`pcp_model::PM_IN_NULL`]), else for those of the
    /// instances that the client's profile includes, in the order of the instance domain. An instance with an error is
    /// left out; if there is no value at all, the last answer is the metric's (`docs/pcp/agent.md` 16).
    Each(EachFn<S>),
    /// Writes all values itself, minding the profile. An error replaces whatever was written.
    Set(SetFn<S>),
}

/// One metric. Its PMID comes from the name space, its help from the help text, both found by the name.
pub struct Metric<S> {
    /// Full name, `agent.group.leaf`.
    pub name: String,
    /// Type of every value.
    pub value_type: ValueType,
    /// Serial of the instance domain; `None` for a singular metric.
    pub indom: Option<u32>,
    /// Behaviour over time.
    pub semantics: Semantics,
    /// Dimension and scale.
    pub units: Units,
    /// How values are got.
    pub fetch: Fetch<S>,
    /// How values are stored. Without it the metric is read-only (`PM_ERR_PERMISSION`).
    pub store: Option<StoreFn<S>>,
    /// Who may store.
    pub access: Access,
    /// Whether `store` is also called for instances that do not exist.
    pub any_instance: bool,
}

impl<S> Metric<S> {
    /// A singular, instantaneous, read-only metric without dimension or values. The other methods change that.
    pub fn new(name: impl Into<String>, value_type: ValueType) -> Metric<S> {
        Metric {
            name: name.into(),
            value_type,
            indom: None,
            semantics: Semantics::Instant,
            units: Units::NONE,
            fetch: Fetch::None,
            store: None,
            access: Access::Anyone,
            any_instance: false,
        }
    }

    /// Values only grow.
    pub fn counter(mut self) -> Metric<S> {
        self.semantics = Semantics::Counter;
        self
    }

    /// Values rarely change.
    pub fn discrete(mut self) -> Metric<S> {
        self.semantics = Semantics::Discrete;
        self
    }

    /// Dimension and scale.
    pub fn units(mut self, units: Units) -> Metric<S> {
        self.units = units;
        self
    }

    /// One value per instance of the instance domain with this serial.
    pub fn indom(mut self, serial: u32) -> Metric<S> {
        self.indom = Some(serial);
        self
    }

    /// The value of a singular metric.
    pub fn value<V: Into<Value>>(self, value: impl Fn(&mut S) -> V + 'static) -> Metric<S> {
        self.each(move |state, _, _| Ok(Some(value(state).into())))
    }

    /// A value for each instance ([`Fetch::Each`]); `Ok(None)` means it has none now.
    pub fn each(
        mut self,
        each: impl Fn(&mut S, &Call<'_>, Inst) -> Result<Option<Value>, PmError> + 'static,
    ) -> Metric<S> {
        // The loop is part of what is called through a pointer: once for a metric and not for each value, which is then
        // made and written in one piece of code.
        self.fetch = Fetch::Each(Box::new(move |state, call, insts, set| {
            if Row::is_worth(insts.len(), set) {
                let mut row = Row::new();
                for &inst in insts {
                    match each(state, call, inst) {
                        Ok(Some(value)) => row.value(set, inst, &value),
                        Ok(None) => row.none(set, None),
                        Err(error) => row.none(set, Some(error)),
                    }
                }
                return row.end(set);
            }
            for &inst in insts {
                match each(state, call, inst) {
                    // A value of another type is noted as the instance's error.
                    Ok(Some(value)) => drop(set.value(inst, &value)),
                    Ok(None) => set.no_value(),
                    Err(error) => set.error(error),
                }
            }
        }));
        self
    }

    /// The whole value set at once ([`Fetch::Set`]).
    pub fn set(
        mut self,
        set: impl Fn(&mut S, &Call<'_>, &mut SetWriter<'_>) -> Result<(), PmError> + 'static,
    ) -> Metric<S> {
        self.fetch = Fetch::Set(Box::new(set));
        self
    }

    /// Makes the metric storable. The callback gets values of the metric's type, for instances that exist.
    pub fn store(
        mut self,
        store: impl Fn(&mut S, &Call<'_>, Inst, &Value) -> Result<(), PmError> + 'static,
    ) -> Metric<S> {
        self.store = Some(Box::new(store));
        self
    }

    /// Lets clients store to instances that do not exist (yet): the callback has to look at the instance.
    pub fn any_instance(mut self) -> Metric<S> {
        self.any_instance = true;
        self
    }

    /// Restricts who may store.
    pub fn access(mut self, access: Access) -> Metric<S> {
        self.access = access;
        self
    }
}
