//! What takes rights: an instance of tracefs is made, its events are enabled, and its files are opened.
//!
//! Whoever has done this hands an [`Opened`] over, descriptors and texts, to a reader that needs no rights any more.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::libc::O_NONBLOCK;
use serde::{Deserialize, Serialize};

use super::comm;
use super::config::{EventSpec, KernelConfig, ProbeSpec};
use super::format::Format;
use super::instance::Instance;
use super::mount::Tracefs;
use super::select::{folders, select};
use super::{TracefsError, read_file};

/// Largest sub-buffer, in KiB.
const MAX_SUB_BUFFER: u64 = 64;
/// A buffer has at least so many sub-buffers.
const SUB_BUFFERS: u64 = 16;

/// All that the reader of an instance needs.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) texts: Texts,
    pub(crate) cpus: Vec<CpuFiles>,
    /// The file `tracing_on`, to write to.
    pub(crate) switch: File,
}

/// What the kernel says of an instance.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Texts {
    /// The instance's directory.
    pub(crate) dir: String,
    /// The file `header_page`.
    pub(crate) header_page: String,
    /// Bytes of a sub-buffer.
    pub(crate) page_bytes: usize,
    /// The events there are; one that is named again takes the place of the one before.
    pub(crate) events: Vec<EventText>,
    /// Events enabled.
    pub(crate) enabled: u32,
    /// What could not be enabled, each with its reason.
    pub(crate) refused: Vec<String>,
}

/// An event, as the kernel describes it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct EventText {
    /// The system that its records shall name.
    pub(crate) system: String,
    /// Its file `format`.
    pub(crate) format: String,
    /// Its records go to clients.
    pub(crate) shown: bool,
}

/// The files of a CPU's buffer.
#[derive(Debug)]
pub(crate) struct CpuFiles {
    pub(crate) number: u32,
    /// `trace_pipe_raw`, which does not wait.
    pub(crate) pages: File,
    /// `stats`: what it says is made anew whenever it is read from its begin.
    pub(crate) stats: File,
}

/// An instance with its events enabled. Dropping it removes it.
#[derive(Debug)]
pub(crate) struct Setup {
    // The instance before that which it is in: fields go in this order.
    instance: Instance,
    tracefs: Option<Tracefs>,
}

impl Setup {
    /// Sets up what a configuration says, in the tracefs that is there.
    pub(crate) fn open(config: &KernelConfig) -> Result<(Setup, Opened), TracefsError> {
        let tracefs = Tracefs::find()?;
        let (mut setup, opened) = Setup::open_in(tracefs.root(), config)?;
        setup.tracefs = Some(tracefs);
        Ok((setup, opened))
    }

    /// As [`Setup::open`], in a tracefs that stays by itself.
    pub(crate) fn open_in(root: &Path, config: &KernelConfig) -> Result<(Setup, Opened), TracefsError> {
        let instance = Instance::create(root, &config.instance)?;
        let page_bytes = set_up_buffer(config, &instance)?;
        // Not the instance's own: some kernels give its text to the first reader only.
        let header_page = read_file(&root.join("events/header_page")).unwrap_or_default();
        let cpus = open_cpus(&instance)?;
        let switch = open_switch(&instance)?;
        let Outcome { events, enabled, refused, .. } = enable(config, &instance);
        let dir = instance.dir.display().to_string();
        let texts = Texts { dir, header_page, page_bytes, events, enabled, refused };
        Ok((Setup { instance, tracefs: None }, Opened { texts, cpus, switch }))
    }

    /// The event of a number that nobody enabled here: another program uses our instance, or the kernel wrote something
    /// of its own.
    pub(crate) fn search(&self, id: u16) -> Option<EventText> {
        let wanted = id.to_string();
        let events = self.instance.path("events");
        for system in folders(&events) {
            for event in folders(&events.join(&system)) {
                let number = read_file(&events.join(&system).join(&event).join("id"));
                if number.is_ok_and(|number| number.trim() == wanted) {
                    let format = read_format(&self.instance, &system, &event).ok()?;
                    return Some(EventText { system, format, shown: true });
                }
            }
        }
        None
    }
}

/// Sets clock, size and wake-up of an instance's buffers. Returns the bytes of a sub-buffer.
fn set_up_buffer(config: &KernelConfig, instance: &Instance) -> Result<usize, TracefsError> {
    let failed = |doing| move |reason| TracefsError::Setup { doing, reason };
    let clock = config.clock.name();
    instance.set("trace_clock", clock).map_err(failed("set the trace clock"))?;
    let kib = (config.buffer_size.0 >> 10).max(1);
    // Larger ones mean fewer system calls. Kernels before 6.8 have no choice.
    let wanted = (kib / SUB_BUFFERS).clamp(1, MAX_SUB_BUFFER);
    let wanted = 1 << wanted.ilog2();
    let _ = instance.set("buffer_subbuf_size_kb", &format!("{wanted}\n"));
    let sub_buffer = read_file(&instance.path("buffer_subbuf_size_kb")).ok();
    let sub_buffer = sub_buffer.and_then(|text| text.trim().parse::<usize>().ok());
    let page =
        nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).ok().flatten().unwrap_or(4096) as usize;
    instance.set("buffer_size_kb", &format!("{kib}\n")).map_err(failed("set the size of the buffers"))?;
    // A lone event is not kept waiting. Before 5.1 there is no such file, and no such waiting.
    let _ = instance.set("buffer_percent", "0\n");
    instance.set("tracing_on", "1").map_err(failed("switch tracing on"))?;
    Ok(sub_buffer.map_or(page, |kib| kib << 10))
}

