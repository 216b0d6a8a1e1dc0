//! Registrations: finding metrics and instances, and checking what is asked of them.

use super::error::{Reason, RegisterError};
use super::event::{EventRequest, Field};
use super::fetch_group::FetchGroup;
use super::handle::{AnyType, EventHandle, IndomHandle, ItemHandle, Key, Output};
use super::indom::IndomRequest;
use super::item::Item;
use super::names::InstanceNames;
use super::scale::{IntoScale, ValueConversion};
use crate::error::ClientError;
use crate::provider::ContextKind;
use pcp_event::ArrayKind;
use pcp_model::{Desc, InDom, Inst, Pmid, Semantics, Units, ValueType};

/// # Registrations
///
/// Each looks the metric up at once; nothing is looked up again later. `max` bounds how many values are kept.
impl FetchGroup {
    /// Registers a value: a metric, and the instance if it has any (`pmExtendFetchGroup_item(3)`).
    ///
    /// # Errors
    /// Why it is refused: the checks and their order are libpcp's (`docs/pcp/fetchgroup.md` 2 and 3).
    pub fn item<T: Output>(
        &mut self,
        metric: &str,
        instance: Option<&str>,
        scale: impl IntoScale,
    ) -> Result<ItemHandle<T>, RegisterError> {
        self.add_item(metric, instance, scale, T::TYPE).map(ItemHandle::new)
    }

    /// As [`FetchGroup::item`], with an output of a type chosen when the program runs.
    ///
    /// # Errors
    /// As [`FetchGroup::item`].
    pub fn item_as(
        &mut self,
        to: ValueType,
        metric: &str,
        instance: Option<&str>,
        scale: impl IntoScale,
    ) -> Result<ItemHandle<AnyType>, RegisterError> {
        self.add_item(metric, instance, scale, Some(to)).map(ItemHandle::new)
    }

    /// Registers the values of all instances of a metric (`pmExtendFetchGroup_indom(3)`). A metric without
    /// instances has one without a name.
    ///
    /// # Errors
    /// As [`FetchGroup::item`].
    pub fn indom<T: Output>(
        &mut self,
        metric: &str,
        scale: impl IntoScale,
        max: usize,
    ) -> Result<IndomHandle<T>, RegisterError> {
        self.add_indom(metric, scale, max, T::TYPE).map(IndomHandle::new)
    }

    /// As [`FetchGroup::indom`], with outputs of a type chosen when the program runs.
    ///
    /// # Errors
    /// As [`FetchGroup::item`].
    pub fn indom_as(
        &mut self,
        to: ValueType,
        metric: &str,
        scale: impl IntoScale,
        max: usize,
    ) -> Result<IndomHandle<AnyType>, RegisterError> {
        self.add_indom(metric, scale, max, Some(to)).map(IndomHandle::new)
    }

    /// Registers a field of the records of an event metric (`pmExtendFetchGroup_event(3)`): a parameter,
    /// `event.flags` or `event.missed`.
    ///
    /// # Errors
    /// As [`FetchGroup::item`].
    pub fn event<T: Output>(
        &mut self,
        metric: &str,
        instance: Option<&str>,
        field: &str,
        scale: impl IntoScale,
        max: usize,
    ) -> Result<EventHandle<T>, RegisterError> {
        self.add_event((metric, instance), field, scale, max, T::TYPE).map(EventHandle::new)
    }

    /// As [`FetchGroup::event`], with outputs of a type chosen when the program runs.
    ///
    /// # Errors
    /// As [`FetchGroup::item`].
    pub fn event_as(
        &mut self,
        to: ValueType,
        metric: &str,
        instance: Option<&str>,
        field: &str,
        scale: impl IntoScale,
        max: usize,
    ) -> Result<EventHandle<AnyType>, RegisterError> {
        self.add_event((metric, instance), field, scale, max, Some(to)).map(EventHandle::new)
    }

    fn add_item(
        &mut self,
        name: &str,
        instance: Option<&str>,
        scale: impl IntoScale,
        to: Option<ValueType>,
    ) -> Result<Key, RegisterError> {
        let words = self.options.words;
        let found = self.find_instance(name, instance).and_then(|(desc, inst)| {
            let conversion = ValueConversion::new(&desc, to.unwrap_or(desc.value_type), scale, words)?;
            Ok((desc, inst, conversion))
        });
        let (desc, inst, conversion) = found.map_err(|reason| blame(name, reason))?;
        // Only now is the group changed: what is refused leaves no metric behind that fetches would ask for.
        let (metric, keep) = (self.metric(&desc), self.keeps(&desc));
        // Shared, so that an item stays within a cache line. Groups of thousands of items have a few conversions.
        let at = self.conversions.iter().position(|known| *known == conversion).unwrap_or_else(|| {
            self.conversions.push(conversion);
            self.conversions.len() - 1
        });
        self.items.push(Item::new(metric, inst, (at, &conversion), keep));
        Ok(self.key(self.items.len()))
    }

    fn add_indom(
        &mut self,
        name: &str,
        scale: impl IntoScale,
        max: usize,
        to: Option<ValueType>,
    ) -> Result<Key, RegisterError> {
        let found = self.find_domain(name).and_then(|(desc, names)| {
            let conversion =
                ValueConversion::new(&desc, to.unwrap_or(desc.value_type), scale, self.options.words)?;
            Ok((desc, names, conversion))
        });
        let (desc, names, conversion) = found.map_err(|reason| blame(name, reason))?;
        let (metric, keep) = (self.metric(&desc), self.keeps(&desc));
        self.indoms.push(IndomRequest::new(metric, names, conversion, keep, max));
        Ok(self.key(self.indoms.len()))
    }

