//! `jumpseat demo`: the agent, a workload that traces into it, and a client that reads it, in one process
//! but over the real sockets and the real protocol.

mod page;
mod show;
mod tree;
mod workload;

use jumpseat_tools::complain;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use clap::Args;
use jumpseat_agent::{self as agent, Config, RunningAgent, Setup, Signals, Trust};
use jumpseat_source::tracefs::{KernelConfig, KernelStats};
use jumpseat_source::{SocketConfig, config};
use jumpseat_tools::later;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use pcp_client::group::FetchGroup;
use pcp_client::{Context, HostOptions};
use pcp_pmda::{Handle, Listen};

use crate::say::{say, sayln};
use page::Page;
use show::Show;
use workload::Workload;

/// How often the demo fetches.
const INTERVAL: Duration = Duration::from_millis(500);
/// How often it says, once something goes wrong, how to find that.
const HINT_INTERVAL: Duration = Duration::from_secs(10);

#[derive(Args)]
pub(crate) struct DemoArgs {
    /// Stop after this many seconds instead of at Ctrl-C.
    #[arg(long, value_name = "N")]
    seconds: Option<u64>,
    /// Address of the endpoint, for PCP tools to look on.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Show what the kernel of this machine does with processes, too. Needs root.
    #[arg(long)]
    kernel: bool,
}

/// What `--kernel` adds: every process that begins, becomes another program, or ends.
const KERNEL_EVENTS: [&str; 3] =
    ["sched:sched_process_fork", "sched:sched_process_exec", "sched:sched_process_exit"];

pub(crate) fn run(args: &DemoArgs) -> ExitCode {
    match demo(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain!("jumpseat demo: {error}");
            ExitCode::FAILURE
        }
    }
}

fn demo(args: &DemoArgs) -> Result<(), Box<dyn std::error::Error>> {
    let begun = Instant::now();
    if args.kernel && !nix::unistd::geteuid().is_root() {
        return Err(
            "--kernel needs root, as the kernel shows its events to nobody else: try it with sudo".into()
        );
    }
    // Blocked here, before there are threads, so that only wait_for_stop() sees them.
    let mut stop = SigSet::empty();
    stop.add(Signal::SIGINT);
    stop.add(Signal::SIGTERM);
    stop.thread_block()?;
    let stop = SignalFd::with_flags(&stop, SfdFlags::SFD_CLOEXEC)?;

    let home = tempfile::Builder::new().prefix("jumpseat-demo").tempdir()?;
    let socket = home.path().join("ingest.socket");
    let agent = Agent::start(args, &socket)?;
    sayln!("The agent listens for events on {}", socket.display());
    sayln!("and answers PCP clients on      {}", agent.address);
    let page = Page::start(agent.address);
    if let Some(page) = &page {
        sayln!("See it in a browser:            {}", page.url);
    }
    sayln!(
        "A shop of three services with three customers now runs on loopback: web asks orders, orders asks payment."
    );
    sayln!(
        "After {} seconds something goes wrong in it. Find it, in another terminal:\n",
        workload::FAULT.as_secs()
    );
    say(format_args!("{}", how_to_look(&agent.address)));
    let until = args.seconds.map(|seconds| later(begun, Duration::from_secs(seconds)));
    let shown = show_all(args, &agent, &socket, &stop, until);
    drop(page);
    agent.stop();
    match shown {
        // `jumpseat demo | head`: the reader has seen enough.
        Err(error) if is_broken_pipe(&*error) => Ok(()),
        Err(error) => Err(error),
        Ok(show) => {
            sayln!("\n{} records shown, {} missed. What to try next:\n", show.records, show.missed);
            say(format_args!("{}", what_next()));
            Ok(())
        }
    }
}

