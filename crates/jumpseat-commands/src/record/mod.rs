//! `jumpseat record`: metrics of a collector into an archive.

mod progress;
mod selection;

use jumpseat_tools::ticker::{Ticker, Woken};
use jumpseat_tools::{complain, debug_environment};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use clap::{ArgAction, Args};
use pcp_archive::{ArchiveWriter, LabelInfo, WriteError, WriteOptions};
use pcp_client::recorder::{Notice, RecordError, Recorder, label_of};
use pcp_client::{ClientError, Context, HostOptions, HostSpec, Mode, without_password};
use pcp_model::time::{Reference, Switches, Zone, parse_interval, parse_window};
use pcp_model::{PmError, Timestamp};

use progress::{Progress, bytes};
use selection::Selection;

/// How long to wait at least between attempts to connect again. The time after failed ones grows beyond that
/// (PMCD_RECONNECT_TIMEOUT).
const RETRY: Duration = Duration::from_secs(1);

/// Record metrics of a collector into a PCP archive, event records included
#[derive(Args)]
#[command(
    disable_help_flag = true,
    after_help = "Examples:\n  \
    jumpseat record -t 1sec today kernel.all.load disk.dev\n  \
    jumpseat record -h host1 -s 60 -v 100mb today jumpseat.event 'busy=rate(kernel.all.cpu.user)'\n  \
    jumpseat record --append today kernel.all.load\n\n\
    The archive is of version 3. It can be read while it is written, and up to the last sample if the recorder is \
    killed. Names of inner nodes stand for all metrics below. SIGINT and SIGTERM end recording.\n\n\
    Exit status: 0 if recording ended as asked for, 1 otherwise."
)]
pub(crate) struct RecordArgs {
    /// Base name of the archive: .meta, .index, .0 and so on are added
    archive: PathBuf,
    /// Metrics to record; NAME=EXPRESSION defines a derived metric and records it
    #[arg(value_name = "METRIC")]
    metrics: Vec<String>,
    /// Host whose collector to ask, as PCP's tools take it [default: the one of this machine]
    #[arg(short = 'h', long, value_name = "HOST")]
    host: Option<String>,
    /// Record from archives instead: a name, a directory, or several with commas between
    #[arg(short = 'a', long = "archive", value_name = "ARCHIVE", conflicts_with_all = ["host", "append"])]
    from: Vec<String>,
    /// Where in that archive to start
    #[arg(short = 'S', long, value_name = "TIME", requires = "from", allow_hyphen_values = true)]
    start: Option<String>,
    /// Take over the records of that archive as they are, not values interpolated at each interval
    #[arg(short = 'U', long, requires = "from")]
    nointerp: bool,
    /// Time between two samples
    #[arg(short = 't', long, value_name = "INTERVAL", default_value = "1sec")]
    interval: String,
    /// Number of samples after which to end
    #[arg(short = 's', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    samples: Option<u64>,
    /// Time at which to end: an interval from now, or @ and a time of day
    #[arg(short = 'T', long = "finish", value_name = "TIME", allow_hyphen_values = true)]
    finish: Option<String>,
    /// Size beyond which a new data volume is begun: a number with b, kb, mb or gb
    #[arg(short = 'v', long, value_name = "SIZE", value_parser = selection::size)]
    volume_size: Option<u64>,
    /// File with metrics to record, one a line as METRIC above; # begins a comment
    #[arg(short = 'c', long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Continue the archive if it is there; a mark separates what is new, event records go on where they ended
    #[arg(long)]
    append: bool,
    /// Show no progress, and no report at the end
    #[arg(short, long)]
    quiet: bool,
    /// Print help
    #[arg(long, action = ArgAction::Help)]
    help: (),
}

pub(crate) fn run(args: &RecordArgs) -> ExitCode {
    debug_environment();
    match record(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            complain!("jumpseat record: {message}");
            ExitCode::FAILURE
        }
    }
}

fn record(args: &RecordArgs) -> Result<(), String> {
    let interval = parse_interval(&args.interval).map_err(|error| format!("-t:\n{error}"))?;
    let selection = Selection::read(&args.metrics, args.config.as_deref())?;
    let mut ticker = Ticker::new(interval).map_err(|error| error.to_string())?;
    let mut context = match &args.from[..] {
        [] => connect(args.host.as_deref())?,
        names => replay(&names.join(","))?,
    };
    selection.register(&context)?;
    let end = window(args, &mut context)?;
    let host = args.host.as_deref().unwrap_or("localhost");
    let label = label_of(&mut context, host).map_err(|error| error.to_string())?;
    let archive = open_archive(args, label)?;
    let start = context.mode().1;
    let mut recorder = match Recorder::new(context, archive, selection.names()) {
        Ok(recorder) => recorder,
        Err(RecordError::NoMetrics(notices)) => {
            notices.iter().for_each(warn);
            return Err("none of the metrics is there: nothing to record".to_owned());
        }
        Err(error) => return Err(error.to_string()),
    };
    let mut progress = Progress::new(args.quiet, recorder.metrics());
    let outcome = match args.from.is_empty() {
        true => sample_all(args, &mut recorder, &mut ticker, end, &mut progress),
        false => take_over(args, &mut recorder, interval, (start, end), &mut progress),
    };
    progress.clear();
    // Asked for now, as finishing takes the recorder.
    let base = recorder.archive().base().display().to_string();
    let samples = progress.samples;
    let size = recorder.archive().size();
    // What was written is to be whole whatever happened.
    let finished = recorder.finish().map_err(|error| explain(&error));
    outcome.and(finished)?;
    if samples == 0 {
        return Err("no sample was recorded".to_owned());
    }
    if !args.quiet {
        complain!("recorded {samples} samples into {base} ({})", bytes(size));
        if progress.late > 0 {
            complain!("{} samples were left out as those before them took too long", progress.late);
        }
    }
    Ok(())
}

