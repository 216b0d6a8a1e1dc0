//! The label record in front of every file (`docs/pcp/archive.md` 4).
//!
//! ```text
//! V2  0 len 132 | 4 magic | 8 pid | 12 start 8 | 20 volume | 24 host 64  | 88 zone 40   | 128 len
//! V3  0 len 808 | 4 magic | 8 pid | 12 start 12 | 24 volume | 28 features | 32 reserved
//!     | 36 host 256 | 292 zone 256 | 548 zoneinfo 256 | 804 len
//! ```

use super::error::Problem;
use super::fields::{Fields, Stamp};
use pcp_model::Timestamp;

/// An archive's label (`pmLogLabel`): what it is of, not what [`pcp_model::Label`]s say of its metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLabel {
    /// Version of the format: 2 or 3.
    pub version: u8,
    /// Process id of the logger.
    pub pid: i32,
    /// When the archive starts.
    pub start: Timestamp,
    /// The host whose metrics these are.
    pub host: String,
    /// Its time zone, as in `$TZ`.
    pub zone: String,
    /// Its time zone as a name (`:Europe/Paris`); empty in version 2.
    pub zone_info: String,
    /// Feature bits, 0 in version 2. No bit has a meaning yet.
    pub features: u32,
}

/// Which file a label belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Role {
    Meta,
    Index,
    Volume(u32),
}

/// Length of the longest label.
pub(super) const MAX_LABEL: usize = V3_LEN as usize;

const V2_LEN: u32 = 132;
const V3_LEN: u32 = 808;
const MAGIC: u32 = 0x5005_2600;
const V2_HOST: usize = 64;
const V2_ZONE: usize = 40;
const V3_TEXT: usize = 256;

impl LogLabel {
    /// Bytes of the label record.
    pub(super) fn len(&self) -> u64 {
        u64::from(if self.version == 2 { V2_LEN } else { V3_LEN })
    }

    /// The stamps in the data volumes and the index.
    pub(super) fn stamp(&self) -> Stamp {
        if self.version == 2 { Stamp::Micro } else { Stamp::Nano }
    }

    /// Whether a file with this label belongs to the archive with that one.
    pub(super) fn same_logger(&self, other: &LogLabel) -> bool {
        self.version == other.version && self.pid == other.pid && self.host == other.host
    }

    /// Decodes the label in the first bytes of a file.
    pub(super) fn decode(bytes: &[u8], role: Role) -> Result<LogLabel, Problem> {
        let mut fields = Fields(bytes);
        let (Some(len), Some(magic)) = (fields.u32(), fields.u32()) else { return Err(Problem::NoData) };
        let version = match (len, magic) {
            (V2_LEN, magic) if magic == MAGIC | 2 => 2,
            (V3_LEN, magic) if magic == MAGIC | 3 => 3,
            _ if magic & !0xff != MAGIC => return Err(Problem::Label("not a PCP archive")),
            _ if !matches!(magic & 0xff, 2 | 3) => return Err(Problem::Label("version not supported")),
            _ => return Err(Problem::Label("wrong length")),
        };
        let (label, volume, trailer) =
            LogLabel::fields(version, &mut fields).ok_or(Problem::Label("truncated"))?;
        if trailer != len {
            return Err(Problem::Label("length at its end differs from that at its start"));
        }
        let expected = match role {
            Role::Meta => -1,
            Role::Index => -2,
            Role::Volume(number) => i64::from(number),
        };
        if i64::from(volume) != expected {
            return Err(Problem::Label("of another file of the archive"));
        }
        Ok(label)
    }

    fn fields(version: u8, fields: &mut Fields<'_>) -> Option<(LogLabel, i32, u32)> {
        let pid = fields.i32()?;
        let (start, volume, features, host, zone, zone_info);
        if version == 2 {
            start = fields.stamp(Stamp::Micro)?;
            volume = fields.i32()?;
            features = 0;
            host = text(fields.bytes(V2_HOST)?);
            zone = text(fields.bytes(V2_ZONE)?);
            zone_info = String::new();
        } else {
            start = fields.stamp(Stamp::Nano)?;
            volume = fields.i32()?;
            features = fields.u32()?;
            fields.u32()?;
            host = text(fields.bytes(V3_TEXT)?);
            zone = text(fields.bytes(V3_TEXT)?);
            zone_info = text(fields.bytes(V3_TEXT)?);
        }
        let trailer = fields.u32()?;
        Some((LogLabel { version, pid, start, host, zone, zone_info, features }, volume, trailer))
    }
}

/// A text filled up with NULs; its last byte is never part of it.
fn text(field: &[u8]) -> String {
    let field = &field[..field.len().saturating_sub(1)];
    let end = field.iter().position(|&byte| byte == 0).unwrap_or(field.len());
    String::from_utf8_lossy(&field[..end]).into_owned()
}
