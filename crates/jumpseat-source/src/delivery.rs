//! What a source hands to the core, and how the core takes it.

use crossbeam_channel::Receiver;

use super::origin::{Labels, Origin};
use super::registry::Definition;
use super::spares::Spares;
use jumpseat_log::Mark;
use pcp_event::batch::Batch;
use pcp_model::{Inst, Timestamp};

/// Why input was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum Reason {
    /// Not the JSON it should be.
    Syntax,
    /// Not UTF-8, or a text with a NUL in the binary framing.
    Encoding,
    /// A time that is no time.
    Time,
    /// Nested deeper than [`super::ndjson::MAX_DEPTH`].
    Depth,
    /// A control line or control frame that makes no sense.
    Control,
    /// A binary frame that is cut short, too long, or of an unknown kind.
    Frame,
    /// A binary record that refers to a name never defined.
    Undefined,
    /// A line or frame beyond the limit, refused as configured.
    OversizeLine,
    /// A field beyond the limit, its event refused as configured.
    OversizeField,
    /// A body that is not of the encoding it says.
    Compression,
    /// A request that HTTP or gRPC does not allow, or that is for nothing there is here.
    Protocol,
    /// Not the protobuf it should be, or a span without what a span must have.
    Body,
    /// A line that the pattern of its file or command does not match.
    Unmatched,
    /// A number of a data point that cannot be: not finite, a negative count, bounds out of order.
    Number,
    /// A data point that comes after a newer one of its series, or twice.
    Order,
    /// A data point of a metric or series beyond the limits that has no overflow instance to go into.
    Limit,
}

impl Reason {
    /// Every reason, in the order of [`Tallies::rejected`].
    pub const ALL: [Reason; 16] = [
        Reason::Syntax,
        Reason::Encoding,
        Reason::Time,
        Reason::Depth,
        Reason::Control,
        Reason::Frame,
        Reason::Undefined,
        Reason::OversizeLine,
        Reason::OversizeField,
        Reason::Compression,
        Reason::Protocol,
        Reason::Body,
        Reason::Unmatched,
        Reason::Number,
        Reason::Order,
        Reason::Limit,
    ];
    /// How many there are.
    pub const COUNT: usize = Reason::ALL.len();

    /// The word for metrics, messages and the protocol.
    pub const fn word(self) -> &'static str {
        match self {
            Reason::Syntax => "syntax",
            Reason::Encoding => "encoding",
            Reason::Time => "time",
            Reason::Depth => "depth",
            Reason::Control => "control",
            Reason::Frame => "frame",
            Reason::Undefined => "undefined",
            Reason::OversizeLine => "oversize_line",
            Reason::OversizeField => "oversize_field",
            Reason::Compression => "compression",
            Reason::Protocol => "protocol",
            Reason::Body => "body",
            Reason::Unmatched => "unmatched",
            Reason::Number => "number",
            Reason::Order => "order",
            Reason::Limit => "limit",
        }
    }
}

/// Why a record was dropped. These are not losses: somebody asked for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Its source is switched off.
    Disabled,
    /// It did not pass its source's filter.
    Filtered,
    /// It was not in the sample.
    Sampled,
}

impl Cause {
    /// Every cause, in the order of [`Tallies::dropped`].
    pub const ALL: [Cause; 3] = [Cause::Disabled, Cause::Filtered, Cause::Sampled];
    /// How many there are.
    pub const COUNT: usize = Cause::ALL.len();

    /// The word for metrics.
    pub const fn word(self) -> &'static str {
        match self {
            Cause::Disabled => "disabled",
            Cause::Filtered => "filtered",
            Cause::Sampled => "sampled",
        }
    }
}

