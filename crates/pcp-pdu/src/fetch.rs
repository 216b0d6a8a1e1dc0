//! FETCH and HIGHRES_FETCH (`docs/pcp/wire.md` 10).
//!
//! ```text
//! 12 ctxid i32 | 16 zero (8, formerly a time) | 24 numpmid i32 | 28 numpmid x pmid u32
//! ```

use super::codec::{Reader, Writer};
use super::fault::{EncodeError, PduError, Problem, Unsendable};
use pcp_model::Pmid;

const PMID_LEN: usize = 4;
const TIME_LEN: usize = 8;

/// Asks for the values of metrics, in that order; a metric asked for twice is answered twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// The context whose profile applies; the client's own small number.
    pub ctxid: i32,
    /// The metrics, at least one.
    pub pmids: Vec<Pmid>,
}

impl Fetch {
    pub(super) fn decode(r: &mut Reader<'_>) -> Result<Fetch, PduError> {
        let ctxid = r.i32("ctxid")?;
        r.take("time", TIME_LEN)?;
        let count = r.count("numpmid", PMID_LEN)?;
        if count == 0 {
            return Err(r.error_before(Problem::Count { field: "numpmid", count: 0 }));
        }
        let mut pmids = Vec::with_capacity(count);
        for _ in 0..count {
            pmids.push(Pmid(r.u32("pmid")?));
        }
        r.finish()?;
        Ok(Fetch { ctxid, pmids })
    }

    pub(super) fn encode(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        if self.pmids.is_empty() {
            return Err(w.error(Unsendable::Empty { field: "metric list" }));
        }
        w.reserve(self.pmids.len() * PMID_LEN);
        w.i32(self.ctxid);
        w.bytes(&[0; TIME_LEN]);
        w.count("numpmid", self.pmids.len())?;
        self.pmids.iter().for_each(|pmid| w.u32(pmid.0));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::codec::testing::*;
    use crate::{Pdu, kind};

    #[test]
    fn captures() {
        let fetch = Fetch { ctxid: 0, pmids: vec![Pmid(0x0740_000a)] };
        captured(
            "00000020 00007003 00000000 00000000 00000000 00000000 00000001 0740000a",
            &Pdu::Fetch(fetch.clone()),
        );
        captured(
            "00000020 00007014 00000000 00000000 00000000 00000000 00000001 0740000a",
            &Pdu::HighResFetch(fetch),
        );
        let two = Fetch { ctxid: 3, pmids: vec![Pmid(0x3e80_0001), Pmid(0x3e80_0002)] };
        captured(
            "00000024 00007003 00000002 00000003 00000000 00000000 00000002 3e800001 3e800002",
            &Pdu::Fetch(two),
        );
    }

    #[test]
    fn the_length_must_be_exact() {
        let fetch = |rest: &str| body(kind::FETCH, &format!("00000000 00000000 00000000 {rest}"));
        let count = |count| Problem::Count { field: "numpmid", count };
        refused(&fetch("00000000"), 24, count(0));
        refused(&fetch("ffffffff 00000001"), 24, count(-1));
        refused(&fetch("7fffffff 00000001"), 24, count(i32::MAX));
        refused(&fetch("00000002 00000001"), 24, count(2));
        refused(&fetch("00000001 00000001 00000002"), 32, Problem::Trailing { extra: 4 });
        refused(&fetch(""), 24, Problem::Truncated { field: "numpmid", need: 4, have: 0 });
    }

    proptest! {
        #[test]
        fn round_trips(ctxid: i32, words in prop::collection::vec(any::<u32>(), 1..200)) {
            let fetch = Fetch { ctxid, pmids: words.into_iter().map(Pmid).collect() };
            round_trip(&Pdu::Fetch(fetch.clone()));
            round_trip(&Pdu::HighResFetch(fetch));
        }
    }
}
