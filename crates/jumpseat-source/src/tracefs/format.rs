//! The `format` file of an event: its number, and where its fields are in a record.

/// Most fields taken of one event.
const MAX_FIELDS: usize = 256;
/// Largest offset and size believed: a record fits a sub-buffer.
const MAX_EXTENT: usize = 1 << 20;

/// An event as its `format` file describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    /// The number that its records begin with.
    pub id: u16,
    /// `SYSTEM:EVENT`, or what its records shall be called instead.
    pub name: String,
    /// The fields, the common ones first.
    pub fields: Vec<FormatField>,
}

/// A field of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormatField {
    /// As the kernel calls it.
    pub name: String,
    /// Where it is in the record.
    pub offset: usize,
    /// Bytes it has there.
    pub size: usize,
    /// What is there.
    pub kind: FieldKind,
}

/// What a field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// An integer of 1, 2, 4 or 8 bytes.
    Int {
        /// Bytes that count; the others of the field are padding.
        width: u8,
        /// Whether it may be negative.
        signed: bool,
    },
    /// Bytes of this sort, as many as the field has or, with size 0, the rest of the record.
    Array(Element),
    /// Somewhere else in the record, where this word says: the offset in its lower half, the length in its upper.
    Elsewhere {
        /// The offset counts from the end of this field, not from the begin of the record.
        relative: bool,
        /// What is there.
        element: Element,
    },
}

/// What an array is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// Text up to a NUL.
    Text,
    /// Bytes without a meaning known here.
    Bytes,
    /// Integers.
    Int {
        /// Bytes of each.
        width: u8,
        /// Whether they may be negative.
        signed: bool,
    },
    /// A set of numbers, such as CPUs: a bit each.
    Bits,
}

impl Format {
    /// Reads the text of a `format` file. Fields that are not understood are left out.
    ///
    /// # Errors
    /// What is missing: the number, or any field.
    pub fn parse(system: &str, text: &str) -> Result<Format, &'static str> {
        let line = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
        let name = line("name:").ok_or("there is no line \"name:\"")?;
        let id =
            line("ID:").and_then(|id| id.parse().ok()).ok_or("there is no line \"ID:\" with a number")?;
        let print = line("print fmt:").unwrap_or_default();
        let fields: Vec<FormatField> =
            text.lines().filter_map(|line| field(line, print)).take(MAX_FIELDS).collect();
        if fields.is_empty() {
            return Err("there is no field");
        }
        Ok(Format { id, name: format!("{system}:{name}"), fields })
    }

    /// A field by its name.
    pub fn field(&self, name: &str) -> Option<&FormatField> {
        self.fields.iter().find(|field| field.name == name)
    }
}

impl FormatField {
    /// The bytes of the field's value in a record; `None` if the record does not hold them.
    #[inline]
    pub fn bytes<'a>(&self, record: &'a [u8]) -> Option<&'a [u8]> {
        let own = record.get(self.offset..)?;
        match self.kind {
            FieldKind::Int { width, .. } => int_bytes(own, self.size, width),
            FieldKind::Array(_) if self.size == 0 => Some(own),
            FieldKind::Array(_) => own.get(..self.size),
            FieldKind::Elsewhere { relative, .. } => {
                let word = u32::from_ne_bytes(*own.first_chunk::<4>()?);
                let base = if relative { self.offset + self.size } else { 0 };
                let start = base + (word & 0xffff) as usize;
                record.get(start..start + (word >> 16) as usize)
            }
        }
    }

    /// The value of an integer field, its sign extended.
    #[inline]
    pub fn int(&self, record: &[u8]) -> Option<i64> {
        let FieldKind::Int { signed, .. } = self.kind else { return None };
        int(self.bytes(record)?, signed)
    }
}

/// The bytes that count of a padded integer.
#[inline]
fn int_bytes(own: &[u8], size: usize, width: u8) -> Option<&[u8]> {
    let width = usize::from(width);
    let skip = if cfg!(target_endian = "big") { size.checked_sub(width)? } else { 0 };
    own.get(skip..skip + width)
}

/// An integer of this machine's byte order.
#[inline]
pub fn int(bytes: &[u8], signed: bool) -> Option<i64> {
    Some(match (bytes, signed) {
        (&[a], false) => i64::from(a),
        (&[a], true) => i64::from(a as i8),
        (&[a, b], false) => i64::from(u16::from_ne_bytes([a, b])),
        (&[a, b], true) => i64::from(i16::from_ne_bytes([a, b])),
        (&[a, b, c, d], false) => i64::from(u32::from_ne_bytes([a, b, c, d])),
        (&[a, b, c, d], true) => i64::from(i32::from_ne_bytes([a, b, c, d])),
        (&[a, b, c, d, e, f, g, h], _) => i64::from_ne_bytes([a, b, c, d, e, f, g, h]),
        _ => return None,
    })
}

