//! `jumpseat log`: the records that an agent keeps on disk: which there are, whether they are whole, and room for others.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

use clap::{Args, Subcommand};
use jumpseat_log::inspect::{self, SegmentReport, Wrong};
use jumpseat_source::registry::{field_pmid, known_names};
use jumpseat_tools::complain;
use pcp_event::batch::record_time;
use pcp_event::{EventFlags, packed};
use pcp_model::{Timestamp, ValueType};
use serde_json::{Map, Value, json};

use crate::names::{Identifiers, instant};
use crate::say::sayln;

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct LogArgs {
    #[command(subcommand)]
    command: Option<LogCommand>,
    #[command(flatten)]
    place: Place,
}

#[derive(Subcommand)]
enum LogCommand {
    /// List the sources, and what there is of each. Also without a command.
    List(Place),
    /// Print the records of a source, one JSON object a line, as `jumpseat feed` takes them.
    Show(ShowArgs),
    /// Look at every byte, and tell what is damaged, where, and what is missing because of it.
    Verify(Place),
    /// Remove the oldest records. For the time when no agent uses them.
    Trim(TrimArgs),
}

#[derive(Args)]
struct ShowArgs {
    /// The source.
    source: String,
    /// From this sequence number on.
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    from: u64,
    /// Most records.
    #[arg(short = 'n', long, value_name = "COUNT")]
    count: Option<u64>,
    #[command(flatten)]
    place: Place,
}

#[derive(Args)]
struct TrimArgs {
    /// Those of this source only.
    #[arg(long, value_name = "NAME")]
    source: Option<String>,
    /// Files whose newest record is older: YYYY-MM-DD, an age such as 90d, or a time as PCP's -S takes it.
    #[arg(long, value_name = "DATE", required_unless_present = "aside")]
    before: Option<String>,
    /// Files that an agent has set aside because it could not read them.
    #[arg(long)]
    aside: bool,
    /// Only tell which.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    place: Place,
}

#[derive(Args)]
struct Place {
    /// Directory of the log; by default that of `jumpseat serve`, DOMAIN.log in the state directory.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    #[command(flatten)]
    identifiers: Identifiers,
}

pub(crate) fn run(args: &LogArgs) -> ExitCode {
    let done = match &args.command {
        None => list(&args.place),
        Some(LogCommand::List(place)) => list(place),
        Some(LogCommand::Show(args)) => show(args),
        Some(LogCommand::Verify(place)) => verify(place),
        Some(LogCommand::Trim(args)) => trim(args),
    };
    match done {
        Ok(code) => code,
        Err(message) => {
            complain!("jumpseat: {message}");
            ExitCode::FAILURE
        }
    }
}

/// What there is of a source.
#[derive(Default)]
struct Summary {
    name: String,
    files: u64,
    bytes: u64,
    first: u64,
    end: u64,
    records: u64,
    newest: Option<Timestamp>,
    damage: usize,
}