/// Samples until it is time to end, or cannot go on.
fn sample_all(
    args: &RecordArgs,
    recorder: &mut Recorder,
    ticker: &mut Ticker,
    end: Option<Timestamp>,
    progress: &mut Progress,
) -> Result<(), String> {
    let mut connected = true;
    loop {
        let outcome = match connected {
            true => recorder.sample(),
            false => recorder.reconnect().map(|()| false),
        };
        for notice in recorder.notices() {
            progress.clear();
            warn(&notice);
        }
        let pause = match outcome {
            Ok(written) => {
                if !connected {
                    progress.say("connected again");
                }
                connected = true;
                progress.step(written, recorder.metrics(), recorder.archive().size());
                None
            }
            Err(RecordError::Archive(error)) => return Err(explain(&error)),
            Err(RecordError::Source(error @ ClientError::Pcp(_))) => {
                progress.say(&format!("no sample: {error}"));
                None
            }
            Err(error) => {
                if connected {
                    progress.say(&format!("connection lost ({error}); trying to get it again"));
                }
                connected = false;
                Some(RETRY)
            }
        };
        if args.samples.is_some_and(|samples| progress.samples >= samples) {
            return Ok(());
        }
        match ticker.wait(pause, end).map_err(|error| error.to_string())? {
            Woken::Tick { missed } => progress.late += missed,
            Woken::End => return Ok(()),
        }
    }
}

fn connect(host: Option<&str>) -> Result<Context, String> {
    let (options, warnings) = HostOptions::from_env();
    warnings.iter().for_each(|warning| complain!("jumpseat record: {warning}"));
    let spec = host.unwrap_or("local:");
    let parsed: HostSpec = spec.parse().map_err(|error| format!("-h {}: {error}", without_password(spec)))?;
    Context::host_with(&parsed, &options).map_err(|error| match host {
        Some(host) => format!("{}: {error}", without_password(host)),
        None => format!("no collector on this machine: {error}"),
    })
}

fn open_archive(args: &RecordArgs, label: LabelInfo) -> Result<ArchiveWriter, String> {
    let mut options = WriteOptions::default();
    if let Some(size) = args.volume_size {
        options.volume_size = size;
    }
    // Of an archive all can be taken again; what comes from a host cannot.
    if !args.from.is_empty() {
        options.together = WriteOptions::AT_ONCE;
    }
    let host = label.host.clone();
    let archive = match args.append {
        true => ArchiveWriter::append(&args.archive, label, options),
        false => ArchiveWriter::create(&args.archive, label, options),
    };
    let archive = archive.map_err(|error| explain(&error))?;
    match &archive.label().host {
        of if *of == host => Ok(archive),
        of => Err(format!("{}: the archive is of host {of}, not {host}", args.archive.display())),
    }
}

fn explain(error: &WriteError) -> String {
    match error {
        WriteError::Exists(_) => format!("{error}: --append continues it"),
        WriteError::Io { error: system, .. } if is_full(system) => {
            format!("{error}; the archive ends with the last sample that found room")
        }
        _ => error.to_string(),
    }
}

fn is_full(error: &std::io::Error) -> bool {
    use std::io::ErrorKind;
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge)
}

/// Takes samples of an archive from its window, as fast as they can be read.
fn take_over(
    args: &RecordArgs,
    recorder: &mut Recorder,
    interval: Duration,
    (start, end): (Timestamp, Option<Timestamp>),
    progress: &mut Progress,
) -> Result<(), String> {
    let step = i64::try_from(interval.as_nanos()).unwrap_or(i64::MAX);
    let mode = if args.nointerp { Mode::Forward } else { Mode::Interpolate { step } };
    recorder.context().set_mode(mode, Some(start)).map_err(|error| error.to_string())?;
    while args.samples.is_none_or(|samples| progress.samples < samples) {
        if end.is_some_and(|end| recorder.context().mode().1 > end) {
            break;
        }
        let outcome = recorder.sample();
        for notice in recorder.notices() {
            progress.clear();
            warn(&notice);
        }
        match outcome {
            Ok(written) => progress.step(written, recorder.metrics(), recorder.archive().size()),
            Err(RecordError::Source(error)) if error.code() == PmError::EOL => break,
            Err(RecordError::Archive(error)) => return Err(explain(&error)),
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(())
}

fn replay(names: &str) -> Result<Context, String> {
    let mut context = jumpseat_tools::archive(names).map_err(|error| error.to_string())?;
    // Of an end that cannot be found, fetches will tell.
    let _ = context.span();
    context.take_mended().iter().for_each(|mended| complain!("jumpseat record: Warning: {mended}"));
    Ok(context)
}

/// When to end. A context on an archive is set to where to start.
fn window(args: &RecordArgs, context: &mut Context) -> Result<Option<Timestamp>, String> {
    let now = SystemTime::now().into();
    let reference = match args.from.is_empty() {
        true => Reference::live(now),
        false => {
            let (start, end) = context.span().map_err(|error| error.to_string())?;
            Reference { start, end, now }
        }
    };
    let switches =
        Switches { start: args.start.as_deref(), finish: args.finish.as_deref(), ..Switches::default() };
    let options = if args.from.is_empty() { "-T" } else { "-S, -T" };
    let window = parse_window(&switches, &reference, &Zone::local())
        .map_err(|error| format!("{options}:\n{error}"))?;
    if !args.from.is_empty() {
        context.set_mode(Mode::Forward, Some(window.origin)).map_err(|error| error.to_string())?;
    }
    Ok(window.finite_end())
}

fn warn(notice: &Notice) {
    complain!("jumpseat record: {notice}");
}
