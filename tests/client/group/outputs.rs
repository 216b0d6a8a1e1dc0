//! Outputs of both sides in one form, so that they can be compared.

use jumpseat::client::group::{AnyType, Atom, EventHandle, FetchGroup, IndomHandle, ItemHandle};
use jumpseat::model::{PmError, ValueType};

/// What a registration gave at a fetch, as the oracle prints it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Output {
    pub status: i32,
    /// Of items one, without place. Those the output has room for, but which hold no value, are left out.
    pub cells: Vec<Cell>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cell {
    /// Instance and name, or the time of an event.
    pub place: String,
    pub status: i32,
    /// As text, `None` for the sentinel.
    pub value: Option<String>,
}

/// A handle of any kind.
#[derive(Clone, Copy)]
pub(super) enum Handle {
    Item(ItemHandle<AnyType>),
    Indom(IndomHandle<AnyType>),
    Event(EventHandle<AnyType>),
}

/// An answer of the oracle to `fetch`: its code, its time in nanoseconds, and its outputs, which are of these types.
pub(super) fn parse(answer: &str, types: &[ValueType]) -> (i32, i128, Vec<Output>) {
    let mut words = answer.split('\t');
    let code = words.next().and_then(|word| word.parse().ok()).expect("a code comes first");
    let time = words.next().and_then(|word| word.strip_prefix("T ")).expect("then the time");
    let (sec, nsec) = time.split_once(' ').expect("seconds and nanoseconds");
    let number = |word: &str| word.parse::<i128>().expect("a number");
    let time = number(sec) * 1_000_000_000 + number(nsec);
    let outputs: Vec<_> = words.zip(types).map(|(word, to)| parse_output(word, *to)).collect();
    assert_eq!(outputs.len(), types.len(), "{answer}");
    (code, time, outputs)
}

fn parse_output(text: &str, to: ValueType) -> Output {
    let number = |word: &str| word.parse::<i32>().unwrap_or_else(|_| panic!("a number: {text}"));
    let value = |word: &str| (word != sentinel(to)).then(|| word.to_owned());
    let mut words = text.split(' ');
    let kind = words.next().expect("a kind comes first");
    let status = number(words.next().expect("then the status"));
    if kind == "I" {
        let value = words.next().and_then(value);
        return Output { status, cells: vec![Cell { place: String::new(), status, value }] };
    }
    let num = number(words.next().expect("then the number of values"));
    let cells: Vec<&str> = text.split('{').skip(1).map(|cell| cell.trim_end_matches([' ', '}'])).collect();
    let parsed = cells.iter().map(|cell| {
        let words: Vec<&str> = cell.split(' ').collect();
        let [one, two, status, shown] = words[..] else { panic!("four words: {cell}") };
        Cell { place: format!("{one} {two}"), status: number(status), value: value(shown) }
    });
    // libpcp fills all there is room for when there is more, but then says 0 for instances.
    let num = if status == PmError::TOOBIG.0 { cells.len() } else { num as usize };
    Output { status, cells: parsed.take(num).collect() }
}

fn sentinel(to: ValueType) -> &'static str {
    match to {
        ValueType::I32 | ValueType::I64 => "-1",
        ValueType::U32 => "4294967295",
        ValueType::U64 => "18446744073709551615",
        ValueType::Float => "ffc00000",
        ValueType::Double => "fff8000000000000",
        _ => "~",
    }
}

/// Ours, in the same form.
pub(super) fn ours(group: &FetchGroup, handle: Handle, to: ValueType) -> Output {
    let value = |atom: Atom<'_>| Some(show(atom)).filter(|word| word != sentinel(to));
    let code = |result: &Result<_, PmError>| result.as_ref().err().map_or(0, |error| error.0);
    match handle {
        Handle::Item(handle) => {
            let status = group.value(handle).err().map_or(0, |error| error.0);
            let value = group.kept_value(handle).ok().and_then(value);
            Output { status, cells: vec![Cell { place: String::new(), status, value }] }
        }
        Handle::Indom(handle) => {
            let rows = group.kept_rows(handle).expect("the handle is the group's");
            let status = rows.status().err().map_or(0, |error| error.0);
            let cells = rows.map(|row| {
                let name = row.name.map_or("~".to_owned(), |name| format!("={}", hex(name)));
                let place = format!("{} {name}", row.inst);
                Cell { place, status: code(&row.value), value: row.value.ok().and_then(value) }
            });
            Output { status, cells: cells.collect() }
        }
        Handle::Event(handle) => match group.events(handle) {
            Err(error) => Output { status: error.0, cells: Vec::new() },
            Ok(rows) => {
                let status = rows.status().err().map_or(0, |error| error.0);
                let cells = rows.map(|row| {
                    // libpcp leaves the time 0 where there is no value.
                    let place = match row.value.is_ok() {
                        true => format!("{} {}", row.time.sec, row.time.nsec),
                        false => "0 0".to_owned(),
                    };
                    Cell { place, status: code(&row.value), value: row.value.ok().and_then(value) }
                });
                Output { status, cells: cells.collect() }
            }
        },
    }
}

fn show(atom: Atom<'_>) -> String {
    match atom {
        Atom::I32(v) => v.to_string(),
        Atom::U32(v) => v.to_string(),
        Atom::I64(v) => v.to_string(),
        Atom::U64(v) => v.to_string(),
        Atom::Float(v) => format!("{:08x}", v.to_bits()),
        Atom::Double(v) => format!("{:016x}", v.to_bits()),
        Atom::String(v) => format!("={}", hex(v)),
    }
}

fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}