/// What happened to one source's input since its last delivery.
// What each record counts comes first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Tallies {
    /// Events taken in: the records of this batch, those in [`Delivery::missed`] that the source itself lost, and
    /// those dropped. (What a sender says it lost was never received.) Records that are held to be put in order
    /// count when they leave.
    pub received: u64,
    /// Of these, the events dropped because somebody asked for it, indexed by [`Cause`].
    pub dropped: [u64; Cause::COUNT],
    /// Events taken in whose time is too far ahead, too far behind, or too late for the order window.
    pub future: u64,
    /// See [`Tallies::future`].
    pub past: u64,
    /// See [`Tallies::future`].
    pub late: u64,
    /// Bytes of input from connections of this source, refused input included, and of lines of others that name it for
    /// themselves.
    pub bytes: u64,
    /// Events refused, indexed by [`Reason`].
    pub rejected: [u64; Reason::COUNT],
    /// Events taken in with a cut line or a cut field.
    pub truncated: u64,
    /// Records that were there already, and were dropped.
    pub repeated: u64,
    /// Fields stored in the catch-all field because no more fields may be defined.
    pub folded: u64,
    /// Events per (source, event type) pair; only pairs with events. Those dropped count, too, and those held count
    /// at once.
    pub types: Vec<(Inst, u64)>,
}

impl Tallies {
    /// Events refused for any reason.
    pub fn rejected_total(&self) -> u64 {
        self.rejected.iter().sum()
    }
}

/// Most lost records a sender is believed at a time.
pub const MAX_SENDER_LOSS: u64 = 1 << 32;

/// Records lost before they could be handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// How many.
    pub count: u64,
    /// How many of them were taken in and then lost here; the others the sender said it lost.
    pub received: u64,
    /// The time of the newest of them.
    pub time: Timestamp,
}

/// The number of a connection, as far as the accounting goes: unique among the live connections of a thread.
pub type ConnId = u32;

/// How an event got here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrival {
    /// The connection, for the account of what it lost.
    pub conn: ConnId,
    /// When its bytes were read, in real time: the time of events that have none, and what other times are checked
    /// against. The default is no time, against which nothing is checked.
    pub time: Timestamp,
}

/// The process at the other end of a connection, as the kernel vouches for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Process id.
    pub pid: i32,
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
}

/// One hand-over from a source to the core. Order within: what was missed, then the batch.
#[derive(Debug)]
pub struct Delivery {
    /// The source's instance id.
    pub source: Inst,
    /// Lost before this batch's first record.
    pub missed: Option<Loss>,
    /// The records, oldest first. May be empty when there is only accounting to tell.
    pub batch: Batch,
    /// The accounting.
    pub tallies: Tallies,
    /// The sequence number that the log on disk has given to the first of the lost ones, or to the first record if none is.
    pub logged: Option<u64>,
    /// Marks that have moved because of these records and losses, for the log on disk.
    pub marks: Vec<Mark>,
    /// How many of the records are of numbered streams.
    pub numbered: u32,
    /// Who sent last.
    pub peer: Option<Peer>,
    /// Where the records come from, if that is news.
    pub origin: Option<Box<Origin>>,
    /// What else is known of the source, for its labels, if that is news.
    pub labels: Option<Box<Labels>>,
    /// Where the batch's memory goes when it is not needed any more.
    pub home: Option<Spares>,
}

/// The core's end of both channels.
#[derive(Debug)]
pub struct Inlet {
    definitions: Receiver<Definition>,
    deliveries: Receiver<Delivery>,
}

impl Inlet {
    /// Puts the two receivers together.
    pub fn new(definitions: Receiver<Definition>, deliveries: Receiver<Delivery>) -> Inlet {
        Inlet { definitions, deliveries }
    }

    /// Takes the next delivery, if there is one. Every name it uses has been given to `define` by then:
    /// a source sends a definition before the delivery that needs it, so the definitions are drained
    /// after the delivery was taken and before it is returned. Never blocks, takes no lock.
    pub fn take(&self, mut define: impl FnMut(Definition)) -> Option<Delivery> {
        let delivery = self.deliveries.try_recv().ok();
        self.definitions.try_iter().for_each(&mut define);
        delivery
    }

    /// Takes no more deliveries, and none of those that wait: sources know that there is no core any more, and lose nothing
    /// to one that is slow. What they hand over is in the log on disk for the next one.
    pub fn close(&mut self) {
        self.deliveries = crossbeam_channel::never();
    }

    /// Deliveries waiting.
    pub fn waiting(&self) -> usize {
        self.deliveries.len()
    }
}