fn list(place: &Place) -> Result<ExitCode, String> {
    let (segments, aside) = place.segments()?;
    let mut sources: BTreeMap<i32, Summary> = BTreeMap::new();
    for name in &segments {
        let report = place.segment(name, false)?;
        let source = sources
            .entry(report.source)
            .or_insert_with(|| Summary { first: report.first, ..Summary::default() });
        source.name = report.head.map_or(std::mem::take(&mut source.name), |head| head.name);
        source.files += 1;
        source.bytes += report.bytes;
        source.end = source.end.max(report.end);
        source.records += report.records;
        source.newest = source.newest.max(report.newest);
        source.damage += report.damage.len();
    }
    if !place.identifiers.json {
        sayln!("{:<24} {:>12} {:>14} {:>14}  newest", "source", "bytes", "first", "next");
    }
    for (id, of) in &sources {
        let newest = of.newest.map(|time| time.to_string());
        if place.identifiers.json {
            sayln!(
                "{}",
                json!({"source": of.name, "id": id, "files": of.files, "bytes": of.bytes, "first": of.first,
                    "next": of.end, "records": of.records, "newest": newest, "damage": of.damage})
            );
        } else {
            let damage =
                if of.damage > 0 { format!("  {} places damaged", of.damage) } else { String::new() };
            let newest = newest.unwrap_or_default();
            sayln!("{:<24} {:>12} {:>14} {:>14}  {newest}{damage}", of.name, of.bytes, of.first, of.end);
        }
    }
    for name in aside {
        if place.identifiers.json {
            sayln!("{}", json!({"aside": name}));
        } else {
            sayln!("{name}: set aside, not read");
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn verify(place: &Place) -> Result<ExitCode, String> {
    let (segments, _) = place.segments()?;
    let (mut records, mut damaged) = (0, 0);
    let mut before: Option<SegmentReport> = None;
    for name in &segments {
        let report = place.segment(name, true)?;
        let source = report.head.as_ref().map_or("", |head| &head.name);
        let gap = before.filter(|before| before.source == report.source && before.end < report.first);
        if let Some(before) = gap {
            let what = "records are missing before this file".to_owned();
            place.wrong(source, name, &Wrong::new(0, what, Some(report.first - before.end)));
            damaged += 1;
        }
        report.damage.iter().for_each(|wrong| place.wrong(source, name, wrong));
        damaged += report.damage.len();
        records += report.records;
        before = Some(report);
    }
    if !place.identifiers.json {
        sayln!("{} files, {records} records, {damaged} places damaged", segments.len());
    }
    Ok(if damaged == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn show(args: &ShowArgs) -> Result<ExitCode, String> {
    let place = &args.place;
    let fields = place.fields()?;
    let (segments, _) = place.segments()?;
    let mut left = args.count.unwrap_or(u64::MAX);
    let mut found = false;
    let mut reports = Vec::new();
    for name in &segments {
        let report = place.segment(name, false)?;
        if report.head.as_ref().is_some_and(|head| head.name == args.source) {
            found = true;
            reports.push(report);
        }
    }
    if !found {
        let dir = place.dir();
        return Err(format!(
            "{}: no records of a source {:?}; `jumpseat log` lists them",
            dir.display(),
            args.source
        ));
    }
    for report in reports.iter().filter(|report| report.end > args.from) {
        let read = inspect::read(&place.dir(), &report.name, |stretch| {
            if stretch.lost > 0 && stretch.first >= args.from {
                let control = json!({"missed": stretch.lost, "time": stretch.lost_time.to_string()});
                sayln!("{}", json!({"jumpseat": control}));
            }
            let mut begin = 0;
            for (seq, &end) in (stretch.first + stretch.lost..).zip(&stretch.ends) {
                let record = &stretch.records[begin..end as usize];
                begin = end as usize;
                if seq < args.from {
                    continue;
                }
                if left == 0 {
                    return ControlFlow::Break(());
                }
                left -= 1;
                sayln!("{}", Value::Object(object(record, seq, &fields)));
            }
            ControlFlow::Continue(())
        });
        read.map_err(|error| format!("{}: {error}", report.name))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn trim(args: &TrimArgs) -> Result<ExitCode, String> {
    let place = &args.place;
    let before = args.before.as_deref().map(|text| instant(text, SystemTime::now().into())).transpose()?;
    let goes = |report: &SegmentReport| {
        let source = report.head.as_ref().map(|head| &head.name);
        let is_old = before.is_some_and(|before| report.newest.is_some_and(|time| time.sec < before as i64));
        is_old && args.source.as_ref().is_none_or(|wanted| source == Some(wanted))
    };
    let dir = place.dir();
    let mut gone = inspect::trim(&dir, args.dry_run, goes).map_err(|error| error.to_string())?;
    if args.aside {
        gone.extend(inspect::remove_aside(&dir, args.dry_run).map_err(|error| error.to_string())?);
    }
    for name in &gone {
        if place.identifiers.json { sayln!("{}", json!({"removed": name})) } else { sayln!("{name}") }
    }
    if !place.identifiers.json {
        sayln!("{} files {}", gone.len(), if args.dry_run { "to remove" } else { "removed" });
    }
    Ok(ExitCode::SUCCESS)
}

impl Place {
    fn dir(&self) -> PathBuf {
        self.dir
            .clone()
            .unwrap_or_else(|| self.identifiers.state_dir().join(format!("{}.log", self.identifiers.domain)))
    }

    fn segments(&self) -> Result<(Vec<String>, Vec<String>), String> {
        let dir = self.dir();
        inspect::segments(&dir).map_err(|error| format!("{}: {error}", dir.display()))
    }

    fn segment(&self, name: &str, whole: bool) -> Result<SegmentReport, String> {
        let failed = |path: &Path, error| format!("{}: {error}", path.display());
        let dir = self.dir();
        inspect::segment(&dir, name, whole).map_err(|error| failed(&dir.join(name), error))
    }

    /// The names and types of fields, by their metrics. Without any, records are shown with the metrics' numbers.
    fn fields(&self) -> Result<BTreeMap<u32, String>, String> {
        let names = known_names(&self.identifiers.state_dir(), self.identifiers.domain).unwrap_or_default();
        let fields = names.into_iter().filter(|known| known.kind == "field");
        Ok(fields
            .filter_map(|known| {
                let (_, name) = known.name.split_once(' ')?;
                Some((field_pmid(self.identifiers.domain, u16::try_from(known.id).ok()?).0, name.to_owned()))
            })
            .collect())
    }

    fn wrong(&self, source: &str, file: &str, wrong: &Wrong) {
        let Wrong { at, what, missing, .. } = wrong;
        if self.identifiers.json {
            sayln!(
                "{}",
                json!({"source": source, "file": file, "byte": at, "problem": what, "missing": missing})
            );
        } else {
            let missing = missing.map_or(String::new(), |count| format!("; {count} records are missing"));
            sayln!("{file}: source {source}: byte {at}: {what}{missing}");
        }
    }
}

/// A record by the names of its fields.
fn object(record: &[u8], seq: u64, fields: &BTreeMap<u32, String>) -> Map<String, Value> {
    let mut object = Map::new();
    object.insert("seq".to_owned(), seq.into());
    object.insert("time".to_owned(), record_time(record).to_string().into());
    let flags = packed::flags(record);
    for (flag, phase) in [(EventFlags::START, "start"), (EventFlags::END, "end")] {
        if flags.contains(flag) {
            object.insert("phase".to_owned(), phase.into());
        }
    }
    for param in packed::params(record) {
        let name = fields.get(&param.pmid.0).cloned();
        object.insert(name.unwrap_or_else(|| param.pmid.to_string()), value(&param));
    }
    object
}

/// A parameter's value: what JSON has no number for is text.
fn value(param: &packed::PackedParam<'_>) -> Value {
    let bytes = param.bytes;
    let word = || Some(u32::from_be_bytes(bytes.try_into().ok()?));
    let long = || Some(u64::from_be_bytes(bytes.try_into().ok()?));
    let value = match ValueType::from_code(param.value_type as i32) {
        ValueType::I32 => word().map(|value| json!(value as i32)),
        ValueType::U32 => word().map(|value| json!(value)),
        ValueType::I64 => long().map(|value| json!(value as i64)),
        ValueType::U64 => long().map(|value| json!(value)),
        ValueType::Float => word().map(|value| json!(f32::from_bits(value))),
        ValueType::Double => long().map(|value| json!(f64::from_bits(value))),
        _ => None,
    };
    value.unwrap_or_else(|| String::from_utf8_lossy(bytes).into())
}
