//! The event records of a host as they come, of any agent.
//!
//! ```text
//! cargo run --example events -- [HOST [METRIC [RECORDS]]]
//! cargo run --example events -- 127.0.0.1:44399 jumpseat.event.highres_records 10
//! ```
//!
//! What comes from now on is shown, until there were as many records as asked for.

use std::error::Error;
use std::time::Duration;

use jumpseat::client::{Context, EventReader, EventRecord};
use jumpseat::event::EventFlags;

const INTERVAL: Duration = Duration::from_millis(200);

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let host = args.next().unwrap_or_else(|| "local:".to_owned());
    let metric = args.next().unwrap_or_else(|| "jumpseat.event.highres_records".to_owned());
    let wanted: usize = args.next().map_or(Ok(usize::MAX), |count| count.parse())?;

    let mut context = Context::host(&host)?;
    let mut reader = EventReader::new(&mut context, &metric)?;
    // The first fetch takes a place in the records: what comes after it is seen, each record once.
    reader.fetch(&mut context)?;
    eprintln!("waiting for records of {metric} on {}", context.host_name()?);
    let mut seen = 0;
    while seen < wanted {
        for record in reader.fetch(&mut context)? {
            show(&record);
            seen += 1;
        }
        std::thread::sleep(INTERVAL);
    }
    Ok(())
}

fn show(record: &EventRecord) {
    let source = record.instance.as_deref().unwrap_or("-");
    if let Some(count) = record.missed {
        println!("{} {source}: {count} records were lost here", record.time);
        return;
    }
    let phase = match record.flags {
        flags if flags.contains(EventFlags::START) => "+",
        flags if flags.contains(EventFlags::END) => "-",
        _ => " ",
    };
    let message = record.get("message").map_or(String::new(), ToString::to_string);
    let others = record.fields.iter().filter(|field| !field.name.ends_with(".message"));
    // The last word of a field's name, which says enough to who knows the program.
    let others =
        others.map(|field| format!(" {}={}", field.name.rsplit('.').next().unwrap_or_default(), field.value));
    println!("{} {phase} {source}: {message}{}", record.time, others.collect::<String>());
}
