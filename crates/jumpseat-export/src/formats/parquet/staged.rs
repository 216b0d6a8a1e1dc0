//! Columns of a table whose numbers come in stages, with the thread that encodes the table.
//!
//! While all columns have a number in each row, numbers wait in slabs: those of a stage, column by column, in one piece of memory. Only when the rows are to be
//! encoded, columns are made of them, each of its right length.
//!
//! **Cost:** of a number, two copies, both next to the one before.

use std::sync::Arc;

use arrow_array::ArrayRef;
use pcp_model::ValueType;

use super::column::Column;
use super::stage::Stage;

/// Columns of a table.
pub(super) struct Staged {
    /// The table.
    pub name: Arc<str>,
    /// Its number in a stage.
    table: usize,
    /// Those of the columns there, from the first on, and their places in a row.
    first: usize,
    columns: Vec<(usize, Column)>,
    /// What goes behind the numbers in `columns`.
    slabs: Vec<Slab>,
    /// Rows in all slabs.
    slab_rows: usize,
}

/// The numbers of a stage, of one column after the other.
struct Slab {
    rows: usize,
    bits: Vec<u64>,
}

impl Staged {
    /// Columns of a table of a number: from a number in a stage on, their places in a row, and their types.
    pub(super) fn new(name: &Arc<str>, table: usize, first: usize, columns: &[(usize, ValueType)]) -> Staged {
        let columns = columns.iter().map(|(place, value_type)| (*place, Column::new(*value_type))).collect();
        Staged { name: Arc::clone(name), table, first, columns, slabs: Vec::new(), slab_rows: 0 }
    }

    /// Takes the numbers of its columns out of a stage.
    pub(super) fn take(&mut self, stage: &Stage) {
        let metrics = self.first..self.first + self.columns.len();
        let next = self.columns.iter().map(|(_, column)| column.len()).max().unwrap_or(0) + self.slab_rows;
        if stage.run(self.table) == Some(next)
            && let Some(bits) = stage.all(metrics)
        {
            let rows = stage.samples();
            self.slabs.push(Slab { rows, bits });
            self.slab_rows += rows;
            return;
        }
        if !stage.has_rows(self.table) {
            return;
        }
        self.pour();
        for ((_, column), metric) in self.columns.iter_mut().zip(self.first..) {
            column.numbers(stage, self.table, metric);
        }
    }

    /// All columns, of so many rows, and their places in a row.
    pub(super) fn arrays(&mut self, rows: usize) -> impl Iterator<Item = (usize, ArrayRef)> {
        self.pour();
        self.columns.iter_mut().map(move |(place, column)| (*place, column.take(rows)))
    }

    /// Puts what is in slabs into the columns.
    fn pour(&mut self) {
        let slabs = std::mem::take(&mut self.slabs);
        let rows = std::mem::take(&mut self.slab_rows);
        if rows == 0 {
            return;
        }
        // Some columns may have had no numbers for a while.
        let before = self.columns.iter().map(|(_, column)| column.len()).max().unwrap_or(0);
        for (at, (_, column)) in self.columns.iter_mut().enumerate() {
            column.pad(before);
            column.reserve(rows);
            for Slab { rows, bits } in &slabs {
                column.append(bits.get(at * rows..(at + 1) * rows).unwrap_or_default());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::parquet::stage::Stages;
    use arrow_array::Array as _;
    use arrow_array::cast::AsArray as _;
    use arrow_array::types::{Int32Type, UInt64Type};
    use pcp_model::Number;

    /// Puts samples into a stage: of each the row, if the table has one, and the numbers of both columns.
    fn take(staged: &mut Staged, samples: &[(Option<usize>, Option<u64>, Option<i32>)]) {
        let mut stage = Stages::new(3, 2).empty();
        for &(row, long, short) in samples {
            assert!(stage.begin());
            row.iter().for_each(|row| stage.row(1, *row));
            long.iter().for_each(|long| stage.put(1, Number::U64(*long)));
            short.iter().for_each(|short| stage.put(2, Number::I32(*short)));
        }
        staged.take(&stage);
    }

    /// What is in all rows.
    fn rows(staged: &mut Staged, count: usize) -> Vec<(Option<u64>, Option<i32>)> {
        let arrays: Vec<(usize, ArrayRef)> = staged.arrays(count).collect();
        assert!(arrays.iter().all(|(_, array)| array.len() == count));
        let (long, short) =
            (arrays[0].1.as_primitive::<UInt64Type>(), arrays[1].1.as_primitive::<Int32Type>());
        assert_eq!((arrays[0].0, arrays[1].0), (3, 5));
        long.iter().zip(short).collect()
    }

    #[test]
    fn numbers_are_in_their_rows_however_they_come() {
        let name = "disk.all".into();
        let mut staged = Staged::new(&name, 1, 1, &[(3, ValueType::U64), (5, ValueType::I32)]);
        for _ in 0..2 {
            // All there, two stages; a column without numbers at the end of one; all there again, but after rows of others; none for a while.
            take(&mut staged, &[(Some(0), Some(10), Some(0)), (Some(1), Some(11), Some(-1))]);
            take(&mut staged, &[(Some(2), Some(12), Some(-2))]);
            take(&mut staged, &[(Some(3), Some(13), None), (None, None, None), (Some(4), Some(14), None)]);
            take(&mut staged, &[(Some(5), Some(15), Some(-5)), (Some(6), Some(16), Some(-6))]);
            take(&mut staged, &[(None, None, None)]);
            take(&mut staged, &[(Some(8), Some(18), Some(-8))]);
            let long =
                [10, 11, 12, 13, 14, 15, 16, 0, 18, 0].map(|long| Some(long).filter(|long| *long != 0));
            let short =
                [0, -1, -2, 9, 9, -5, -6, 9, -8, 9].map(|short| Some(short).filter(|short| *short != 9));
            assert_eq!(rows(&mut staged, 10), long.into_iter().zip(short).collect::<Vec<_>>());
        }
        take(&mut staged, &[(Some(0), Some(1), Some(2))]);
        assert_eq!(rows(&mut staged, 1), [(Some(1), Some(2))], "without gaps again");
        assert_eq!(rows(&mut staged, 0), []);
    }
}