/// Runs the workload, and shows its events until it is time to end.
fn show_all(
    args: &DemoArgs,
    agent: &Agent,
    socket: &Path,
    stop: &SignalFd,
    until: Option<Instant>,
) -> Result<Show, Box<dyn std::error::Error>> {
    let workload = Workload::start(socket)?;
    let mut sources = workload::SOURCES.to_vec();
    for kernel in &agent.kernels {
        wait_for_kernel(kernel)?;
        sayln!(
            "Besides, the kernel tells of all processes on this machine; the demo runs one itself now and then.\n"
        );
        sources.push(KERNEL);
    }
    // The environment may speak of other collectors, and of a proxy.
    let context = Context::host_with(&agent.address.to_string().parse()?, &HostOptions::default())?;
    let mut show = Show::new(FetchGroup::new(context), &sources)?;
    let mut hint = later(Instant::now(), workload::FAULT);
    while !wait_for_stop(stop, until) {
        if args.kernel {
            // Without it, it is only a pity that there may be nothing to see.
            let _ = Command::new("true").status();
        }
        show.step()?;
        if Instant::now() >= hint {
            // What was said at the start has left the screen by now.
            sayln!("-- something goes wrong in the shop; find it: {} --", spans_command(&agent.address));
            hint = later(hint, HINT_INTERVAL);
        }
    }
    // It has ended before the last look, so that nothing of it is left out.
    drop(workload);
    show.finish()?;
    Ok(show)
}

/// The agent, in a thread of its own.
struct Agent {
    thread: JoinHandle<()>,
    handle: Handle,
    /// Where it answers PCP clients.
    address: SocketAddr,
    /// Its sources of the kernel's events.
    kernels: Vec<Arc<KernelStats>>,
}

impl Agent {
    fn start(args: &DemoArgs, socket: &Path) -> Result<Agent, Box<dyn std::error::Error>> {
        let config = Config {
            socket: vec![SocketConfig { path: socket.to_owned(), ..SocketConfig::default() }],
            kernel: args.kernel.then(kernel_source).into_iter().collect(),
            ..Config::default()
        };
        let (ready, started) = mpsc::channel();
        let listen = args.listen;
        // The agent is opened by the thread that runs it: it stays there.
        let thread = std::thread::Builder::new().name("jumpseat-agent".into()).spawn(move || {
            let opened = open(&config, listen);
            let _ = ready.send(
                opened
                    .as_ref()
                    .map(|(running, address, handle)| (*address, handle.clone(), running.kernel_sources()))
                    .map_err(|e| e.clone()),
            );
            if let Ok((mut running, ..)) = opened
                && let Err(error) = running.run()
            {
                complain!("jumpseat demo: {error}");
            }
        })?;
        let (address, handle, kernels) = started.recv()??;
        Ok(Agent { thread, handle, address, kernels })
    }

    fn stop(self) {
        self.handle.stop();
        let _ = self.thread.join();
    }
}

/// The source of the kernel's events.
const KERNEL: &str = "kernel";

fn kernel_source() -> KernelConfig {
    KernelConfig {
        source: KERNEL.to_owned(),
        events: KERNEL_EVENTS.map(str::to_owned).to_vec(),
        ..KernelConfig::default()
    }
}

/// Waits until there are events of the kernel, or a reason why not.
fn wait_for_kernel(kernel: &KernelStats) -> Result<(), String> {
    loop {
        match kernel.state() {
            "starting" => std::thread::sleep(Duration::from_millis(5)),
            "running" => return Ok(()),
            reason => return Err(reason.to_owned()),
        }
    }
}