    fn add_event(
        &mut self,
        (name, instance): (&str, Option<&str>),
        field: &str,
        scale: impl IntoScale,
        max: usize,
        to: Option<ValueType>,
    ) -> Result<Key, RegisterError> {
        // The metric and its instance before the field, and both before the type is looked at: as in libpcp, so that
        // of several faults the same one is told.
        let (desc, inst) = self.find_instance(name, instance).map_err(|reason| blame(name, reason))?;
        let (of, field_desc) = self.find_field(field).map_err(|reason| blame(field, reason))?;
        let kind = match desc.value_type {
            ValueType::Event => ArrayKind::Event,
            ValueType::HighResEvent => ArrayKind::HighRes,
            other => return Err(blame(name, Reason::NotEvents(other))),
        };
        let conversion =
            ValueConversion::new(&field_desc, to.unwrap_or(field_desc.value_type), scale, self.options.words)
                .and_then(
                    |conversion| if conversion.is_rate() { Err(Reason::FieldRate) } else { Ok(conversion) },
                )
                .map_err(|reason| blame(field, reason))?;
        let metric = self.metric(&desc);
        self.events.push(EventRequest::new((metric, inst), kind, of, conversion, max));
        Ok(self.key(self.events.len()))
    }

    /// A metric and its instance, which is in the profile from now on.
    fn find_instance(&mut self, name: &str, instance: Option<&str>) -> Result<(Desc, Option<Inst>), Reason> {
        let desc = self.find_metric(name)?;
        let inst = match (instance, desc.indom) {
            (None, InDom::NULL) => None,
            (None, _) => return Err(Reason::InstanceNeeded),
            (Some(_), InDom::NULL) => return Err(Reason::NoInstances),
            (Some(instance), indom) => {
                let bad = |error| Reason::Instance { instance: instance.to_owned(), error };
                let found = self.context.instance(indom, instance);
                let inst = found.or_else(|error| self.instance_ever(indom, instance, error)).map_err(bad)?;
                // One profile is for all registrations of the context: it has to include the instance, whatever the
                // others have asked for.
                self.context.add_profile(indom, &[inst])?;
                Some(inst)
            }
        };
        Ok((desc, inst))
    }

    /// In an archive an instance may come later than where the archive stands: any that ever was will do. (libpcp goes
    /// to the end and back, which does not always lead back.)
    fn instance_ever(&mut self, indom: InDom, name: &str, error: ClientError) -> Result<Inst, ClientError> {
        if self.context.kind() != ContextKind::Archive {
            return Err(error);
        }
        let instances = self.context.instances_ever(indom)?;
        let whole = instances.iter().find(|instance| instance.name == name);
        let word = || instances.iter().find(|instance| instance.name.split(' ').next() == Some(name));
        whole.or_else(word).map(|instance| instance.id).ok_or(error)
    }

    /// A metric, and where the names of its instances are, which are all in the profile from now on.
    fn find_domain(&mut self, name: &str) -> Result<(Desc, Option<usize>), Reason> {
        let desc = self.find_metric(name)?;
        if desc.indom == InDom::NULL {
            return Ok((desc, None));
        }
        let known = self.names.iter().position(|names| names.indom == desc.indom);
        let at = match known {
            Some(at) => at,
            None => {
                // No list means all. Items of the domain that come later add nothing to that.
                self.context.add_profile(desc.indom, &[])?;
                self.names.push(InstanceNames::new(desc.indom));
                self.names.len() - 1
            }
        };
        Ok((desc, Some(at)))
    }

    fn find_metric(&mut self, name: &str) -> Result<Desc, Reason> {
        let pmid = self.context.pmid(name)?;
        Ok(self.context.desc(pmid)?)
    }

    fn find_field(&mut self, name: &str) -> Result<(Field, Desc), Reason> {
        let field = match name {
            "event.flags" => Field::Flags,
            "event.missed" => Field::Missed,
            _ => {
                let desc = self.find_metric(name)?;
                return match desc.indom {
                    InDom::NULL => Ok((Field::Param(desc.pmid), desc)),
                    _ => Err(Reason::FieldInstances),
                };
            }
        };
        // No parameters but parts of each record: what they are is the format's, not the source's to say.
        let desc = Desc {
            pmid: Pmid::NULL,
            value_type: ValueType::U32,
            indom: InDom::NULL,
            semantics: Semantics::Discrete,
            units: Units::NONE,
        };
        Ok((field, desc))
    }

    /// The place of a metric in the fetch: a new one if it is not asked for already.
    fn metric(&mut self, desc: &Desc) -> usize {
        match self.pmids.iter().position(|&pmid| pmid == desc.pmid) {
            Some(at) => at,
            None => {
                self.pmids.push(desc.pmid);
                self.pmids.len() - 1
            }
        }
    }

    fn keeps(&self, desc: &Desc) -> bool {
        self.options.keep_discrete && desc.semantics == Semantics::Discrete
    }

    /// The handle of the registration just made.
    fn key(&self, count: usize) -> Key {
        Key { stamp: self.stamp, index: count - 1 }
    }
}

fn blame(metric: &str, reason: Reason) -> RegisterError {
    RegisterError { metric: metric.to_owned(), reason }
}
