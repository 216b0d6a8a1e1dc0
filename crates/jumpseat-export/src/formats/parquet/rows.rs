//! Rows of a table on their way to the thread that encodes them.

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, SchemaRef};

/// Some rows.
pub(super) struct Rows {
    pub schema: SchemaRef,
    /// None where that thread has the column's numbers.
    pub columns: Vec<Option<ArrayRef>>,
    pub count: usize,
    /// Whether the table can have instances, and so labels of these.
    pub has_instances: bool,
}

impl Rows {
    /// About how many bytes they have, with what is not here.
    pub(super) fn bytes(&self) -> usize {
        let column = |column: &Option<ArrayRef>| {
            column.as_ref().map_or(self.count * size_of::<u64>(), |column| column.get_array_memory_size())
        };
        self.columns.iter().map(column).sum()
    }

    /// All columns, with those that were not here.
    pub(super) fn whole(
        mut self,
        others: impl Iterator<Item = (usize, ArrayRef)>,
    ) -> Result<RecordBatch, ArrowError> {
        for (place, column) in others {
            if let Some(missing) = self.columns.get_mut(place) {
                *missing = Some(column);
            }
        }
        let columns = self.columns.into_iter().flatten().collect();
        RecordBatch::try_new(self.schema, columns)
    }
}

impl From<RecordBatch> for Rows {
    fn from(batch: RecordBatch) -> Rows {
        let columns = batch.columns().iter().cloned().map(Some).collect();
        Rows { schema: batch.schema(), columns, count: batch.num_rows(), has_instances: true }
    }
}
