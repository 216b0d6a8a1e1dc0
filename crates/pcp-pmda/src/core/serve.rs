//! The core as connections see it: without its state's type, so that they are compiled once.

use super::{Core, Generations};
use crate::call::{Attributes, ClientId};
use crate::indom::Instances;
use crate::labels::LabelSubject;
use crate::pmcd::PmcdEvent;
use pcp_model::{Desc, InDom, LabelSet, PmError, Pmid, Profile, Timestamp};
use pcp_pdu::{EncodeError, RawValueSet, ResultWriter, TextLevel};

macro_rules! serve {
    ($($(#[$doc:meta])* fn $name:ident(&mut self $(, $arg:ident: $type:ty)*) $(-> $ret:ty)?;)*) => {
        /// What an agent can be asked; see the methods of the same names of [`Core`].
        pub(in crate) trait Serve {
            $(fn $name(&mut self $(, $arg: $type)*) $(-> $ret)?;)*
        }

        impl<S> Serve for Core<S> {
            $(fn $name(&mut self $(, $arg: $type)*) $(-> $ret)? {
                Core::$name(self $(, $arg)*)
            })*
        }
    };
}

serve! {
    fn domain(&mut self) -> u16;
    fn generations(&mut self) -> Generations;
    fn client_open(&mut self) -> ClientId;
    fn client_close(&mut self, client: ClientId);
    fn attributes_mut(&mut self, client: ClientId) -> Option<&mut Attributes>;
    fn pmcd_event(&mut self, event: PmcdEvent<'_>);
    fn introduce(&mut self, client: ClientId, slot: i32);
    fn begin_answer(&mut self) -> bool;
    fn pmid(&mut self, name: &str) -> Result<Pmid, PmError>;
    fn names(&mut self, pmid: Pmid) -> Result<Vec<String>, PmError>;
    fn children(&mut self, name: &str) -> Result<Vec<(String, bool)>, PmError>;
    fn traverse(&mut self, name: &str) -> Result<Vec<String>, PmError>;
    fn desc(&mut self, pmid: Pmid) -> Result<Desc, PmError>;
    fn instances(&mut self, indom: InDom) -> Result<&Instances, PmError>;
    fn metric_text(&mut self, pmid: Pmid, level: TextLevel) -> Result<String, PmError>;
    fn indom_text(&mut self, indom: InDom, level: TextLevel) -> Result<String, PmError>;
    fn labels(&mut self, subject: LabelSubject) -> Result<Vec<LabelSet>, PmError>;
    fn instance_labels(&mut self, indom: InDom) -> Result<Vec<LabelSet>, PmError>;
    fn begin_fetch(&mut self, time: Timestamp);
    fn fetch(&mut self, client: ClientId, profile: &Profile, pmid: Pmid, out: &mut ResultWriter)
        -> Result<(), EncodeError>;
    fn store(&mut self, client: ClientId, set: &RawValueSet) -> Result<(), PmError>;
}
