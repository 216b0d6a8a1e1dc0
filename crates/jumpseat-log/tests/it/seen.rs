//! What a reader sees of a source.

use std::time::{Duration, Instant};

use jumpseat_log::{LogDir, SourceLog};
use pcp_event::batch::{Batch, record_time};
use pcp_event::log::{Recall, Stretch};
use pcp_event::pack::{EventFlags, Param};
use pcp_model::{Pmid, Timestamp};
use std::sync::Arc;
use support::random::Random;

/// An entry of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// A record, by its time, which no other record has.
    Record(u64),
    /// Lost before it was written, and written as lost.
    Lost,
    /// Not there.
    Gone,
}

/// A batch of records with these times, each with so many bytes of text that no other one has.
pub(crate) fn batch(times: impl IntoIterator<Item = u64>, text: usize) -> Batch {
    let mut batch = Batch::default();
    for time in times {
        let mut random = Random::new(time, 1);
        let text: Vec<u8> = (0..text).map(|_| random.word() as u8).collect();
        let mut record = batch.record(Timestamp::new(time as i64, 0), EventFlags::POINT);
        record.param(Pmid::new(400, 16, 1), Param::String(&text));
        record.commit().expect("it is short");
    }
    batch
}

/// All entries of a log from 0 on. Nobody need run [`LogDir::fetch_thread`].
pub(crate) fn entries(dir: &LogDir, log: &Arc<SourceLog>) -> Vec<Entry> {
    let (mut history, next) = (dir.history(log), log.next());
    let (mut seen, mut stretch) = (Vec::new(), Stretch::default());
    let until = Instant::now() + Duration::from_secs(60);
    while (seen.len() as u64) < next {
        let seq = seen.len() as u64;
        match history.read(seq, &mut stretch) {
            Recall::Later => {
                assert!(Instant::now() < until, "nothing comes");
                dir.fetch_now();
            }
            Recall::Lost { to, .. } => {
                assert!(to > seq, "what is lost is what was asked for");
                seen.resize(to.min(next) as usize, Entry::Gone);
            }
            Recall::Found => {
                let first = stretch.first;
                assert!(first <= seq, "{first} {seq}");
                let lost = first + stretch.lost;
                seen.resize(seen.len().max(lost as usize), Entry::Lost);
                let mut begin = 0;
                for (index, &end) in stretch.ends.iter().enumerate() {
                    if lost + index as u64 == seen.len() as u64 {
                        let time = record_time(&stretch.records[begin..end as usize]);
                        seen.push(Entry::Record(time.sec as u64));
                    }
                    begin = end as usize;
                }
            }
        }
    }
    seen
}
