//! What is wrong with an archive that is read all the same: what is done without (`docs/pcp/archive.md` 11).
//!
//! It is known when it matters: of the index and of volumes once the archive is open, of the end once that was looked for.

use std::fmt;
use std::mem::discriminant;
use std::path::PathBuf;

/// Something of an archive that is not used, so that the rest can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mended {
    /// Entries of the temporal index that are out of order, or of volumes that are not there: places are found without them.
    Index {
        /// The archive's name.
        archive: PathBuf,
        /// How many of the entries.
        unused: usize,
        /// How many entries there are.
        entries: usize,
    },
    /// Volumes between others are missing: there are no values of their time.
    Volumes {
        /// The archive's name.
        archive: PathBuf,
        /// The number of the first that is missing.
        first: u32,
        /// How many there are not.
        missing: u32,
    },
    /// What is behind the last record that is whole.
    End {
        /// The archive's name.
        archive: PathBuf,
        /// The number of the volume that the record is in.
        volume: u32,
        /// The place behind it.
        at: u64,
        /// Bytes behind that place in this volume.
        bytes: u64,
        /// Further volumes, in which there is no record.
        volumes: usize,
    },
}

impl fmt::Display for Mended {
    /// One line, which begins with the archive's name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mended::Index { archive, unused, entries } => write!(
                f,
                "{}: {unused} of {entries} entries of the temporal index cannot be meant, and are not used",
                archive.display()
            ),
            Mended::Volumes { archive, first, missing: 1 } => {
                write!(f, "{}: volume {first} is missing, and is left out", archive.display())
            }
            Mended::Volumes { archive, first, missing } => {
                write!(
                    f,
                    "{}: {missing} volumes from {first} on are missing, and are left out",
                    archive.display()
                )
            }
            Mended::End { archive, volume, at, bytes, volumes } => {
                write!(
                    f,
                    "{}: the last record that is whole ends at byte {at} of volume {volume}",
                    archive.display()
                )?;
                if *bytes > 0 {
                    write!(f, ", {bytes} bytes behind it are left out")?;
                }
                if *volumes > 0 {
                    write!(f, ", and so are {volumes} volumes without any")?;
                }
                Ok(())
            }
        }
    }
}

/// Adds something to what nobody has asked for yet, of which there is one of each kind however long nobody asks: entries that
/// are not used are added up, and of an end the last one counts.
pub(super) fn remember(all: &mut Vec<Mended>, new: Mended) {
    let Some(known) = all.iter_mut().find(|known| discriminant(*known) == discriminant(&new)) else {
        return all.push(new);
    };
    let before = if let Mended::Index { unused, .. } = known { *unused } else { 0 };
    *known = new;
    if let Mended::Index { unused, .. } = known {
        *unused += before;
    }
}

/// The missing numbers between those that there are, in ascending order.
pub(super) fn gaps(numbers: impl Iterator<Item = u32>) -> Option<(u32, u32)> {
    let (mut first, mut missing, mut last) = (None, 0, None::<u32>);
    for number in numbers {
        if let Some(last) = last.filter(|last| number - last > 1) {
            first.get_or_insert(last + 1);
            missing += number - last - 1;
        }
        last = Some(number);
    }
    first.map(|first| (first, missing))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_asks_for_is_kept_once() {
        let archive = PathBuf::from("a");
        let index = |unused, entries| Mended::Index { archive: archive.clone(), unused, entries };
        let end = |at| Mended::End { archive: archive.clone(), volume: 0, at, bytes: 3, volumes: 0 };
        let mut all = Vec::new();
        for number in 1..1000 {
            remember(&mut all, end(number));
            remember(&mut all, index(2, 10 * number as usize));
        }
        assert_eq!(all, [end(999), index(2 * 999, 9990)]);
    }

    #[test]
    fn gaps_are_between_volumes() {
        for (numbers, expected) in [
            (&[][..], None),
            (&[3, 4, 5], None),
            (&[0, 2], Some((1, 1))),
            (&[1, 2, 5, 6, u32::MAX], Some((3, 2 + (u32::MAX - 7)))),
        ] {
            assert_eq!(gaps(numbers.iter().copied()), expected, "{numbers:?}");
        }
    }
}
