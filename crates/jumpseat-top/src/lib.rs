//! `jumpseat top`: metrics, expressions and event records of a collector, live on a terminal.
//!
//! ```text
//! collector or archive --monitor, reader--> sample --model--> history --screen--> buffer --> terminal, or text
//!                                                     keys --app--^
//! ```
//!
//! One thread, one poll(2): over the terminal, the signals and the collector's socket, until the next sample is due.
//! `app`, `model` and `screen` know no terminal, clock or collector: their tests give them keys and samples, and read
//! the screen as text.

mod act;
mod app;
mod desk;
mod editor;
mod events;
mod export;
mod faults;
mod flame;
#[doc(hidden)]
pub mod fuzzing;
mod keys;
mod layout;
mod live;
mod model;
mod monitor;
mod print;
mod reader;
mod sample;
mod screen;
mod series;
mod sheet;
mod sheets;
mod side;
mod sift;
mod tape;
mod terminal;
mod text;
mod trace;
mod turn;
mod wait;

use std::io::{self, IsTerminal, Write as _};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use clap::Args;
use jumpseat_tools::{Call, Definitions, debug_environment, measure, operand};
use pcp_derive::Dialect;
use pcp_model::Timestamp;
use pcp_model::time::{Switches, Zone, parse_interval};

use app::{App, Status};
use desk::View;
use export::Format;
use layout::Layout;
use monitor::{Link, Monitor};
use print::{Printed, Size};
use screen::{Ground, Theme};
use tape::{Playing, Tape};

/// Shortest time between two samples.
const LEAST_INTERVAL: Duration = Duration::from_millis(10);

/// Watch metrics, expressions and event records of a collector on the terminal.
///
/// Counters are shown as rates. Without operands it shows what the host usually is asked for: load, CPU, memory,
/// disks, network, and jumpseat's events. Press ? for the keys.
#[derive(Args)]
#[command(disable_help_flag = true)]
pub struct TopArgs {
    /// The collector's host, as PCP's tools take it; several are shown side by side.
    #[arg(short, long, default_value = "local:")]
    host: Vec<String>,

    /// Play archives instead: a name, a directory, or several with commas between.
    #[arg(short, long, value_name = "ARCHIVE", conflicts_with = "host")]
    archive: Vec<String>,

    /// Where in the archive to start, as PCP's tools take it.
    #[arg(short = 'S', long, value_name = "TIME", requires = "archive", allow_hyphen_values = true)]
    start: Option<String>,

    /// Where in the archive to end, as PCP's tools take it.
    #[arg(short = 'T', long, value_name = "TIME", requires = "archive", allow_hyphen_values = true)]
    finish: Option<String>,

    /// Show times in the zone of the archive's host.
    #[arg(short = 'z', long, requires = "archive")]
    hostzone: bool,

    /// Time between two samples, such as 2, 0.5 or "100 msec".
    #[arg(short = 't', long, value_name = "TIME", default_value = "1", value_parser = interval)]
    interval: Duration,

    /// Print one screen as text, when there are rates, and exit.
    #[arg(long, conflicts_with = "frames")]
    once: bool,

    /// Print this many screens as text, and exit.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    frames: Option<u32>,

    /// The size of printed screens.
    #[arg(long, value_name = "WxH", default_value = "100x32")]
    size: Size,

    /// What is shown first; the keys 1 to 6 lead from one to the other.
    #[arg(long, value_enum, value_name = "VIEW")]
    view: Option<View>,

    /// Print screens as text or as a picture, or what they show as a table.
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "text")]
    format: Format,

    /// Keys that are pressed before screens are printed: names such as Enter, Down, Esc, or characters, with blanks between.
    #[arg(long, value_name = "KEYS", default_value = "")]
    keys: String,

    /// Show what was saved under a name with the key w.
    #[arg(long, value_name = "NAME", conflicts_with = "operands")]
    layout: Option<String>,

    /// The colours of the terminal.
    #[arg(long, value_enum, value_name = "THEME", default_value = "auto")]
    theme: Ground,

    /// Print help.
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,

    /// Metrics, the metrics below a name (at most 100), derived metrics NAME=EXPRESSION, or expressions.
    #[arg(value_name = "METRIC|NAME=EXPRESSION")]
    operands: Vec<String>,
}

