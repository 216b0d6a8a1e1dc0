//! What an archive holds: its span, the course of a metric, and event records, each to its end.
//!
//! ```text
//! cargo run --example archive -- ARCHIVE [METRIC]...
//! ```
//!
//! Numbers are shown as `jumpseat val` would, counters as rates; metrics of event records by record.

use std::error::Error;

use jumpseat::client::Context;
use jumpseat::client::group::{AnyType, FetchGroup};
use jumpseat::model::ValueType;

/// Instances shown of a metric.
const MAX: usize = 100;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let name = args.next().ok_or("usage: archive ARCHIVE [METRIC]...")?;
    let mut archive = Context::archive(&name)?;
    let (start, end) = archive.span()?;
    println!("{}, from {start} to {end}", archive.host_name()?);
    for metric in args {
        let pmid = archive.pmid(&metric)?;
        match archive.desc(pmid)?.value_type {
            ValueType::Event | ValueType::HighResEvent => show_events(&name, &metric)?,
            _ => show_values(&name, &metric)?,
        }
    }
    Ok(())
}

fn show_values(archive: &str, metric: &str) -> Result<(), Box<dyn Error>> {
    let mut group = FetchGroup::new(Context::archive(archive)?);
    let values = group.indom::<AnyType>(metric, None, MAX)?;
    // False is the end. What cannot be read is an error, and ends the program with it.
    while group.fetch_next()? {
        let time = group.timestamp().unwrap_or_default();
        // Of this metric at this time, such as a rate that needs another sample.
        let rows = match group.rows(values) {
            Ok(rows) => rows,
            Err(why) => {
                println!("{time} {metric}: {why}");
                continue;
            }
        };
        for row in rows {
            let name = row.name.map_or(String::new(), |name| format!("[{name}]"));
            match row.value {
                Ok(value) => println!("{time} {metric}{name} {value}"),
                Err(why) => println!("{time} {metric}{name}: {why}"),
            }
        }
    }
    Ok(())
}

fn show_events(archive: &str, metric: &str) -> Result<(), Box<dyn Error>> {
    let mut archive = Context::archive(archive)?;
    for record in archive.event_records(metric)? {
        let record = record?;
        let source = record.instance.as_deref().unwrap_or(metric);
        match record.missed {
            Some(count) => println!("{} {source}: {count} records were lost here", record.time),
            None => {
                let fields: Vec<String> =
                    record.fields.iter().map(|field| format!("{}={}", field.name, field.value)).collect();
                println!("{} {source} {}", record.time, fields.join(" "));
            }
        }
    }
    Ok(())
}
