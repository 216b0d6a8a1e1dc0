//! The records of archives in a window: only archives that overlap it are opened, and read from its beginning or its end on.
//!
//! What has no event records is passed over by the archive's reader itself, which is a fraction of the time, in an archive that is read to
//! its end soon anyway ([`SOON`]). In a larger one it is passed over here, so that there is an end in time, and at the window's edge.
//!
//! A record of an archive has the events since the one before, so those of a window may be behind its end: as far as [`LATE`].

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use pcp_archive::Glance;
use pcp_client::{ClientError, Context, Fetched, Mode};
use pcp_model::{PmError, Timestamp};

use super::read::{Names, Reader, nanos, readers};
use super::walk::{Order, Part, Walk};
use crate::server::library;

/// How long after an event the record of an archive may be that has it.
pub(crate) const LATE: Duration = Duration::from_secs(600);
/// Bytes of an archive that takes no time to speak of.
const SOON: u64 = 32 << 20;
/// Archives of which it is remembered that they have no event records.
const MAX_BARREN: usize = 100_000;

/// What is known of archives.
#[derive(Debug, Default)]
pub(crate) struct Past {
    /// Of hosts that are followed, too.
    pub names: Arc<Names>,
    /// Those without event records, as they were then.
    barren: Mutex<HashMap<PathBuf, (u64, SystemTime)>>,
}

impl Past {
    /// Walks through an archive.
    pub(crate) fn walk(&self, glance: &Glance, overlaps: bool, walk: &mut Walk<'_>) {
        if self.is_barren(glance) {
            return;
        }
        if let Err(error) = self.try_walk(glance, overlaps, walk) {
            walk.problem(format!("{}: {error}", glance.name.display()));
        }
    }