/// The files of all CPUs, in the order of their numbers.
fn open_cpus(instance: &Instance) -> Result<Vec<CpuFiles>, TracefsError> {
    let names = folders(&instance.path("per_cpu"));
    let mut numbers: Vec<u32> =
        names.iter().filter_map(|name| name.strip_prefix("cpu")?.parse().ok()).collect();
    numbers.sort_unstable();
    let open = |number: u32| {
        let path = |file: &str| instance.path(&format!("per_cpu/cpu{number}/{file}"));
        let doing = "open the buffer of a CPU";
        let pages = path("trace_pipe_raw");
        let pages_file = OpenOptions::new().read(true).custom_flags(O_NONBLOCK).open(&pages);
        Ok(CpuFiles {
            number,
            pages: pages_file.map_err(failed(doing, &pages))?,
            stats: File::open(path("stats")).map_err(failed(doing, &path("stats")))?,
        })
    };
    numbers.into_iter().map(open).collect()
}

fn open_switch(instance: &Instance) -> Result<File, TracefsError> {
    let path = instance.path("tracing_on");
    OpenOptions::new().write(true).open(&path).map_err(failed("open the switch", &path))
}

fn failed(doing: &'static str, path: &Path) -> impl Fn(io::Error) -> TracefsError {
    move |error| TracefsError::Setup { doing, reason: format!("{}: {error}", path.display()) }
}

/// What became of the events and probes of a configuration.
#[derive(Debug, Default)]
struct Outcome {
    events: Vec<EventText>,
    /// Their numbers.
    ids: Vec<u16>,
    enabled: u32,
    refused: Vec<String>,
}

/// Enables what the configuration says.
fn enable(config: &KernelConfig, instance: &Instance) -> Outcome {
    let mut outcome = Outcome::default();
    // Written by the kernel of its own accord: markers.
    for event in ["print", "raw_data"] {
        if let Ok(format) = read_format(instance, "ftrace", event) {
            outcome.add("ftrace", format, true);
        }
    }
    for text in &config.events {
        // Checked with the configuration.
        let Ok(spec) = EventSpec::parse(text) else { continue };
        match select(&instance.path("events"), &spec) {
            Ok(names) => {
                for (system, event) in names {
                    outcome.enable(instance, (&system, &event), &system, spec.filter.as_deref());
                }
            }
            Err(reason) => outcome.refused.push(reason),
        }
    }
    for text in &config.probes {
        // Checked with the configuration, too.
        let Ok(probe) = ProbeSpec::parse(text) else { continue };
        match instance.define(&probe) {
            Ok(group) => {
                // Named as the kernel names the probes of those who give no group: the same at each start.
                let shown = if probe.user { "uprobes" } else { "kprobes" };
                outcome.enable(instance, (group, &probe.name), shown, probe.filter.as_deref());
            }
            Err(reason) => outcome.refused.push(format!("probe {}: {reason}", probe.name)),
        }
    }
    if config.comm {
        outcome.enable_names(instance);
    }
    outcome
}

impl Outcome {
    fn enable(&mut self, instance: &Instance, event: (&str, &str), shown: &str, filter: Option<&str>) {
        let (system, event) = event;
        let attempt = || {
            let format = read_format(instance, system, event)?;
            let id = number(&format).ok_or_else(|| "its format file has no number".to_owned())?;
            let file = |name: &str| format!("events/{system}/{event}/{name}");
            // "0" takes away the filter of a pattern that stands before.
            let filter = filter.unwrap_or("0");
            if filter != "0" || self.ids.contains(&id) {
                instance
                    .set(&file("filter"), filter)
                    .map_err(|reason| format!("filter {filter:?}: {reason}"))?;
            }
            instance.set(&file("enable"), "1")?;
            Ok::<_, String>((id, format))
        };
        match attempt() {
            Ok((id, format)) => {
                self.enabled += u32::from(!self.ids.contains(&id));
                self.add(shown, format, true);
            }
            Err(reason) => self.refused.push(format!("{shown}:{event}: {reason}")),
        }
    }

    /// Enables what tells names of threads, for us alone where it is not configured.
    fn enable_names(&mut self, instance: &Instance) {
        for (system, event) in comm::EVENTS {
            let Ok(format) = read_format(instance, system, event) else { continue };
            // With a filter it does not tell all; then names may be old, as they are for the kernel itself.
            let known = number(&format).is_some_and(|id| self.ids.contains(&id));
            if !known && instance.set(&format!("events/{system}/{event}/enable"), "1").is_ok() {
                self.add(system, format, false);
            }
        }
    }

    fn add(&mut self, system: &str, format: String, shown: bool) {
        let Some(id) = number(&format) else { return };
        self.ids.push(id);
        self.events.push(EventText { system: system.to_owned(), format, shown });
    }
}

/// The number in the text of a `format` file that is worth having.
fn number(format: &str) -> Option<u16> {
    Format::parse("", format).ok().map(|format| format.id)
}

fn read_format(instance: &Instance, system: &str, event: &str) -> Result<String, String> {
    let path = instance.path(&format!("events/{system}/{event}/format"));
    let text = read_file(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    Format::parse(system, &text).map_err(|reason| format!("{}: {reason}", path.display()))?;
    Ok(text)
}
