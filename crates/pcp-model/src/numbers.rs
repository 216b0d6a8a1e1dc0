//! Numbers of one type as slices: what passes many values on at once.

/// Numbers of one type.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Numbers<'a> {
    I32(&'a [i32]),
    U32(&'a [u32]),
    I64(&'a [i64]),
    U64(&'a [u64]),
    Float(&'a [f32]),
    Double(&'a [f64]),
}

impl Numbers<'_> {
    /// How many.
    pub fn len(self) -> usize {
        match self {
            Numbers::I32(numbers) => numbers.len(),
            Numbers::U32(numbers) => numbers.len(),
            Numbers::I64(numbers) => numbers.len(),
            Numbers::U64(numbers) => numbers.len(),
            Numbers::Float(numbers) => numbers.len(),
            Numbers::Double(numbers) => numbers.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }
}

/// Where numbers of one type are put.
#[derive(Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum NumbersMut<'a> {
    I32(&'a mut Vec<i32>),
    U32(&'a mut Vec<u32>),
    I64(&'a mut Vec<i64>),
    U64(&'a mut Vec<u64>),
    Float(&'a mut Vec<f32>),
    Double(&'a mut Vec<f64>),
}
