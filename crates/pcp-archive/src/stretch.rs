//! An archive cut into stretches, for several threads to read.
//!
//! Cuts are where the temporal index knows a record, or a volume begins, so that stretches have about as many bytes. Each
//! has files, windows and layouts of its own and none of the metadata: threads share nothing. Read one after the other they
//! have all records of the archive, each once.

use super::error::{ArchiveError, Problem};
use super::reader::{Archive, GAP_NANOS, Place};
use super::record::Record;
use super::volumes::{Spot, Volumes};
use pcp_model::Timestamp;

/// A stretch of an archive.
pub struct Stretch {
    /// The volumes of each archive that it reaches into.
    parts: Vec<Volumes>,
    /// Where reading goes on. Parts count from the first of `parts`.
    at: Place,
    end: Option<Place>,
    /// The gap in front of each part but the first.
    gaps: Vec<Timestamp>,
}

/// What is next in a stretch.
pub enum Found<'a> {
    /// A record.
    Record(Record<'a>),
    /// The gap between two archives, which counts as a mark at this time.
    Gap(Timestamp),
}

impl Stretch {
    /// What is next; `None` at the end of the stretch.
    ///
    /// # Errors
    /// As [`Archive::next`] and [`Archive::record`]; [`Problem::Record`] where the next stretch begins within a record, as
    /// the index is wrong.
    #[allow(clippy::should_implement_trait, reason = "what is given is borrowed")]
    pub fn next(&mut self) -> Result<Option<Found<'_>>, ArchiveError> {
        let Place { part, spot } = self.at;
        if self.end.is_some_and(|end| self.at >= end) {
            return Ok(None);
        }
        let Some((volume, frame)) = self.parts[part].next(spot)? else {
            let Some(gap) = self.gaps.get(part) else { return Ok(None) };
            self.at = Place { part: part + 1, spot: self.parts[part + 1].first() };
            return Ok(Some(Found::Gap(*gap)));
        };
        let start = Place { part, spot: Spot { volume, offset: frame.at } };
        // Between the volumes there is nothing to read.
        if self.end.is_some_and(|end| start >= end) {
            return Ok(None);
        }
        let at = Place { part, spot: Spot { volume, offset: frame.end() } };
        if self.end.is_some_and(|end| at.part == end.part && at.spot.volume == end.spot.volume && at > end) {
            return Err(self.parts[part].volume(volume)?.bad(frame.at, "the index points into it"));
        }
        self.at = at;
        self.parts[part].record(volume, frame).map(|record| Some(Found::Record(record)))
    }
}

impl Archive {
    /// Cuts the archive into at most `count` stretches of about as many bytes each, for as many threads; fewer where the index
    /// does not know enough places.
    ///
    /// ```no_run
    /// use pcp_archive::{Archive, Found};
    ///
    /// let mut archive = Archive::open("/var/log/pcp/pmlogger/host/20240101")?;
    /// let counts = std::thread::scope(|scope| {
    ///     let count = |mut stretch: pcp_archive::Stretch| {
    ///         let mut values = 0;
    ///         while let Some(found) = stretch.next()? {
    ///             if let Found::Record(record) = found {
    ///                 values += record.sets().filter_map(|set| Some(set.values.ok()?.len())).sum::<usize>();
    ///             }
    ///         }
    ///         Ok::<_, pcp_archive::ArchiveError>(values)
    ///     };
    ///     let stretches = archive.stretches(4)?;
    ///     let threads: Vec<_> = stretches.into_iter().map(|stretch| scope.spawn(move || count(stretch))).collect();
    ///     threads.into_iter().map(|thread| thread.join().expect("it does not panic")).sum::<Result<usize, _>>()
    /// })?;
    /// println!("{counts} values");
    /// # Ok::<(), pcp_archive::ArchiveError>(())
    /// ```
    ///
    /// # Errors
    /// A volume that cannot be opened; [`Problem::Overlap`].
    pub fn stretches(&mut self, count: usize) -> Result<Vec<Stretch>, ArchiveError> {
        let cuts = self.cuts(count.max(1))?;
        let gaps = self.gaps()?;
        let ends = cuts.iter().skip(1).copied().map(Some).chain([None]);
        let stretch = |(from, end): (&Place, Option<Place>)| {
            let last = end.map_or(self.parts.len() - 1, |end| end.part);
            let within = |place: Place| Place { part: place.part - from.part, ..place };
            Stretch {
                parts: self.parts[from.part..=last].iter().map(|part| part.volumes.another()).collect(),
                at: within(*from),
                end: end.map(within),
                gaps: gaps[from.part..last].to_vec(),
            }
        };
        Ok(cuts.iter().zip(ends).map(stretch).collect())
    }

    /// Where stretches begin, in order: the first record, and others.
    fn cuts(&mut self, count: usize) -> Result<Vec<Place>, ArchiveError> {
        // How many bytes are in front of each place.
        let (mut places, mut bytes) = (Vec::new(), 0);
        for (part, archive) in self.parts.iter_mut().enumerate() {
            let first = archive.label().len();
            for volume in 0..archive.volumes.count() {
                let len = archive.volumes.volume(volume)?.len()?;
                let known = archive.known_in(volume).filter(|offset| (first..len).contains(offset));
                places.extend(
                    [first].into_iter().chain(known).map(|offset| {
                        (bytes + offset - first, Place { part, spot: Spot { volume, offset } })
                    }),
                );
                bytes += len.saturating_sub(first);
            }
        }
        let mut cuts: Vec<Place> = (0..count as u64)
            .filter_map(|number| {
                let wanted = (u128::from(bytes) * u128::from(number) / count as u128) as u64;
                let at = places.partition_point(|(before, _)| *before <= wanted);
                places.get(at.saturating_sub(1)).map(|(_, place)| *place)
            })
            .collect();
        cuts.dedup();
        Ok(cuts)
    }

