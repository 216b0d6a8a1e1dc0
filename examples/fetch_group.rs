//! Rates and events of a host, once a second, by a fetch group.
//!
//! ```text
//! cargo run --example fetch_group -- HOST [METRIC [SCALE]]...
//! cargo run --example fetch_group -- local: disk.dev.read_bytes 'Mbyte / sec' kernel.all.load ''
//! ```
//!
//! An empty scale is none.

use std::error::Error;
use std::time::Duration;

use jumpseat::client::StateChange;
use jumpseat::client::group::{AnyType, Atom, FetchGroup, IndomHandle, Row};

/// Instances shown of a metric.
const MAX: usize = 20;
const FETCHES: usize = 5;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let host = args.next().unwrap_or_else(|| "local:".to_owned());
    let mut group = FetchGroup::host(&host)?;
    // A metric without instances is a domain of one.
    let mut metrics: Vec<(String, IndomHandle<AnyType>)> = Vec::new();
    while let Some(metric) = args.next() {
        let scale = args.next().filter(|scale| !scale.is_empty());
        let handle = group.indom(&metric, scale.as_deref(), MAX)?;
        metrics.push((metric, handle));
    }
    if metrics.is_empty() {
        metrics.push(("pmcd.pdu_in.total".to_owned(), group.indom("pmcd.pdu_in.total", "count / min", MAX)?));
        metrics.push(("pmcd.agent.status".to_owned(), group.indom("pmcd.agent.status", "instant", MAX)?));
    }

    for fetch in 0..FETCHES {
        if fetch > 0 {
            std::thread::sleep(Duration::from_secs(1));
        }
        let changes = group.fetch()?;
        if let Some(time) = group.timestamp() {
            println!("--- {}.{:03}", time.sec, time.nsec / 1_000_000);
        }
        if changes != StateChange::default() {
            println!("agents or metrics have come or gone: {changes:?}");
        }
        for (metric, handle) in &metrics {
            match group.rows(*handle) {
                Ok(rows) => rows.for_each(|row| println!("{metric}{}", show(&row))),
                Err(error) => println!("{metric}: {error}"),
            }
        }
    }
    Ok(())
}

fn show(row: &Row<'_, Atom<'_>>) -> String {
    let name = row.name.map_or(String::new(), |name| format!("[{name}]"));
    match &row.value {
        Ok(value) => format!("{name} {value}"),
        Err(error) => format!("{name} -- {error}"),
    }
}
