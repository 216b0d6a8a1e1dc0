//! The group itself: its fetches, and reading what they have brought.

use std::sync::atomic::{AtomicU64, Ordering};

use byteorder::BigEndian;

use super::event::{EventRequest, EventRows};
use super::handle::{EventHandle, IndomHandle, ItemHandle, Key, Output};
use super::indom::{IndomRequest, Rows};
use super::item::{self, Item};
use super::names::InstanceNames;
use super::options::GroupOptions;
use super::results::ResultPair;
use super::scale::ValueConversion;
use crate::context::Context;
use crate::error::ClientError;
use crate::waiting::{Waiting, wait_for};
use pcp_event::ArrayReader;
use pcp_model::{PmError, Pmid, Timestamp};
use pcp_pdu::{Fetched, StateChange};

/// Registered metrics of one context, and their values.
pub struct FetchGroup {
    pub(super) context: Context,
    pub(super) options: GroupOptions,
    /// No other group has had it, nor this one before it was cleared.
    pub(super) stamp: u64,
    /// The metrics asked for, each once.
    pub(super) pmids: Vec<Pmid>,
    pub(super) items: Vec<Item>,
    /// Conversions that items share.
    pub(super) conversions: Vec<ValueConversion>,
    pub(super) indoms: Vec<IndomRequest>,
    pub(super) events: Vec<EventRequest>,
    pub(super) names: Vec<InstanceNames>,
    now: Fetched,
    pub(super) before: Fetched,
    has_before: bool,
    time: Option<Timestamp>,
    running: Running,
}

/// What [`FetchGroup::advance`] goes on with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Running {
    Nothing,
    Fetch,
    /// A fetch for registrations that have been cleared since.
    Stale,
    Reconnect,
}

impl FetchGroup {
    /// A group on a context of its own, as the environment says ([`GroupOptions::from_env`]).
    pub fn new(context: Context) -> FetchGroup {
        FetchGroup::with_options(context, GroupOptions::from_env())
    }

    /// A group on a context of its own.
    pub fn with_options(context: Context, options: GroupOptions) -> FetchGroup {
        FetchGroup {
            context,
            options,
            stamp: new_stamp(),
            pmids: Vec::new(),
            items: Vec::new(),
            conversions: Vec::new(),
            indoms: Vec::new(),
            events: Vec::new(),
            names: Vec::new(),
            now: Fetched::new(),
            before: Fetched::new(),
            has_before: false,
            time: None,
            running: Running::Nothing,
        }
    }

    /// A group on a host's metrics.
    ///
    /// # Errors
    /// As [`Context::host`].
    pub fn host(spec: &str) -> Result<FetchGroup, ClientError> {
        Context::host(spec).map(FetchGroup::new)
    }

    /// The group's context (`pmGetFetchGroupContext(3)`).
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// The group's context, for what only it has: the mode of an archive, definitions of derived metrics. A fetch
    /// that was started must not be disturbed by another one.
    pub fn context_mut(&mut self) -> &mut Context {
        &mut self.context
    }

    /// Drops all registrations and results. The context stays, at its place and with its profile
    /// (`pmClearFetchGroup(3)`). Handles from before are of no use any more.
    pub fn clear(&mut self) {
        self.stamp = new_stamp();
        if self.running == Running::Fetch {
            self.running = Running::Stale;
        }
        self.pmids.clear();
        self.items.clear();
        self.conversions.clear();
        self.indoms.clear();
        self.events.clear();
        self.names.clear();
        self.has_before = false;
        self.time = None;
    }
}

/// # Fetching
///
/// ```text
/// start_fetch --> advance ... advance --> outputs filled; the result becomes the one before
/// ```
///
/// [`FetchGroup::fetch`] does it all and waits in between. When a fetch as a whole fails, outputs are reset too:
/// every status is `PM_ERR_VALUE`, and the result before stays, so that rates span the gap.
impl FetchGroup {
    /// Fetches all metrics and fills all outputs (`pmFetchGroup(3)`). Returns what the collector says has changed.
    ///
    /// # Errors
    /// Those of the source as a whole; `PM_ERR_TOOSMALL` when no metric is registered. Registrations stay valid;
    /// after the loss of a connection go on with [`FetchGroup::reconnect`].
    pub fn fetch(&mut self) -> Result<StateChange, ClientError> {
        if self.running == Running::Reconnect {
            self.finish()?;
        }
        self.start_fetch()?;
        self.finish()?;
        Ok(self.before.changes)
    }