/// A line such as `field:unsigned short common_type;  offset:0;  size:2;  signed:0;`.
fn field(line: &str, print: &str) -> Option<FormatField> {
    let rest = line.trim_start().strip_prefix("field:")?;
    let mut parts = rest.split(';').map(str::trim);
    let declaration = parts.next()?;
    let mut number = |key: &str| parts.next()?.strip_prefix(key)?.parse::<usize>().ok();
    let (offset, size) = (number("offset:")?, number("size:")?);
    let signed = number("signed:").unwrap_or(0) != 0;
    if offset > MAX_EXTENT || size > MAX_EXTENT {
        return None;
    }
    let (type_name, name, array) = declarator(declaration)?;
    let bits = || {
        let has = |word: &str| {
            print.split(word).skip(1).any(|rest| rest.trim_start_matches([' ', '(']).starts_with(name))
        };
        type_name.contains("cpumask_t") || has("__get_bitmask") || has("__get_rel_bitmask")
    };
    let kind = match type_name.split_once(' ') {
        Some((location @ ("__data_loc" | "__rel_loc"), element)) if size == 4 => {
            let element = match bits() {
                true => Element::Bits,
                false => element_of(element.trim_end_matches([']', '[', ' ']), None, signed),
            };
            FieldKind::Elsewhere { relative: location == "__rel_loc", element }
        }
        _ => match (array, size) {
            (Some(_), _) if bits() => FieldKind::Array(Element::Bits),
            (Some(count), _) => {
                let width = count.filter(|count| *count > 0).map(|count| size / count);
                FieldKind::Array(element_of(type_name, width, signed))
            }
            // What a system call takes is widened to a register; the type says what of it counts.
            (None, 8) if matches!(type_name, "int" | "unsigned int") => {
                FieldKind::Int { width: 4, signed: type_name == "int" }
            }
            (None, 1 | 2 | 4 | 8) => FieldKind::Int { width: size as u8, signed },
            (None, 0) => return None,
            (None, _) => FieldKind::Array(Element::Bytes),
        },
    };
    Some(FormatField { name: name.to_owned(), offset, size, kind })
}

/// Type, name, and whether it is an array, with its length if that is a number.
fn declarator(declaration: &str) -> Option<(&str, &str, Option<Option<usize>>)> {
    let (plain, array) = match declaration.strip_suffix(']') {
        Some(array) => {
            let (plain, count) = array.rsplit_once('[')?;
            (plain, Some(count.parse().ok()))
        }
        None => (declaration, None),
    };
    let start = plain.trim_end_matches(|c: char| c.is_ascii_alphanumeric() || c == '_').len();
    let (type_name, name) = plain.split_at(start);
    (!name.is_empty() && !type_name.is_empty()).then_some((type_name.trim(), name, array))
}

