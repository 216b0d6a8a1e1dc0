//! What fuzz targets reach of the inside; not for anybody else.

use pcp_model::ValueType;
use pcp_pdu::ValueRef;

use crate::tool::json::value_json;

/// A value's bytes, behind the header word of a block, as tools print it with `--json`.
pub fn json_line(value_type: ValueType, bytes: &[u8]) -> String {
    let len = 4 + bytes.len().min(0xff_ffff - 4);
    let header = (value_type.code() as u32) << 24 | len as u32;
    let block = [&header.to_be_bytes(), bytes].concat();
    crate::tool::json::json_line(&value_json(ValueRef::Block(&block), value_type))
}