fn is_broken_pipe(error: &(dyn std::error::Error + 'static)) -> bool {
    let error = error.downcast_ref::<std::io::Error>();
    error.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

/// What to type and to press while the demo runs.
fn how_to_look(address: &SocketAddr) -> String {
    let me = me();
    format!(
        "  {}\n\n\
         \x20   3      spans: payment/charge takes longer, and fails; press s to sort by a column\n\
         \x20   Enter  its histogram and the slowest; Enter again: the trace of one, over the three services\n\
         \x20   5      errors: what they say, and how often; Enter shows the last one\n\
         \x20   6      where the time goes; ? tells all keys, q quits\n\n\
         The same without a terminal:\n\n\
         \x20 {me} top -h {address} --once --view errors\n\
         \x20 {me} val -h {address} -s 2 -t 1 jumpseat.span.p99\n\
         \x20 {me} events -h {address} -s 2 -t 1 -x 'status == \"error\"' jumpseat.event.records\n\n",
        spans_command(address)
    )
}

/// The command that shows where the time of the shop goes.
fn spans_command(address: &SocketAddr) -> String {
    format!("{} top -h {address} --view spans", me())
}

/// This program, as a shell takes it.
fn me() -> String {
    let me = std::env::args().next().unwrap_or_else(|| "jumpseat".into());
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    if me.chars().all(plain) { me } else { format!("'{}'", me.replace('\'', "'\\''")) }
}

/// Commands that work as they stand: with the program of this demo, on this machine, whatever else runs on it.
fn what_next() -> String {
    let me = me();
    let port = free_port();
    let address = format!("127.0.0.1:{port}");
    let mut serve = format!("{me} serve --listen {address}");
    let mut feed = format!("{me} feed");
    if UnixStream::connect(config::socket_to_make()).is_ok()
        || UnixStream::connect(jumpseat_wire::socket::to_use()).is_ok()
    {
        // Another agent takes events there.
        let home = std::env::temp_dir().join(format!("jumpseat-{port}"));
        serve.push_str(&format!(" --socket {0}.socket --state-dir {0}", home.display()));
        feed.push_str(&format!(" --socket {}.socket", home.display()));
    }
    let commands = [
        (format!("{serve} &"), "the agent on its own; kill %1 ends it"),
        (format!("echo '{{\"message\":\"hello\"}}' | {feed}"), "send it an event"),
        (format!("{me} info -h {address} -x jumpseat.event.recent"), "look at it, as with PCP's pminfo"),
        (format!("{me} top -h {address} --view events"), "watch events arrive"),
    ];
    let width = commands.iter().map(|(command, _)| command.len()).max().unwrap_or(0);
    commands.map(|(command, why)| format!("  {command:<width$}  # {why}\n")).concat()
}

/// A port of this machine that nobody listens on.
fn free_port() -> u16 {
    let free = TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
    free.map_or(44_399, |address| address.port())
}

type Opened = (RunningAgent, SocketAddr, Handle);

fn open(config: &Config, listen: SocketAddr) -> Result<Opened, String> {
    let setup = Setup {
        config,
        domain: agent::DEFAULT_DOMAIN,
        state_dir: None,
        help: None,
        signals: Signals::Leave,
        clients: agent::Clients::Alone,
        trust: &Trust::default(),
    };
    let mut running = RunningAgent::open(&setup).map_err(|error| error.to_string())?;
    match running.server.listen(&Listen::Tcp(listen)).map_err(|error| error.to_string())? {
        Listen::Tcp(address) => {
            let handle = running.server.handle();
            Ok((running, address, handle))
        }
        Listen::Unix { .. } => Err("not a TCP address".into()),
    }
}

/// Waits for the time of the next fetch. Returns whether it is time to end instead.
fn wait_for_stop(stop: &SignalFd, until: Option<Instant>) -> bool {
    // The last interval is a part of one, if any.
    let left = until.map_or(INTERVAL, |until| until.saturating_duration_since(Instant::now()).min(INTERVAL));
    // Rounded up, lest it wakes up too early again and again.
    let timeout = PollTimeout::try_from(left.as_nanos().div_ceil(1_000_000)).unwrap_or(PollTimeout::ZERO);
    let stopped =
        poll(&mut [PollFd::new(stop.as_fd(), PollFlags::POLLIN)], timeout).is_ok_and(|ready| ready > 0);
    stopped || left < INTERVAL
}
