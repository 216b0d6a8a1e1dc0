//! `jumpseat top`: metrics, expressions and event records of a collector, live on a terminal.
//!
//! ```text
//! collector --source, readings--> sample --model--> history --screen--> buffer --> terminal
//!                                             keys --app--^
//! ```
//!
//! One thread, one poll(2): over the terminal, the signals and the collector's socket, until the next sample is due.

mod app;
mod editor;
mod events;
mod keys;
mod measure;
mod model;
mod readings;
mod sample;
mod screen;
mod series;
mod source;
mod tape;
mod terminal;
mod text;
mod wait;
mod wanted;

use std::io::{self, IsTerminal, Write as _};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

use clap::Args;
use jumpseat::derive::Dialect;
use jumpseat::model::Timestamp;
use jumpseat::time::{Switches, Zone, parse_interval};
use nix::poll::PollFlags;
use nix::sys::signal::Signal;
use nix::unistd::read;

use app::{App, Command, Status};
use keys::Decoder;
use screen::Theme;
use source::{Link, Outcome, Source};
use tape::{Playing, Tape};
use terminal::{Screen, Signals};
use text::Size;

use crate::later::later;
use crate::tool::{Call, Definitions};

/// Shortest time between two samples.
const LEAST_INTERVAL: Duration = Duration::from_millis(10);
/// How long an escape character waits for what may follow it.
const ESCAPE: Duration = Duration::from_millis(40);

/// Watch metrics, expressions and event records of a collector on the terminal.
///
/// Counters are shown as rates. Without operands it shows what the host usually is asked for: load, CPU, memory,
/// disks, network, and jumpseat's events. Press ? for the keys.
#[derive(Args)]
#[command(disable_help_flag = true)]
pub struct TopArgs {
    /// The collector's host, as PCP's tools take it.
    #[arg(short, long, default_value = "local:")]
    host: String,

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

    /// Print help.
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,

    /// Metrics, the metrics below a name (at most 100), derived metrics NAME=EXPRESSION, or expressions.
    #[arg(value_name = "METRIC|NAME=EXPRESSION")]
    operands: Vec<String>,
}