    /// Starts a fetch, unless one has been started already; [`FetchGroup::advance`] goes on with it.
    ///
    /// # Errors
    /// As [`FetchGroup::fetch`].
    pub fn start_fetch(&mut self) -> Result<(), ClientError> {
        if self.running != Running::Fetch {
            self.context.start_fetch(&self.pmids).inspect_err(|_| self.fill_with_nothing())?;
            self.running = Running::Fetch;
        }
        Ok(())
    }

    /// Goes on with the fetch or reconnect that was started, without waiting (but for the names of new instances).
    /// True when it is done.
    ///
    /// # Errors
    /// As [`FetchGroup::fetch`] and [`FetchGroup::reconnect`]. What was started is over then.
    pub fn advance(&mut self) -> Result<bool, ClientError> {
        let running = self.running;
        if running == Running::Nothing {
            return Ok(true);
        }
        match self.context.advance(&mut self.now) {
            Ok(false) => return Ok(false),
            // The result of a stale fetch is dropped: its metrics have other places now, or none.
            Ok(true) if running == Running::Fetch => self.fill(),
            Ok(true) => {}
            Err(error) => {
                self.running = Running::Nothing;
                if running == Running::Fetch {
                    self.fill_with_nothing();
                }
                return Err(error);
            }
        }
        self.running = Running::Nothing;
        Ok(true)
    }

    /// What has to come before [`FetchGroup::advance`] can go on; `None` if it can at once.
    pub fn waiting(&self) -> Option<Waiting<'_>> {
        self.context.waiting()
    }

    /// Connects again with the same source (`pmReconnectContext(3)`). Registrations stay, and so does the last
    /// result: the first rates are those over the whole outage.
    ///
    /// # Errors
    /// As [`Context::reconnect`].
    pub fn reconnect(&mut self) -> Result<(), ClientError> {
        self.start_reconnect()?;
        self.finish()
    }

    /// Starts to connect again; [`FetchGroup::advance`] goes on with it.
    ///
    /// # Errors
    /// As [`FetchGroup::reconnect`].
    pub fn start_reconnect(&mut self) -> Result<(), ClientError> {
        if self.running == Running::Fetch {
            self.fill_with_nothing();
        }
        self.running = Running::Nothing;
        // Another collector may have given the same numbers to others.
        self.names.iter_mut().for_each(InstanceNames::forget);
        self.context.start_reconnect()?;
        self.running = Running::Reconnect;
        Ok(())
    }

    fn finish(&mut self) -> Result<(), ClientError> {
        while !self.advance()? {
            if let Some(waiting) = self.waiting() {
                wait_for(waiting)?;
            }
        }
        Ok(())
    }

    fn fill(&mut self) {
        self.time = Some(self.now.timestamp);
        let before = self.has_before.then_some(&self.before);
        let results = ResultPair::new(&self.now, before, self.options.falling);
        // Names first: asking for them needs the context, filling then only what is here. Several metrics share a
        // domain, and the first of them that meets something new asks for all.
        self.names.iter_mut().for_each(InstanceNames::age);
        for request in &self.indoms {
            let Some(names) = request.names.and_then(|at| self.names.get_mut(at)) else { continue };
            if request.needs_names(&results, names) {
                // Without an answer there are no names, and the next fetch asks again.
                match self.context.instances(names.indom) {
                    Ok(instances) => names.set(instances),
                    Err(_) => names.forget(),
                }
            }
        }
        self.fill_from(true);
        // Values are read out of the cells, rates need the bytes: swapped, neither result is ever copied.
        std::mem::swap(&mut self.now, &mut self.before);
        self.has_before = true;
    }

    /// `before` stays: the next rate is one over the gap.
    fn fill_with_nothing(&mut self) {
        self.time = None;
        self.fill_from(false);
    }

    fn fill_from(&mut self, success: bool) {
        let before = self.has_before.then_some(&self.before);
        let results = success.then(|| ResultPair::new(&self.now, before, self.options.falling));
        let results = results.as_ref();
        // Items of the same metric mostly follow each other.
        for items in self.items.chunk_by_mut(Item::is_like) {
            let values = results.zip(items.first()).map(|(results, item)| results.values(item.metric()));
            item::fill(items, &self.conversions, values.as_ref());
        }
        self.indoms.iter_mut().for_each(|indom| indom.fill(results));
        self.events.iter_mut().for_each(|event| event.fill(results));
    }
}

