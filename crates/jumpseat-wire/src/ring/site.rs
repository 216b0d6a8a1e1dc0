//! What the messages of one place in a program have in common.
//!
//! ```text
//! site := length u32 (of what follows) | severity u8 | line u32 | name | target | file | field*
//! name, target, file, field := length u16 | text
//! ```

use crate::severity::Severity;

/// A place in the program's code: messages name it by its number, from 0 in the order of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// The event type.
    pub name: Box<[u8]>,
    /// How bad it is.
    pub severity: Severity,
    /// The part of the program, if the event type is another.
    pub target: Box<[u8]>,
    /// The file of the place; empty if it is not known.
    pub file: Box<[u8]>,
    /// The line in it, from 1 on; 0 if it is not known.
    pub line: u32,
    /// The names of its fields.
    pub fields: Vec<Box<[u8]>>,
}

impl Site {
    /// Appends it to a table.
    pub fn put(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        out.push(self.severity.code());
        out.extend_from_slice(&self.line.to_ne_bytes());
        put_name(&self.name, out);
        put_name(&self.target, out);
        put_name(&self.file, out);
        self.fields.iter().for_each(|field| put_name(field, out));
        let length = (out.len() - start - 4) as u32;
        out[start..start + 4].copy_from_slice(&length.to_ne_bytes());
    }
}

fn put_name(name: &[u8], out: &mut Vec<u8>) {
    // Longer ones cannot be sent, which the encoder says as long as they are too long.
    let name = &name[..name.len().min(usize::from(u16::MAX))];
    out.extend_from_slice(&(name.len() as u16).to_ne_bytes());
    out.extend_from_slice(name);
}

/// How many bytes the site takes that a table begins with. `None`: it is not whole.
pub fn extent(table: &[u8]) -> Option<usize> {
    let (length, after) = table.split_first_chunk::<4>()?;
    let length = u32::from_ne_bytes(*length) as usize;
    (length <= after.len()).then_some(length + 4)
}

/// The site that a table begins with, if it makes sense: work in the order of its bytes.
pub fn read(table: &[u8]) -> Option<Site> {
    let site = table.get(4..extent(table)?)?;
    let (severity, site) = site.split_first()?;
    let severity = Severity::from_code(*severity)?;
    let (line, mut names) = site.split_first_chunk()?;
    let line = u32::from_ne_bytes(*line);
    let [name, target, file] = [next_name(&mut names)?, next_name(&mut names)?, next_name(&mut names)?];
    let fields = std::iter::from_fn(|| next_name(&mut names)).collect();
    Some(Site { name, severity, target, file, line, fields })
}

fn next_name(names: &mut &[u8]) -> Option<Box<[u8]>> {
    let (length, rest) = names.split_first_chunk()?;
    let (name, rest) = rest.split_at_checked(u16::from_ne_bytes(*length).into())?;
    *names = rest;
    Some(name.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_read_as_far_as_it_makes_sense() {
        let site = |name: &str, fields: &[&str]| Site {
            name: name.as_bytes().into(),
            severity: Severity::Warning,
            target: b"shop::stock"[..].into(),
            file: b"src/stock.rs"[..].into(),
            line: 42,
            fields: fields.iter().map(|field| field.as_bytes().into()).collect(),
        };
        let [first, second] = [site("shop", &["message", "left"]), site("", &[])];
        let mut table = Vec::new();
        first.put(&mut table);
        let of_first = table.len();
        second.put(&mut table);
        assert_eq!((extent(&table), read(&table).as_ref()), (Some(of_first), Some(&first)));
        assert_eq!(read(&table[of_first..]).as_ref(), Some(&second));
        let cut = &table[of_first..table.len() - 1];
        assert_eq!((extent(cut), read(cut)), (None, None));
        assert_eq!(read(&[0xff; 40]), None);
    }
}
