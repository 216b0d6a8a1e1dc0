//! pmproxy's page (`docs/pcp/webapi.md` 8):
//!
//! ```text
//! # PCP5 sample.long.bin_ctr 29.0.104 32 29.2 counter Kbyte
//! # HELP sample_long_bin_ctr one-line help text
//! # TYPE sample_long_bin_ctr counter
//! sample_long_bin_ctr{bin="100",hostname="vm",instid="100",instname="bin-100"} 100
//! ```

use std::fmt::Write as _;

use jumpseat_tools::exposition::{name, push_escaped, push_labels};
use pcp_model::c_number::general;
use pcp_model::{Desc, Number, Semantics, Timestamp};
use pcp_pdu::TypedRef;

use super::text::number;
use super::{Metric, Page, Value};
use crate::server::pmapi::call::{MAX_ANSWER, Output};
use crate::server::pmapi::values::{DOUBLE_DIGITS, FLOAT_DIGITS};
use crate::server::words::{type_word, units};

pub(super) struct Plain {
    out: String,
    /// What dots become.
    joint: char,
    times: bool,
}

impl Plain {
    pub(super) fn new(joint: char, times: bool) -> Plain {
        Plain { out: String::new(), joint, times }
    }
}

impl Page for Plain {
    fn takes(&self, _: &str, desc: &Desc) -> bool {
        desc.value_type.is_numeric()
    }

    fn has_optional_labels(&self) -> bool {
        true
    }

    fn groups(&self, _: &mut Vec<String>) -> Vec<Vec<String>> {
        Vec::new()
    }

    fn add(&mut self, metric: &Metric<'_>, values: &[Value<'_>], time: Timestamp) {
        let (desc, out) = (&metric.desc, &mut self.out);
        let name = name(metric.name, self.joint);
        let (sem, units) = (desc.semantics.name(), units(desc));
        // Memory takes everything.
        let _ = match self.joint {
            '_' => {
                let (pmid, indom, kind) = (desc.pmid, desc.indom, type_word(desc.value_type));
                writeln!(out, "# PCP5 {} {pmid} {kind} {indom} {sem} {units}", metric.name)
            }
            _ => writeln!(out, "# PCP {} {sem} {units}", metric.name),
        };
        if let Some(text) = &metric.one_line {
            let _ = write!(out, "# HELP {name} ");
            push_escaped(text, false, out);
            out.push('\n');
        }
        let kind = if desc.semantics == Semantics::Counter { "counter" } else { "gauge" };
        let _ = writeln!(out, "# TYPE {name} {kind}");
        for Value { value, instance, labels: known } in values {
            if out.len() > MAX_ANSWER {
                return;
            }
            let TypedRef::Number(value) = value else { continue };
            let mut known = known.clone();
            if let Some((inst, name)) = instance {
                known.entry("instname".to_owned()).or_insert_with(|| (*name).to_owned());
                known.entry("instid".to_owned()).or_insert_with(|| inst.cast_unsigned().to_string());
            }
            out.push_str(&name);
            push_labels(known.iter().map(|(name, value)| (name.as_str(), value.as_str())), out);
            let digits = if matches!(value, Number::Float(_)) { FLOAT_DIGITS } else { DOUBLE_DIGITS };
            let _ = write!(out, " {}", number(*value, |value| general(value, digits)));
            if self.times {
                let _ = write!(out, " {}", time.as_nanos().div_euclid(1_000_000));
            }
            out.push('\n');
        }
    }

    fn end_of_group(&mut self) {}

    fn len(&self) -> usize {
        self.out.len()
    }

    fn finish(self: Box<Self>) -> Output {
        Output::text("text/plain", self.out.into_bytes())
    }
}