/// Runs the command until the user ends it, or the screens asked for are printed. What goes wrong is said on standard
/// error.
pub fn run(args: &TopArgs) -> ExitCode {
    let frames = args.frames.or(args.once.then_some(1));
    if frames.is_none() && !io::stdout().is_terminal() {
        return fail("standard output is no terminal: use --once to print a screen as text");
    }
    // Not on the screen that is drawn.
    if frames.is_some() || !io::stderr().is_terminal() {
        debug_environment();
    }
    let theme = Theme::new(args.theme);
    let done = open(args).and_then(|seats| {
        let done = match frames {
            Some(frames) => {
                let keys = keys::named(&args.keys);
                print::run(seats, &Printed { frames, size: args.size, format: args.format, theme, keys })
            }
            None => live::run(seats, theme),
        };
        done.map_err(|error| error.to_string())
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

fn fail(error: &str) -> ExitCode {
    // The terminal may be gone.
    let _ = writeln!(io::stderr(), "jumpseat: {}", error.trim_end());
    ExitCode::FAILURE
}

fn interval(text: &str) -> Result<Duration, String> {
    match parse_interval(text) {
        Ok(interval) if interval >= LEAST_INTERVAL => Ok(interval),
        Ok(_) => Err(format!("the least is {} s", LEAST_INTERVAL.as_secs_f64())),
        Err(error) => Err(error.to_string()),
    }
}

/// A host or a recording, and what is shown of it.
struct Seat {
    monitor: Monitor,
    app: App,
}

/// Connects, and finds what is asked for.
fn open(args: &TopArgs) -> Result<Vec<Seat>, String> {
    let call = Call::subcommand("top");
    Definitions::new(Dialect::default(), &call.name).load_defaults(&call);
    let layout = args.layout.as_deref().map(layout::load).transpose()?;
    if !args.archive.is_empty() {
        return Ok(vec![open_one(args, None, layout.as_ref())?]);
    }
    args.host.iter().map(|host| open_one(args, Some(host), layout.as_ref())).collect()
}

fn open_one(args: &TopArgs, host: Option<&str>, layout: Option<&Layout>) -> Result<Seat, String> {
    let mut zone = Zone::local();
    let interval = layout.map_or(args.interval, |layout| layout.interval);
    let mut monitor = match host {
        Some(host) => Monitor::open(host)?,
        None => Monitor::replay(&args.archive.join(","), |context| {
            if args.hostzone {
                zone = Zone::new(&context.time_zone().map_err(|error| error.to_string())?);
            }
            let switches = Switches {
                start: args.start.as_deref(),
                finish: args.finish.as_deref(),
                ..Switches::default()
            };
            Tape::new(context, &switches, &zone, interval, Timestamp::from(SystemTime::now()))
        })?,
    };
    let mut app = App::new(Status {
        host: monitor.host().to_owned(),
        link: Link::Up,
        trouble: None,
        interval,
        zone,
        playing: monitor.is_recorded().then(Playing::new),
    });
    for operand in &args.operands {
        monitor.add_named(operand, &mut app.model)?;
    }
    match layout {
        Some(layout) => layout
            .operands
            .iter()
            .try_for_each(|operand| monitor.add_operand(operand.clone(), &mut app.model))?,
        None if args.operands.is_empty() => monitor.add_usual(&mut app.model),
        None => {}
    }
    let view = args.view.or(layout.map(|layout| layout.view)).unwrap_or_default();
    if app.show(view).is_some() {
        monitor.add_views(&mut app.model);
    }
    Ok(Seat { monitor, app })
}

/// The examples of README.md are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
