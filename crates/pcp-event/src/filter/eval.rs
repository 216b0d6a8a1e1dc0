//! Does a packed record pass?

use std::cmp::Ordering;
use std::sync::Arc;

use byteorder::{BigEndian, ByteOrder};
use jumpseat_wire::severity::Severity;

use super::{Expr, FieldResolver, Filter, Literal, MAX_REGEXES, MAX_TESTS, Op};
use crate::batch::MAX_RECORD;
use crate::pack::PARAM_HEADER;
use crate::packed::{PackedParam as Param, flags, params};
use pcp_model::{Pmid, ValueType};

/// A filter whose field names have been looked up.
#[derive(Clone, Debug)]
pub struct BoundFilter {
    filter: Arc<Filter>,
    /// For each of the filter's fields, the parameters that carry it.
    pmids: Vec<Vec<Pmid>>,
    generation: u64,
}

/// The largest record through the most expensive filter, in steps of [`Work`](crate::Work).
pub const MAX_COST: u64 = steps(MAX_RECORD, MAX_TESTS, MAX_REGEXES);

/// Reading the bytes takes its time, too, where they come from memory.
const fn steps(record: usize, tests: usize, regexes: usize) -> u64 {
    ((record / PARAM_HEADER + 1) * tests + record * (2 + regexes)) as u64
}

impl BoundFilter {
    pub(super) fn new(filter: Arc<Filter>, resolver: &dyn FieldResolver) -> BoundFilter {
        let pmids = vec![Vec::new(); filter.fields.len()];
        let mut bound = BoundFilter { filter, pmids, generation: 0 };
        bound.look_up(resolver);
        bound
    }

    /// The filter itself.
    pub fn filter(&self) -> &Arc<Filter> {
        &self.filter
    }

    /// Looks the fields up again if any have been added since.
    pub fn rebind(&mut self, resolver: &dyn FieldResolver) {
        if self.generation != resolver.generation() {
            self.look_up(resolver);
        }
    }

    /// How much work it is at most to try a record of so many bytes.
    pub fn cost(&self, record: usize) -> u64 {
        steps(record, self.filter.tests, self.filter.regexes)
    }

    /// Whether a packed HIGHRES record in network byte order passes. Of a damaged record only the
    /// sound parameters count.
    pub fn matches(&self, record: &[u8]) -> bool {
        eval(&self.filter.root, &self.pmids, record)
    }

    fn look_up(&mut self, resolver: &dyn FieldResolver) {
        self.generation = resolver.generation();
        for (name, pmids) in self.filter.fields.iter().zip(&mut self.pmids) {
            pmids.clear();
            resolver.resolve(name, &mut |pmid| pmids.push(pmid));
        }
    }
}

fn eval(expr: &Expr, pmids: &[Vec<Pmid>], record: &[u8]) -> bool {
    // A record may have several values of a field. A test of a field holds if it holds for any of the record's values of that field; the negated
    // ones (`!=`, `!~`, `not in`) if there is a value and the opposite holds for none.
    let any = |field: usize, test: &dyn Fn(Param<'_>) -> bool| {
        params(record).any(|param| pmids[field].contains(&param.pmid) && test(param))
    };
    let none = |field: usize, test: &dyn Fn(Param<'_>) -> bool| any(field, &|_| true) && !any(field, test);
    match expr {
        Expr::And(parts) => parts.iter().all(|part| eval(part, pmids, record)),
        Expr::Or(parts) => parts.iter().any(|part| eval(part, pmids, record)),
        Expr::Not(inner) => !eval(inner, pmids, record),
        Expr::Flag(flag) => flags(record).contains(*flag),
        Expr::Exists(field) => any(*field, &|_| true),
        Expr::Compare { field, op: Op::Ne, to } => none(*field, &|param| param.equals(to)),
        Expr::Compare { field, op, to } => {
            any(*field, &|param| param.compare(to).is_some_and(|o| op.holds(o)))
        }
        Expr::In { field, negated, any: list } => {
            let test = |param: Param<'_>| list.iter().any(|literal| param.equals(literal));
            if *negated { none(*field, &test) } else { any(*field, &test) }
        }
        Expr::Match { field, negated, pattern } => {
            let test = |param: Param<'_>| param.text().is_some_and(|text| pattern.is_match(text));
            if *negated { none(*field, &test) } else { any(*field, &test) }
        }
    }
}

impl Op {
    fn holds(self, ordering: Ordering) -> bool {
        match self {
            Op::Eq => ordering.is_eq(),
            Op::Ne => ordering.is_ne(),
            Op::Lt => ordering.is_lt(),
            Op::Le => ordering.is_le(),
            Op::Gt => ordering.is_gt(),
            Op::Ge => ordering.is_ge(),
        }
    }
}

enum Number {
    Int(i128),
    Float(f64),
}

impl Param<'_> {
    fn number(self) -> Option<Number> {
        const I32: u32 = ValueType::I32.code() as u32;
        const U32: u32 = ValueType::U32.code() as u32;
        const I64: u32 = ValueType::I64.code() as u32;
        const U64: u32 = ValueType::U64.code() as u32;
        const FLOAT: u32 = ValueType::Float.code() as u32;
        const DOUBLE: u32 = ValueType::Double.code() as u32;
        Some(match (self.value_type, self.bytes.len()) {
            (I32, 4) => Number::Int(BigEndian::read_i32(self.bytes).into()),
            (U32, 4) => Number::Int(BigEndian::read_u32(self.bytes).into()),
            (I64, 8) => Number::Int(BigEndian::read_i64(self.bytes).into()),
            (U64, 8) => Number::Int(BigEndian::read_u64(self.bytes).into()),
            (FLOAT, 4) => Number::Float(BigEndian::read_f32(self.bytes).into()),
            (DOUBLE, 8) => Number::Float(BigEndian::read_f64(self.bytes)),
            _ => return None,
        })
    }

    fn equals(self, literal: &Literal) -> bool {
        self.compare(literal) == Some(Ordering::Equal)
    }

    /// How the value compares with the literal; `None` if they are of different kinds.
    fn compare(self, literal: &Literal) -> Option<Ordering> {
        match literal {
            Literal::Int(right) => match self.number()? {
                Number::Int(left) => Some(left.cmp(right)),
                Number::Float(left) => compare_int(*right, left).map(Ordering::reverse),
            },
            Literal::Float(right) => match self.number()? {
                Number::Int(left) => compare_int(left, *right),
                Number::Float(left) => left.partial_cmp(right),
            },
            // By bytes, as sources send what they like: the order of UTF-8 is that of its characters anyway.
            Literal::Text(right) => Some(self.text()?.cmp(right.as_bytes())),
            Literal::Severity(right) => Some(Severity::from_word(self.text()?)?.cmp(right)),
            Literal::Bool(right) => {
                let left = match self.text() {
                    Some(b"true") => true,
                    Some(b"false") => false,
                    Some(_) => return None,
                    None => match self.number()? {
                        Number::Int(0) => false,
                        Number::Int(1) => true,
                        _ => return None,
                    },
                };
                Some(left.cmp(right))
            }
        }
    }
}

/// Compares an integer of at most 64 bits with a float, without rounding either.
fn compare_int(left: i128, right: f64) -> Option<Ordering> {
    if right.is_nan() {
        return None;
    }
    // The cast saturates, far beyond 64 bits.
    let whole = right.trunc();
    // Equal up to the point: what is behind it decides.
    Some(left.cmp(&(whole as i128)).then(whole.partial_cmp(&right)?))
}
