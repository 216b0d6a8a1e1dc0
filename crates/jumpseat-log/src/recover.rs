//! What a directory of logs holds after its last user is gone, however it went.
//!
//! Of each source only the newest segment is read: its head says what the state was when it began, and the batches in it what
//! has changed since. Their records are not looked at, unless the machine has been started anew in between: then any of them
//! may lack. The file that is there is never written to again.
//!
//! **Cost:** a name a segment, and for each source two reads and one for each batch of its newest segment, of at most
//! 4 MiB, or 16 MiB of batches of 16 KiB and more.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

use pcp_event::log::Stretch;
use pcp_model::{Inst, Timestamp};

use crate::common::Common;
use crate::format::{BATCH_HEAD, BatchHead, MAX_EPOCHS};
use crate::segment::{
    OpenSegment, Patience, ReadError, Segment, glance, memory_name, parse_memory_name, parse_name,
};
use crate::source::Files;
use crate::state::State;

/// What is known of a source.
#[derive(Debug)]
pub(crate) struct Found {
    pub name: String,
    pub next: u64,
    pub state: State,
    pub epochs: Vec<(u64, u64)>,
    pub files: Files,
    /// Records that were in batches which are not whole.
    pub torn: u64,
    /// The newest batch, if it is whole.
    pub newest: Option<Stretch>,
    /// Numbers from the end on were given to records that were in memory only.
    pub in_memory: bool,
}

impl Found {
    pub(crate) fn nothing(name: &str) -> Found {
        let (state, epochs, files) = (State::default(), Vec::new(), Files::default());
        Found {
            name: name.to_owned(),
            next: 0,
            state,
            epochs,
            files,
            torn: 0,
            newest: None,
            in_memory: false,
        }
    }
}

/// What a segment's name gets added when it cannot be read: it is kept, and looked at no more.
pub(crate) const ASIDE: &str = ".aside";

/// Looks through the directory.
pub(crate) fn recover(common: &Common) -> std::io::Result<BTreeMap<Inst, Found>> {
    let mut by_source: BTreeMap<Inst, Vec<(u64, String)>> = BTreeMap::new();
    let mut in_memory = BTreeSet::new();
    for name in common.disk.names()? {
        match parse_name(&name) {
            Some((source, first)) => by_source.entry(source).or_default().push((first, name)),
            // Begun, and never given its name.
            None if name.strip_suffix(".new").is_some_and(|name| parse_name(name).is_some()) => {
                _ = common.disk.remove(&name);
            }
            None => in_memory.extend(parse_memory_name(&name)),
        }
    }
    for source in in_memory.iter().filter(|source| !by_source.contains_key(source)) {
        // It begins anew.
        _ = common.disk.remove(&memory_name(*source));
    }
    let mut all = BTreeMap::new();
    for (source, mut segments) in by_source {
        segments.sort_unstable();
        if let Some(found) = source_from(common, segments, in_memory.contains(&source)) {
            all.insert(source, found);
        }
    }
    Ok(all)
}

/// A source from its segments, oldest first.
fn source_from(common: &Common, mut segments: Vec<(u64, String)>, in_memory: bool) -> Option<Found> {
    let all = segments.len();
    let newest = loop {
        let (first, name) = segments.last()?;
        match OpenSegment::open(&*common.disk, name, Patience::Wait) {
            Ok(open) if open.head.first == *first && open.head.domain == common.domain => break open,
            Ok(_) => set_aside(common, name, &"its name and its head, or the agent's domain, do not agree"),
            Err(error) => set_aside(common, name, &error),
        }
        segments.pop();
    };
    let is_cut_short = segments.len() < all;
    let mut files = Files::default();
    for (first, name) in &segments {
        let (len, made) = glance(&*common.disk, name).unwrap_or_default();
        files.segments.push_back(Segment {
            name: name.as_str().into(),
            first: *first,
            len,
            time: Timestamp::default(),
            made,
        });
    }
    // When the next one was begun is about when the newest record of the one before had come in.
    for index in 1..files.segments.len() {
        files.segments[index - 1].time = Timestamp::new(files.segments[index].made, 0);
    }
    let tail = Tail::read(&newest, common);
    if let Some(last) = files.segments.back_mut() {
        // What is behind the last whole batch is none of the log's, but takes room.
        (last.time, last.len) = (tail.time, last.len.min(tail.end));
    }
    files.bytes = files.segments.iter().map(|segment| segment.len).sum();
    common.used(files.bytes);
    let mut epochs = newest.head.epochs;
    if newest.head.boot != common.boot || is_cut_short || in_memory {
        // Numbers from the end on may have been seen by readers elsewhere, and mean others now.
        epochs.push((common.random(), tail.next));
        let excess = epochs.len().saturating_sub(MAX_EPOCHS);
        epochs.drain(..excess);
    }
    let Tail { next, state, torn, last, .. } = tail;
    Some(Found { name: newest.head.name, next, state, epochs, files, torn, newest: last, in_memory })
}

