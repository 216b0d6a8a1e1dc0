//! One thread that watches many hosts: the share of a core it takes to fetch 100 values from each of 200 collectors
//! once a second. The collectors are one other process, an agent of this crate that listens on 200 ports.

mod common;
use common::{Figure, Goal, Row};

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use jumpseat::client::group::{FetchGroup, GroupSet, IndomHandle, Outcome, Scale};
use jumpseat::client::{Context, HostOptions};
use jumpseat::model::{Units, Value, ValueType};
use jumpseat::pmda::{Agent, Indom, Listen, Metric, Server};
use nix::time::{ClockId, clock_gettime};

const HOSTS: usize = 200;
const METRICS: [&str; 10] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
const INSTANCES: usize = 10;
const PERIOD: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_millis(900);
/// Of a core, in percent.
const GOAL: f64 = 5.0;

fn main() {
    if std::env::args().any(|arg| arg == "--serve") {
        serve();
    }
    let (_collectors, ports) = Collectors::start();
    let mut set = GroupSet::new();
    let mut handles: Vec<Vec<IndomHandle<f64>>> = Vec::new();
    for port in ports {
        let spec = format!("127.0.0.1:{port}").parse().expect("a host specification");
        let context = Context::host_with(&spec, &HostOptions::default()).expect("the collector listens");
        let mut group = FetchGroup::new(context);
        let indom = |metric: &&str| group.indom(&format!("many.{metric}"), Scale::Rate, INSTANCES);
        handles.push(METRICS.iter().map(indom).collect::<Result<_, _>>().expect("the collector has it"));
        set.push(group);
    }
    let seconds = common::rounds(10);
    let (mut values, mut late) = (0, 0);
    let (begun, mut shares) = (Instant::now(), Vec::new());
    for second in 1..=seconds {
        let (from, before) = (Instant::now(), cpu());
        set.fetch(PATIENCE).expect("poll(2) works");
        for (at, handles) in handles.iter().enumerate() {
            match set.outcome(at) {
                Some(Outcome::Fetched(_)) => {}
                _ => late += 1,
            }
            let group = set.group(at).expect("one for each host");
            let rows = handles.iter().filter_map(|&handle| group.rows(handle).ok());
            values += rows.map(|rows| rows.filter(|row| row.value.is_ok()).count()).sum::<usize>();
        }
        sleep((begun + PERIOD * second as u32).saturating_duration_since(Instant::now()));
        shares.push((cpu() - before).as_secs_f64() / from.elapsed().as_secs_f64() * 100.0);
    }
    assert_eq!(late, 0, "all answer in time");
    let what = format!("{HOSTS} hosts of {} values each second from one thread", METRICS.len() * INSTANCES);
    Row::new(what, Figure::middle(shares, "% of a core"))
        .goal(Goal::AtMost(GOAL))
        .note(format!("{values} rates in {seconds} s"))
        .print();
}

/// CPU time of this process.
fn cpu() -> Duration {
    Duration::from(clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).expect("the clock is there"))
}

/// The process with the collectors; it ends with its standard input.
struct Collectors(Child);

impl Collectors {
    fn start() -> (Collectors, Vec<u16>) {
        let me = std::env::current_exe().expect("this program");
        let mut command = Command::new(me);
        let mut child =
            command.arg("--serve").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it runs");
        let mut line = String::new();
        let output = child.stdout.take().expect("a pipe");
        BufReader::new(output).read_line(&mut line).expect("it says where it listens");
        let ports: Vec<u16> = line.split_whitespace().map(|port| port.parse().expect("a port")).collect();
        assert_eq!(ports.len(), HOSTS);
        (Collectors(child), ports)
    }
}

impl Drop for Collectors {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

fn serve() -> ! {
    let pmns = format!(
        "many {{\n{}}}\n",
        METRICS
            .iter()
            .enumerate()
            .map(|(item, name)| format!("  {name} MANY:0:{item}\n"))
            .collect::<String>()
    );
    let metrics = METRICS.iter().map(|name| format!("@ many.{name} Counts\nUp.\n")).collect::<String>();
    let help = format!("{metrics}@ MANY.0 Things\nTen.\n");
    let names: Vec<String> = (0..INSTANCES).map(|n| format!("thing {n}")).collect();
    let things = Indom::fixed(0, names.iter().enumerate().map(|(at, name)| (at as i32, name.as_str())));
    let mut agent = Agent::new("many", 470, 0_u64)
        .pmns("pmns", &pmns)
        .help("help", &help)
        .indom(things.expect("they differ"));
    for name in METRICS {
        let counter =
            Metric::new(format!("many.{name}"), ValueType::U64).counter().units(Units::COUNT).indom(0);
        agent = agent.metric(counter.each(|count, _, _| {
            *count += 1;
            Ok(Some(Value::U64(*count)))
        }));
    }
    let mut server = Server::new(agent.build().expect("a whole agent")).expect("an event queue");
    let mut ports = String::new();
    for _ in 0..HOSTS {
        let any = Listen::Tcp(([127, 0, 0, 1], 0).into());
        if let Listen::Tcp(address) = server.listen(&any).expect("a free port") {
            ports += &format!("{} ", address.port());
        }
    }
    println!("{ports}");
    std::io::stdout().flush().expect("somebody reads");
    let handle = server.handle();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_line(&mut String::new());
        handle.stop();
    });
    let ended = server.run();
    std::process::exit(i32::from(ended.is_err()));
}