    /// The times of the gaps behind all archives but the last.
    fn gaps(&mut self) -> Result<Vec<Timestamp>, ArchiveError> {
        let starts: Vec<Timestamp> = self.parts.iter().skip(1).map(|part| part.label().start).collect();
        let gap = |(number, start): (usize, &Timestamp)| {
            let end = self.parts[number].end()?.time;
            match *start < end {
                true => Err(ArchiveError::new(&self.parts[number + 1].name, None, Problem::Overlap)),
                false => Ok(Timestamp::from_nanos(end.as_nanos() + GAP_NANOS)),
            }
        };
        starts.iter().enumerate().map(gap).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ArchiveWriter, LabelInfo, Step, WriteOptions};
    use pcp_model::{Desc, InDom, Pmid, Semantics, Units, Value, ValueType};
    use pcp_pdu::Fetched;

    /// Archives of 100 records each, one behind the other, in volumes of some records.
    fn archives(dir: &std::path::Path, count: i64, options: WriteOptions) -> String {
        let pmid = Pmid::new(60, 0, 1);
        let desc = Desc {
            pmid,
            value_type: ValueType::U64,
            indom: InDom::NULL,
            semantics: Semantics::Instant,
            units: Units::NONE,
        };
        let mut values = Fetched::new();
        for number in 0..count {
            let label = LabelInfo { host: "host".into(), zone: "UTC".into(), ..LabelInfo::default() };
            let mut archive = ArchiveWriter::create(dir.join(format!("a{number}")), label, options).unwrap();
            archive.desc(&desc, &["a.metric"]).unwrap();
            for record in 0..100 {
                values.clear();
                values.timestamp = Timestamp::new(1000 * number + record, 0);
                values.begin_set(pmid);
                values.push_value(-1, &Value::U64(record as u64)).unwrap();
                values.end_set();
                archive.result(&values).unwrap();
            }
            archive.flush().unwrap();
        }
        dir.to_str().unwrap().to_owned()
    }

    fn all(archive: &mut Archive) -> Vec<Timestamp> {
        let (mut at, mut times) = (archive.first(), Vec::new());
        while let Some(step) = archive.next(at).unwrap() {
            let (time, after) = match step {
                Step::Record(place, after) => (archive.record(place).unwrap().timestamp, after),
                Step::Gap(time, after) => (time, after),
            };
            times.push(time);
            at = after;
        }
        times
    }

    fn in_stretches(archive: &mut Archive, count: usize) -> Vec<Vec<Timestamp>> {
        let mut all = Vec::new();
        for mut stretch in archive.stretches(count).unwrap() {
            let mut times = Vec::new();
            while let Some(found) = stretch.next().unwrap() {
                times.push(match found {
                    Found::Record(record) => record.timestamp,
                    Found::Gap(time) => time,
                });
            }
            assert!(stretch.next().unwrap().is_none(), "it stays at its end");
            all.push(times);
        }
        all
    }

    #[test]
    fn stretches_have_all_records_once() {
        for (count, volume_size, index_every) in
            [(1, u64::MAX, 200), (1, 1500, 200), (1, 1500, u64::MAX), (3, u64::MAX, 300), (3, 2000, 150)]
        {
            let dir = tempfile::tempdir().unwrap();
            let name = archives(
                dir.path(),
                count,
                WriteOptions { volume_size, index_every, ..WriteOptions::default() },
            );
            let mut archive = Archive::open(&name).unwrap();
            let expected = all(&mut archive);
            assert_eq!(expected.len() as i64, 101 * count - 1, "records, and the gaps between");
            for threads in [1, 2, 3, 7, 1000] {
                let stretches = in_stretches(&mut archive, threads);
                assert_eq!(stretches.concat(), expected, "{threads} of {count}, {volume_size}");
                assert!(stretches.len() <= threads && (threads == 1 || stretches.len() > 1));
                assert!(stretches.iter().all(|times| !times.is_empty()));
            }
        }
    }

    #[test]
    fn stretches_are_about_as_long() {
        let dir = tempfile::tempdir().unwrap();
        let options = WriteOptions { index_every: 100, ..WriteOptions::default() };
        let name = archives(dir.path(), 1, options);
        let mut archive = Archive::open(&name).unwrap();
        let lengths: Vec<usize> = in_stretches(&mut archive, 4).iter().map(Vec::len).collect();
        assert!(lengths.len() == 4 && lengths.iter().all(|len| (15..=35).contains(len)), "{lengths:?}");
    }

    #[test]
    fn an_index_that_points_into_a_record_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let name = archives(dir.path(), 1, WriteOptions { index_every: 200, ..WriteOptions::default() });
        let path = dir.path().join("a0.index");
        let mut index = std::fs::read(&path).unwrap();
        // The low byte of each place but the first's.
        for place in (808 + 2 * 32 - 1..index.len()).step_by(32) {
            index[place] += 4;
        }
        std::fs::write(&path, index).unwrap();
        let mut archive = Archive::open(&name).unwrap();
        let mut first = archive.stretches(2).unwrap().remove(0);
        let error = loop {
            match first.next() {
                Ok(Some(_)) => {}
                Ok(None) => panic!("the damage goes unnoticed"),
                Err(error) => break error,
            }
        };
        assert!(error.to_string().contains("the index points into it"), "{error}");
    }
}