/// Where a segment ends, and with what.
struct Tail {
    next: u64,
    state: State,
    time: Timestamp,
    end: u64,
    torn: u64,
    last: Option<Stretch>,
}

impl Tail {
    fn read(segment: &OpenSegment, common: &Common) -> Tail {
        let len = segment.file.extent().map_or(0, |(len, _)| len);
        let head = &segment.head;
        let mut tail = Tail {
            next: head.first,
            state: head.state.clone(),
            time: Timestamp::default(),
            end: segment.start,
            torn: 0,
            last: None,
        };
        let is_checked = head.boot != common.boot;
        let (mut at, mut changes, mut body) = (segment.start, Vec::new(), Vec::new());
        let mut newest: Option<(u64, BatchHead)> = None;
        while at < len {
            let found = segment.batch_head(at, &mut changes, Patience::Wait);
            let is_last = |batch: &BatchHead| at + batch.len() as u64 >= len;
            match found {
                Ok(batch) if batch.first < tail.next => {
                    // Only what another hand has put there.
                    damaged(common, segment, at, &"goes back in the sequence");
                    at += batch.len() as u64;
                    continue;
                }
                Ok(batch) => {
                    let whole = if is_checked || is_last(&batch) {
                        segment
                            .body(at, &batch, &mut body, Patience::Wait)
                            .and_then(|()| Ok(batch.check_body(&body)?))
                    } else {
                        Ok(())
                    };
                    match whole {
                        Ok(()) => {
                            tail.take(&batch, &changes);
                            newest = Some((at, batch)).filter(|_| batch.records > 0).or(newest);
                        }
                        Err(error) => tail.tear(&batch, is_last(&batch), (common, segment, at), &error),
                    }
                    at += batch.len() as u64;
                    if at <= len {
                        tail.end = at;
                    }
                    continue;
                }
                Err(error) => {
                    let next = segment.next_batch(at + 1, len, Patience::Wait).unwrap_or_default();
                    damaged(common, segment, at, &error);
                    match next {
                        Some(next) => at = next,
                        None => break,
                    }
                }
            }
        }
        // Those behind it only tell of other things.
        if let Some((at, batch)) = newest.filter(|(_, batch)| batch.end() == tail.next)
            && segment.body(at, &batch, &mut body, Patience::Wait).is_ok()
        {
            let mut stretch = Stretch::default();
            tail.last = batch.take_records(&mut body, &mut stretch).is_ok().then_some(stretch);
        }
        tail
    }

    fn take(&mut self, batch: &BatchHead, changes: &[u8]) {
        // Records between are lost: they are missed by who reads there, and the source's account is to say so.
        self.torn += batch.first - self.next;
        self.next = batch.end();
        self.time = self.time.max(batch.time);
        let mut changes = &changes[BATCH_HEAD..][..batch.changes as usize];
        self.state.take(&mut changes);
    }

    /// A batch whose records are not all there. Those that nobody will send again are missed.
    fn tear(
        &mut self,
        batch: &BatchHead,
        is_last: bool,
        place: (&Common, &OpenSegment, u64),
        error: &ReadError,
    ) {
        let (common, segment, at) = place;
        let gone =
            batch.lost + u64::from(batch.records.saturating_sub(if is_last { batch.numbered } else { 0 }));
        self.torn += batch.first - self.next + gone;
        self.next = batch.first.saturating_add(gone);
        common.counts.torn.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(
            "the log of {}: a batch of {} records at byte {at} of segment {} was not written to its end ({error}): \
             {gone} count as missed",
            segment.head.name,
            batch.records,
            segment.head.first,
        );
    }
}

fn damaged(common: &Common, segment: &OpenSegment, at: u64, error: &dyn std::fmt::Display) {
    common.counts.torn.fetch_add(1, Ordering::Relaxed);
    tracing::warn!(
        "the log of {}: at byte {at} of segment {}: {error}; what is whole is kept",
        segment.head.name,
        segment.head.first
    );
}

/// Keeps a file that is none of this program's logs, under a name that no log has.
pub(crate) fn set_aside(common: &Common, name: &str, why: &dyn std::fmt::Display) {
    common.counts.set_aside.fetch_add(1, Ordering::Relaxed);
    let aside = format!("{name}{ASIDE}");
    match common.disk.rename(name, &aside) {
        Ok(()) => tracing::warn!("the log: {name} {why}; it is kept as {aside}"),
        Err(error) => tracing::error!("the log: {name} {why}; it cannot be renamed to {aside}: {error}"),
    }
}