    fn try_walk(&self, glance: &Glance, overlaps: bool, walk: &mut Walk<'_>) -> Result<(), ClientError> {
        let mut context = library::open(glance)?;
        let readers = readers(&mut context, &Arc::from(glance.label.host.as_str()), &self.names)?;
        if readers.is_empty() {
            let mut barren = self.barren.lock().unwrap_or_else(PoisonError::into_inner);
            if barren.len() >= MAX_BARREN {
                barren.clear();
            }
            barren.insert(glance.name.clone(), (glance.bytes, glance.changed));
            return Ok(());
        }
        let mut part = Part::new(overlaps);
        let is_soon = glance.bytes <= SOON;
        for mut reader in readers {
            if walk_metric(&mut context, &mut reader, &mut part, walk, is_soon)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    fn is_barren(&self, glance: &Glance) -> bool {
        let barren = self.barren.lock().unwrap_or_else(PoisonError::into_inner);
        barren.get(&glance.name) == Some(&(glance.bytes, glance.changed))
    }
}

/// Whether an archive may have records of the window of a walk.
pub(crate) fn overlaps(glance: &Glance, walk: &Walk<'_>) -> bool {
    let late = i64::try_from(LATE.as_nanos()).unwrap_or(i64::MAX);
    nanos(glance.label.start).saturating_sub(late) < walk.window.to && last(glance) >= walk.window.from
}

/// No record of an archive is of a later time.
pub(crate) fn last(glance: &Glance) -> i64 {
    match SystemTime::now().duration_since(glance.changed) {
        // What stands behind the last entry of its index was written no later than its files were.
        Ok(age) if age > LATE => nanos(glance.last).max(nanos(Timestamp::from(glance.changed))),
        _ => i64::MAX,
    }
}

fn walk_metric(
    context: &mut Context,
    reader: &mut Reader,
    part: &mut Part,
    walk: &mut Walk<'_>,
    is_soon: bool,
) -> Result<ControlFlow<()>, ClientError> {
    let window = walk.window.wider(LATE);
    let (mode, origin) = match walk.order {
        Order::Newest => (Mode::Backward, window.to),
        // Of what is in front of the window there is nothing in it.
        Order::Oldest => (Mode::Forward, walk.window.from),
    };
    context.set_mode(mode, Some(Timestamp::from_nanos(origin.into())))?;
    let changes = reader.label_changes(context);
    let (mut fetched, mut passed) = (Fetched::new(), None);
    loop {
        if walk.is_late() {
            return Ok(ControlFlow::Break(()));
        }
        let next = match is_soon {
            true => context.fetch_record_of(reader.pmid, &mut fetched),
            false => context.fetch_record(&mut fetched),
        };
        match next {
            Ok(()) => {}
            Err(ClientError::Pcp(PmError::EOL)) => return Ok(ControlFlow::Continue(())),
            Err(error) => return Err(error),
        }
        let sampled = nanos(fetched.timestamp);
        let is_over = match walk.order {
            Order::Newest => sampled < walk.window.from || walk.visitor.enough(sampled),
            Order::Oldest => {
                let late = i64::try_from(LATE.as_nanos()).unwrap_or(i64::MAX);
                sampled > window.to || walk.visitor.enough(sampled.saturating_sub(late))
            }
        };
        if is_over {
            return Ok(ControlFlow::Continue(()));
        }
        let Some(values) = fetched.find(reader.pmid).and_then(|set| set.values.ok()) else { continue };
        let changes = changes.partition_point(|change| *change <= fetched.timestamp);
        if passed.replace(changes) != Some(changes) {
            reader.forget();
        }
        let mut goes_on = true;
        reader.read(context, values, &mut |record| {
            goes_on = goes_on && walk.record(part, Arc::new(record));
        })?;
        if !goes_on {
            return Ok(ControlFlow::Break(()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Instant;

    use byteorder::NetworkEndian;
    use pcp_archive::{ArchiveWriter, LabelInfo, WriteOptions, glance_at};
    use pcp_client::LabelTarget;
    use pcp_event::{ArrayKind, EventArray, EventFlags};
    use pcp_model::{
        Desc, InDom, Instance, Label, LabelFlags, LabelSet, PM_IN_NULL, Pmid, Semantics, Units, Value,
        ValueType,
    };

    use super::super::record::Record;
    use super::super::walk::{Visitor, Walked, Window};
    use super::*;

    const BEGIN: i64 = 1_700_000_000;

    struct All(Vec<i64>);

    impl Visitor for All {
        fn wants(&mut self, _: &Record) -> bool {
            true
        }

        fn take(&mut self, record: Arc<Record>) {
            self.0.push(record.time / 1_000_000_000 - BEGIN);
        }
    }

    /// An archive of 3000 seconds, in two of which there were events.
    fn archive(base: &Path) -> Glance {
        let label = LabelInfo { host: "h".to_owned(), zone: "UTC".to_owned(), ..LabelInfo::default() };
        let mut writer = ArchiveWriter::create(base, label, WriteOptions::default()).expect("new");
        let desc = |item, value_type| Desc {
            pmid: Pmid::new(60, 1, item),
            value_type,
            indom: InDom::NULL,
            semantics: Semantics::Instant,
            units: Units::default(),
        };
        let (number, events) = (desc(1, ValueType::I32), desc(2, ValueType::HighResEvent));
        writer.desc(&number, &["a.number"]).expect("good");
        writer.desc(&events, &["a.records"]).expect("good");
        let mut fetched = Fetched::new();
        for second in 0..3000 {
            fetched.clear();
            fetched.timestamp = Timestamp::new(BEGIN + second, 0);
            let mut push = |desc: &Desc, value: Value| {
                fetched.begin_set(desc.pmid);
                fetched.push_value(PM_IN_NULL, &value).expect("fits");
                fetched.end_set();
            };
            push(&number, Value::I32(7));
            if [1500, 2500].contains(&second) {
                let mut array = EventArray::<NetworkEndian>::new(ArrayKind::HighRes);
                array.add_record(Timestamp::new(BEGIN + second, 0), EventFlags::POINT).expect("fits");
                push(&events, Value::HighResEvent(array.into_bytes().into()));
            }
            writer.result(&fetched).expect("written");
        }
        writer.flush().expect("written");
        glance_at(base, &[]).expect("a directory").expect("there").expect("an archive")
    }

    fn walked(glance: &Glance, order: Order, within: [i64; 2], until: Instant) -> (Vec<i64>, Walked) {
        let mut all = All(Vec::new());
        let [from, to] = within.map(|second| (BEGIN + second) * 1_000_000_000);
        let mut walk = Walk::new(Window { from, to }, order, until, &mut all);
        Past::default().walk(glance, false, &mut walk);
        let walked = walk.walked;
        (all.0, walked)
    }

    #[test]
    fn large_and_small_archives_are_walked_through_alike_and_not_when_it_is_late() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut glance = archive(&dir.path().join("archive"));
        let now = Instant::now();
        for bytes in [1, u64::MAX] {
            glance.bytes = bytes;
            let later = now + Duration::from_secs(60);
            for (order, within, expected) in [
                (Order::Oldest, [0, 3000], vec![1500, 2500]),
                (Order::Newest, [0, 3000], vec![2500, 1500]),
                (Order::Newest, [1000, 2000], vec![1500]),
                (Order::Oldest, [1000, 1100], vec![]),
            ] {
                let (times, walked) = walked(&glance, order, within, later);
                assert_eq!(
                    (times, walked.cut, walked.problems),
                    (expected, None, vec![]),
                    "{bytes} {within:?}"
                );
            }
            let (times, walked) = walked(&glance, Order::Oldest, [0, 3000], now);
            assert!(times.is_empty() && walked.cut.is_some_and(|cut| cut.contains("too long")));
        }
    }

    struct Tags(Vec<String>);

    impl Visitor for Tags {
        fn wants(&mut self, _: &Record) -> bool {
            true
        }

        fn take(&mut self, record: Arc<Record>) {
            self.0.extend(record.origin.tags.iter().map(|(name, value)| format!("{name}={value}")));
        }
    }

    #[test]
    fn records_have_the_labels_that_their_source_had_then() {
        let dir = tempfile::tempdir().expect("a directory");
        let base = dir.path().join("archive");
        let label = LabelInfo { host: "h".to_owned(), zone: "UTC".to_owned(), ..LabelInfo::default() };
        let mut writer = ArchiveWriter::create(&base, label, WriteOptions::default()).expect("new");
        let indom = InDom::new(60, 1);
        let desc = Desc {
            pmid: Pmid::new(60, 1, 2),
            value_type: ValueType::HighResEvent,
            indom,
            semantics: Semantics::Instant,
            units: Units::default(),
        };
        writer.desc(&desc, &["a.records"]).expect("good");
        writer.indom(Timestamp::new(BEGIN, 0), indom, &[Instance { id: 1, name: "shop".to_owned() }]);
        let mut fetched = Fetched::new();
        for second in 0..3 {
            let time = Timestamp::new(BEGIN + second, 0);
            if second > 0 {
                let label = Label { name: "pod".to_owned(), value: second.to_string(), flags: LabelFlags(0) };
                let set = LabelSet { inst: 1, labels: Ok(vec![label]) };
                writer.labels(time, LabelTarget::Instances(indom), &[set]);
            }
            fetched.clear();
            fetched.timestamp = time;
            let mut array = EventArray::<NetworkEndian>::new(ArrayKind::HighRes);
            array.add_record(time, EventFlags::POINT).expect("fits");
            fetched.begin_set(desc.pmid);
            fetched.push_value(1, &Value::HighResEvent(array.into_bytes().into())).expect("fits");
            fetched.end_set();
            writer.result(&fetched).expect("written");
        }
        writer.flush().expect("written");
        let glance = glance_at(&base, &[]).expect("a directory").expect("there").expect("an archive");
        for (order, expected) in [(Order::Oldest, ["pod=1", "pod=2"]), (Order::Newest, ["pod=2", "pod=1"])] {
            let mut tags = Tags(Vec::new());
            let [from, to] = [0, 10].map(|second| (BEGIN + second) * 1_000_000_000);
            let until = Instant::now() + Duration::from_secs(60);
            let mut walk = Walk::new(Window { from, to }, order, until, &mut tags);
            Past::default().walk(&glance, false, &mut walk);
            assert_eq!(tags.0, expected);
        }
    }
}
