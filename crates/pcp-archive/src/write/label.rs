//! The label record in front of every file (`docs/pcp/archive.md` 4).
//!
//! ```text
//! 0 len 808 | 4 magic | 8 pid | 12 start 12 | 24 volume | 28 features | 32 reserved
//! | 36 host 256 | 292 zone 256 | 548 zoneinfo 256 | 804 len
//! ```

use bytes::BufMut;

use super::put_stamp;
use pcp_model::Timestamp;
use pcp_model::text::cut;

/// Bytes of a label.
pub(super) const LABEL_LEN: usize = 808;

/// The second word of a label of version 3.
pub(super) const MAGIC: u32 = 0x5005_2603;
const TEXT_LEN: usize = 256;

/// What an archive says about itself. It starts with its first record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelInfo {
    /// The host whose metrics these are, up to 255 bytes as the others.
    pub host: String,
    /// Its time zone as `$TZ` has it (`UTC`, `CET-1CEST`).
    pub zone: String,
    /// Its time zone by name (`:Europe/Paris`); may be empty.
    pub zone_info: String,
    /// The process that records.
    pub pid: i32,
}

/// Which file a label is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Meta,
    Index,
    Volume(u32),
}

impl LabelInfo {
    /// The label record of an archive that starts at that time.
    pub(super) fn encode(&self, start: Timestamp, role: Role) -> [u8; LABEL_LEN] {
        let mut label = [0; LABEL_LEN];
        let mut out = &mut label[..];
        out.put_u32(LABEL_LEN as u32);
        out.put_u32(MAGIC);
        out.put_i32(self.pid);
        put_stamp(&mut out, start);
        out.put_i32(match role {
            Role::Meta => -1,
            Role::Index => -2,
            Role::Volume(number) => number as i32,
        });
        out.put_u64(0);
        for text in [&self.host, &self.zone, &self.zone_info] {
            // A NUL at the end belongs to the field.
            let kept = cut(text, TEXT_LEN - 1);
            out.put_slice(kept.as_bytes());
            out.put_bytes(0, TEXT_LEN - kept.len());
        }
        out.put_u32(LABEL_LEN as u32);
        label
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout() {
        let info =
            LabelInfo { host: "é".repeat(200), zone: "UTC".into(), zone_info: String::new(), pid: 258 };
        let label = info.encode(Timestamp::new(5_000_000_000, 7), Role::Index);
        let head = [0, 0, 3, 40, 0x50, 5, 0x26, 3, 0, 0, 1, 2, 0x2a, 5, 0xf2, 0, 0, 0, 0, 1, 0, 0, 0, 7];
        assert_eq!(label[..24], head);
        assert_eq!(label[24..36], [255, 255, 255, 254, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(label[36..292].iter().position(|&byte| byte == 0), Some(254), "whole characters only");
        assert_eq!(&label[292..296], b"UTC\0");
        assert_eq!(label[804..], [0, 0, 3, 40]);
    }
}
