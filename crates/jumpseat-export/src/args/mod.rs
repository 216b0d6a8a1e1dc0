//! The command line of `jumpseat export`. Data only: the main program makes manual page and completions of it.

mod otlp;

use std::path::PathBuf;

use clap::{ArgAction, Args};

pub use otlp::{OtlpArgs, Protocol};

/// Export metrics and event records, live or from archives: CSV, JSON, OpenMetrics, Parquet
#[derive(Args, Clone, Debug)]
#[command(
    disable_help_flag = true,
    after_help = "Examples:\n  \
    jumpseat export -a today --parquet lake kernel.all disk.dev\n  \
    jumpseat export -h host1 -t 10 -s 6 --csv kernel.all.load 'busy=rate(kernel.all.cpu.user)'\n  \
    jumpseat export -a today --json=events.ndjson jumpseat.event\n\n\
    Archives are exported as fast as they can be read, each recorded sample as it was recorded; with -t samples are \
    interpolated at that interval. Names of inner nodes stand for all metrics below.\n\n\
    Exit status: 0 if all was exported, 1 otherwise."
)]
pub struct ExportArgs {
    /// Metrics to export, or the metrics below a name; NAME=EXPRESSION defines a derived metric and exports it
    #[arg(value_name = "METRIC", required = true)]
    pub metrics: Vec<String>,
    /// Host whose collector to ask, as PCP's tools take it [default: the one of this machine]
    #[arg(short = 'h', long, value_name = "HOST")]
    pub host: Option<String>,
    /// Export archives: a name, a directory, or several with commas between
    #[arg(short = 'a', long = "archive", value_name = "ARCHIVE", conflicts_with = "host")]
    pub archives: Vec<String>,
    /// File with definitions of derived metrics
    #[arg(short = 'c', long, value_name = "FILE")]
    pub derived: Option<PathBuf>,
    /// Time between two samples of a collector [default: 1sec]; of an archive, the interval to interpolate at
    #[arg(short = 't', long, value_name = "INTERVAL")]
    pub interval: Option<String>,
    /// Number of samples after which to end
    #[arg(short = 's', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub samples: Option<u64>,
    /// Start of the time window in the archive
    #[arg(short = 'S', long, value_name = "TIME", requires = "archives", allow_hyphen_values = true)]
    pub start: Option<String>,
    /// End of the time window: of a collector, an interval from now, or @ and a time of day
    #[arg(short = 'T', long, value_name = "TIME", allow_hyphen_values = true)]
    pub finish: Option<String>,
    /// First sample within the window
    #[arg(short = 'O', long, value_name = "TIME", requires = "archives", allow_hyphen_values = true)]
    pub origin: Option<String>,
    /// Start samples at a multiple of this interval
    #[arg(short = 'A', long, value_name = "INTERVAL", requires = "archives")]
    pub align: Option<String>,
    /// Times in the zone of the source's host; in Parquet they are always UTC
    #[arg(short = 'z', long, conflicts_with = "timezone")]
    pub hostzone: bool,
    /// Times in this zone, as TZ has it [default: UTC]
    #[arg(short = 'Z', long, value_name = "ZONE")]
    pub timezone: Option<String>,
    /// Write comma-separated values, one a line; to standard output without a file or with -
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-",
          group = "output")]
    pub csv: Option<PathBuf>,
    /// Write JSON, one object a line, one for each value and event record
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-",
          group = "output")]
    pub json: Option<PathBuf>,
    /// Write OpenMetrics text
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-",
          group = "output")]
    pub openmetrics: Option<PathBuf>,
    /// Write Parquet files below a directory, or s3://BUCKET/PREFIX, by table, host and day
    #[arg(long, value_name = "DIR", group = "output")]
    pub parquet: Option<String>,
    /// Where to send by OTLP, and how
    #[command(flatten)]
    pub otlp: OtlpArgs,
    /// Print help
    #[arg(long, action = ArgAction::Help)]
    help: Option<bool>,
}