/// What an array of this type holds; `width` is that of an element where the declaration tells.
fn element_of(type_name: &str, width: Option<usize>, signed: bool) -> Element {
    let word = type_name.rsplit(' ').next().unwrap_or_default();
    let width = match type_name {
        "char" | "const char" | "signed char" => return Element::Text,
        "unsigned char" | "u8" | "__u8" | "uint8_t" | "s8" | "__s8" => return Element::Bytes,
        _ => width.or(match word {
            "short" | "u16" | "s16" | "__u16" | "__s16" | "__be16" | "__le16" => Some(2),
            "int" | "unsigned" | "u32" | "s32" | "__u32" | "__s32" | "__be32" | "__le32" | "pid_t" => Some(4),
            "u64" | "s64" | "__u64" | "__s64" | "__be64" | "__le64" => Some(8),
            "long" => Some(if type_name.contains("long long") { 8 } else { size_of::<usize>() }),
            _ => None,
        }),
    };
    let signed = signed || matches!(word, "s16" | "s32" | "s64" | "__s16" | "__s32" | "__s64");
    match width {
        Some(width @ (2 | 4 | 8)) if !type_name.starts_with("struct") => {
            Element::Int { width: width as u8, signed }
        }
        _ => Element::Bytes,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Every kind of field, in the words of real `format` files.
    pub(crate) const SAMPLE: &str = "name: sample\nID: 4711\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
        \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
        \tfield:__data_loc char[] filename;\toffset:24;\tsize:4;\tsigned:0;\n\
        \tfield:__rel_loc char[] tail;\toffset:28;\tsize:4;\tsigned:0;\n\
        \tfield:short adj;\toffset:32;\tsize:2;\tsigned:1;\n\
        \tfield:bool yes;\toffset:34;\tsize:1;\tsigned:0;\n\
        \tfield:s8 tiny;\toffset:35;\tsize:1;\tsigned:1;\n\
        \tfield:int dfd;\toffset:40;\tsize:8;\tsigned:0;\n\
        \tfield:const char * where;\toffset:48;\tsize:8;\tsigned:0;\n\
        \tfield:unsigned int list[3];\toffset:56;\tsize:12;\tsigned:0;\n\
        \tfield:__u8 addr[4];\toffset:68;\tsize:4;\tsigned:0;\n\
        \tfield:__data_loc cpumask_t cpus;\toffset:72;\tsize:4;\tsigned:0;\n\
        \tfield:__data_loc unsigned long[] mask;\toffset:76;\tsize:4;\tsigned:0;\n\
        \tfield:long state;\toffset:80;\tsize:8;\tsigned:1;\n\
        \tfield:struct pair both;\toffset:88;\tsize:12;\tsigned:0;\n\n\
        print fmt: \"%s %s\", __get_str(filename), __get_bitmask(mask)\n";

    #[test]
    fn every_kind_of_field_is_understood() {
        let format = Format::parse("test", SAMPLE).unwrap();
        assert_eq!((format.id, format.name.as_str()), (4711, "test:sample"));
        let kind = |name: &str| format.field(name).unwrap_or_else(|| panic!("{name}")).kind;
        let int = |width, signed| FieldKind::Int { width, signed };
        let elsewhere = |relative, element| FieldKind::Elsewhere { relative, element };
        for (name, expected) in [
            ("common_type", int(2, false)),
            ("common_pid", int(4, true)),
            ("comm", FieldKind::Array(Element::Text)),
            ("filename", elsewhere(false, Element::Text)),
            ("tail", elsewhere(true, Element::Text)),
            ("adj", int(2, true)),
            ("yes", int(1, false)),
            ("tiny", int(1, true)),
            ("dfd", int(4, true)),
            ("where", int(8, false)),
            ("list", FieldKind::Array(Element::Int { width: 4, signed: false })),
            ("addr", FieldKind::Array(Element::Bytes)),
            ("cpus", elsewhere(false, Element::Bits)),
            ("mask", elsewhere(false, Element::Bits)),
            ("state", int(8, true)),
            ("both", FieldKind::Array(Element::Bytes)),
        ] {
            assert_eq!(kind(name), expected, "{name}");
        }
    }

    #[test]
    fn locations_beyond_the_record_are_none() {
        let format = Format::parse("test", SAMPLE).unwrap();
        let mut record = vec![0; 100];
        let filename = format.field("filename").unwrap();
        record[24..28].copy_from_slice(&(96u32 | 4 << 16).to_ne_bytes());
        assert_eq!(filename.bytes(&record), Some(&[0; 4][..]));
        record[24..28].copy_from_slice(&(97u32 | 4 << 16).to_ne_bytes());
        assert_eq!(filename.bytes(&record), None);
        assert_eq!(filename.bytes(&record[..26]), None);
        record[28..32].copy_from_slice(&(64u32 | 4 << 16).to_ne_bytes());
        assert_eq!(format.field("tail").unwrap().bytes(&record), Some(&[0; 4][..]));
    }

    #[test]
    fn what_is_missing_is_told() {
        assert_eq!(Format::parse("s", ""), Err("there is no line \"name:\""));
        assert_eq!(Format::parse("s", "name: a\nID: x\n"), Err("there is no line \"ID:\" with a number"));
        assert_eq!(Format::parse("s", "name: a\nID: 5\nformat:\n"), Err("there is no field"));
        assert!(Format::parse("s", &SAMPLE.replace("4711", "70000")).is_err());
    }

    proptest! {
        #[test]
        fn mutated_formats_and_records_never_panic(
            at in 0..SAMPLE.len(), byte in any::<u8>(), cut in 0..SAMPLE.len(),
            record in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            let mut text = SAMPLE.as_bytes().to_vec();
            text[at] = byte;
            text.truncate(cut.max(at));
            if let Ok(format) = Format::parse("s", &String::from_utf8_lossy(&text)) {
                for field in &format.fields {
                    if let Some(bytes) = field.bytes(&record) {
                        prop_assert!(bytes.len() <= record.len());
                    }
                    field.int(&record);
                }
            }
        }
    }
}