/// # Reading
///
/// Until the first fetch everything is `PM_ERR_VALUE`. A handle of another group, or from before a
/// [`clear`](FetchGroup::clear), fails with `-EINVAL`.
impl FetchGroup {
    /// When the values of the last fetch were collected; `None` if it failed, or if there was none
    /// (`pmExtendFetchGroup_timestamp(3)`).
    pub fn timestamp(&self) -> Option<Timestamp> {
        self.time
    }

    /// A value.
    ///
    /// # Errors
    /// Why there is none: `PM_ERR_VALUE` when the fetch brought none, `PM_ERR_AGAIN` for a rate that needs another
    /// fetch, the collector's reason, or that of the conversion (`PM_ERR_TRUNC`, `PM_ERR_SIGN`, `PM_ERR_TYPE`,
    /// `PM_ERR_UNIT`, `PM_ERR_CONV`, `-ERANGE`).
    pub fn value<T: Output>(&self, handle: ItemHandle<T>) -> Result<T::Ref<'_>, PmError> {
        T::read(self.item_at(handle.key)?.value()?).ok_or(PmError::VALUE)
    }

    /// The last value of a discrete metric, even if the last fetch failed: what libpcp leaves in the output then. Of
    /// other metrics the value, if there is one.
    ///
    /// # Errors
    /// `PM_ERR_VALUE` if there is none.
    pub fn kept_value<T: Output>(&self, handle: ItemHandle<T>) -> Result<T::Ref<'_>, PmError> {
        self.item_at(handle.key)?.kept().and_then(T::read).ok_or(PmError::VALUE)
    }

    /// The values of all instances of a metric. An instance that gets another name while it stays keeps its name here
    /// until an unknown instance comes, as in libpcp.
    ///
    /// # Errors
    /// Why there are none, unless they are just more than was asked for: then these are there, and [`Rows::status`]
    /// tells.
    pub fn rows<T: Output>(&self, handle: IndomHandle<T>) -> Result<Rows<'_, T>, PmError> {
        let rows = self.kept_rows(handle)?;
        whole(rows.status()).map(|()| rows)
    }

    /// The values of all instances of a metric; of a discrete one the last ones, even if the last fetch failed
    /// ([`Rows::status`] tells).
    ///
    /// # Errors
    /// That the handle is not this group's.
    pub fn kept_rows<T: Output>(&self, handle: IndomHandle<T>) -> Result<Rows<'_, T>, PmError> {
        let request = self.at(&self.indoms, handle.key)?;
        Ok(request.rows(request.names.and_then(|at| self.names.get(at))))
    }

    /// The values of a field in the event records of the last fetch.
    ///
    /// # Errors
    /// As [`FetchGroup::rows`].
    pub fn events<T: Output>(&self, handle: EventHandle<T>) -> Result<EventRows<'_, T>, PmError> {
        let request = self.at(&self.events, handle.key)?;
        whole(request.status()).map(|()| request.rows())
    }

    /// The records that a field's values come from, whole, with all their parameters, in place: what
    /// `pmFetchGroup(3)` has no way to get at. `None` if the instance has no value.
    ///
    /// # Errors
    /// As [`FetchGroup::events`]; how many values of the field were asked for does not matter.
    pub fn records<T>(&self, handle: EventHandle<T>) -> Result<Option<ArrayReader<'_, BigEndian>>, PmError> {
        let request = self.at(&self.events, handle.key)?;
        if self.time.is_none() {
            return Err(PmError::VALUE);
        }
        // The result that outputs have been filled from is the one before the next.
        request.records(&self.before)
    }

    fn item_at(&self, key: Key) -> Result<&Item, PmError> {
        self.at(&self.items, key)
    }

    fn at<'a, R>(&self, requests: &'a [R], key: Key) -> Result<&'a R, PmError> {
        let found = requests.get(key.index).filter(|_| key.stamp == self.stamp);
        found.ok_or(PmError::from_errno(nix::libc::EINVAL))
    }
}

/// Too many values are no reason to show none.
fn whole(status: Result<(), PmError>) -> Result<(), PmError> {
    if status == Err(PmError::TOOBIG) { Ok(()) } else { status }
}

fn new_stamp() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