/// Runs the subcommand.
pub fn run(args: &TopArgs) -> ExitCode {
    let frames = args.frames.or(args.once.then_some(1));
    if frames.is_none() && !io::stdout().is_terminal() {
        return fail("standard output is no terminal: use --once to print a screen as text");
    }
    let done = open(args).and_then(|(source, app)| {
        let done = match frames {
            Some(frames) => text::print(source, app, frames, args.size),
            None => live(source, app),
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

/// Connects, and finds what is asked for.
fn open(args: &TopArgs) -> Result<(Source, App), String> {
    let call = Call { name: "jumpseat top".to_owned(), pcp: false };
    Definitions::new(Dialect::default()).load_defaults(&call);
    let mut zone = Zone::local();
    let mut source = match &args.archive[..] {
        [] => Source::open(&args.host)?,
        archives => Source::replay(&archives.join(","), |context| {
            if args.hostzone {
                zone = Zone::new(&context.time_zone().map_err(|error| error.to_string())?);
            }
            let switches = Switches {
                start: args.start.as_deref(),
                finish: args.finish.as_deref(),
                ..Switches::default()
            };
            Tape::new(context, &switches, &zone, args.interval, Timestamp::from(SystemTime::now()))
        })?,
    };
    let mut app = App::new(Status {
        host: source.host().to_owned(),
        link: Link::Up,
        trouble: None,
        interval: args.interval,
        zone,
        playing: source.is_recorded().then(Playing::new),
    });
    for operand in &args.operands {
        source.add(operand, &mut app.model)?;
    }
    if args.operands.is_empty() {
        source.add_usual(&mut app.model);
    }
    Ok((source, app))
}

/// Runs on the terminal until somebody ends it.
fn live(mut source: Source, mut app: App) -> io::Result<()> {
    let mut signals = Signals::take()?;
    let mut screen = Screen::enter()?;
    let ended = watch(&mut source, &mut app, &mut signals, &mut screen);
    drop(screen);
    match ended? {
        Some(signal) => terminal::die_of(signal),
        None => Ok(()),
    }
}

/// Draws, waits, and does what there is to do, until the end; by which signal, if by one.
fn watch(
    source: &mut Source,
    app: &mut App,
    signals: &mut Signals,
    screen: &mut Screen,
) -> io::Result<Option<Signal>> {
    let theme = Theme::from_env();
    let mut decoder = Decoder::default();
    let mut next = Instant::now();
    let mut escape = None;
    loop {
        let now = Instant::now();
        if now >= next {
            play(source, app);
            // Samples that are late are left out, not made up for.
            next = later(next, app.status.pace()).max(now);
        }
        step(source, app);
        app.status.link = source.link();
        screen.terminal.draw(|frame| screen::draw(frame.buffer_mut(), app, theme, now))?;

        let ready = {
            let input = screen.input();
            let mut fds = vec![(input.as_fd(), PollFlags::POLLIN), (signals.as_fd(), PollFlags::POLLIN)];
            fds.extend(source.waiting().map(|waiting| (waiting.fd, waiting.events)));
            let deadline = [Some(next), source.deadline(), escape].into_iter().flatten().min();
            let ready = wait::until(&fds, deadline);
            match ready.first() {
                Some(flags) if flags.contains(PollFlags::POLLIN) => {
                    let mut bytes = [0; 1024];
                    match read(input, &mut bytes) {
                        // The terminal is gone.
                        Ok(0) | Err(nix::errno::Errno::EIO) => return Ok(None),
                        Ok(count) => decoder.feed(bytes.get(..count).unwrap_or_default()),
                        Err(nix::errno::Errno::EINTR | nix::errno::Errno::EAGAIN) => {}
                        Err(errno) => return Err(errno.into()),
                    }
                    escape = Some(Instant::now() + ESCAPE);
                }
                Some(flags) if flags.intersects(PollFlags::POLLHUP | PollFlags::POLLERR) => return Ok(None),
                _ => {}
            }
            ready
        };
        let late = escape.is_some_and(|escape| Instant::now() >= escape);
        while let Some(key) = decoder.next(late) {
            let before = (app.status.interval, app.status.pace());
            match app.key(key) {
                Some(Command::Quit) => return Ok(None),
                Some(Command::Suspend) => screen.suspend()?,
                Some(Command::Redraw) => screen.redraw()?,
                Some(Command::Add(text)) => {
                    let added = source.add(&text, &mut app.model);
                    app.added(added);
                }
                Some(Command::Remove(id)) => {
                    source.remove(id, &mut app.model);
                    app.removed();
                }
                Some(Command::Seek(seek)) => {
                    app.status.trouble = source.seek(seek, &mut app.model).err();
                    next = later(Instant::now(), app.status.pace());
                }
                None => {}
            }
            if before.0 != app.status.interval {
                app.status.trouble = source.set_interval(app.status.interval, &mut app.model).err();
            }
            if before.1 != app.status.pace() {
                next = later(Instant::now(), app.status.pace());
            }
        }
        if !decoder.is_pending() {
            escape = None;
        }
        if ready.get(1).is_some_and(|flags| !flags.is_empty()) {
            while let Some(signal) = signals.next() {
                match signal {
                    Signal::SIGTSTP => screen.suspend()?,
                    Signal::SIGCONT => screen.resume()?,
                    // The next drawing finds the new size.
                    Signal::SIGWINCH => {}
                    other => return Ok(Some(other)),
                }
            }
        }
    }
}

/// It is time for the next sample: of a recording only while it is played and not over.
fn play(source: &mut Source, app: &mut App) {
    if let Some(playing) = &mut app.status.playing {
        playing.ended = source.is_over();
        if playing.ended || !playing.on {
            return;
        }
    }
    tick(source, app);
}

/// Starts to take a sample. Where none can be taken, there is a gap.
fn tick(source: &mut Source, app: &mut App) {
    if !source.begin(&mut app.model) {
        app.model.gap();
    }
}

/// Goes on with what is under way. True if a sample came.
fn step(source: &mut Source, app: &mut App) -> bool {
    match source.advance(&mut app.model) {
        Outcome::Nothing => false,
        Outcome::Sample(sample) => {
            app.model.apply(sample);
            app.status.trouble = None;
            true
        }
        Outcome::Failed(reason) => {
            app.status.trouble = Some(reason);
            app.model.errors += 1;
            app.model.gap();
            false
        }
        Outcome::Connected => {
            // Do not wait for the next turn to show that it is back.
            tick(source, app);
            false
        }
    }
}
