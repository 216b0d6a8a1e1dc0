//! A program with an agent in it: it works, and anybody with PCP's tools, and the program itself, can look how.
//!
//! ```text
//! cargo run --example embedded -- [HOST:PORT [SECONDS]]
//! pminfo -h HOST:PORT -f worker
//! ```
//!
//! No pmcd takes part. The agent's event loop has a thread of its own; what the program counts are plain atomics.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use jumpseat::client::Context;
use jumpseat::client::group::{FetchGroup, Scale};
use jumpseat::model::{Units, ValueType};
use jumpseat::pmda::{Agent, Core, Handle, Listen, Metric, Server};

const PMNS: &str = "
worker {
    jobs    WORKER:0:0
    busy    WORKER:0:1
}
";

const HELP: &str = "\
@ worker.jobs Jobs done
Since the program was started.
@ worker.busy Time spent with jobs
By all of them together, which the rate of this makes a utilization.
";

/// What the program tells of itself.
#[derive(Default)]
struct Work {
    jobs: AtomicU64,
    busy_micros: AtomicU64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let address: SocketAddr = args.next().map_or("127.0.0.1:0".parse(), |address| address.parse())?;
    let seconds: u64 = args.next().map_or(Ok(5), |seconds| seconds.parse())?;

    let work = Arc::new(Work::default());
    let (handle, address) = start(Arc::clone(&work), address)?;
    println!("pminfo -h {address} -f worker");

    // The program's own view, by the same protocol over a socket pair.
    let of_agent = handle.clone();
    let mut group = FetchGroup::new(Context::local(move || of_agent.connect())?);
    let jobs = group.item::<f64>("worker.jobs", None, Scale::Rate)?;
    let busy = group.item::<f64>("worker.busy", None, Scale::Rate)?;
    let end = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < end {
        for _ in 0..20 {
            job(&work);
        }
        group.fetch()?;
        match (group.value(jobs), group.value(busy)) {
            (Ok(jobs), Ok(busy)) => println!("{jobs:.1} jobs a second, {:.0} % busy", 100.0 * busy),
            (Err(why), _) | (_, Err(why)) => println!("no rate yet: {why}"),
        }
    }
    handle.stop();
    Ok(())
}

/// Something that takes a while.
fn job(work: &Work) {
    let begun = Instant::now();
    std::thread::sleep(Duration::from_millis(5));
    work.busy_micros.fetch_add(begun.elapsed().as_micros() as u64, Ordering::Relaxed);
    work.jobs.fetch_add(1, Ordering::Relaxed);
    // Between jobs.
    std::thread::sleep(Duration::from_millis(5));
}

/// Starts the agent in a thread; gives what stops it and makes contexts on it, and where it listens for others.
fn start(work: Arc<Work>, address: SocketAddr) -> Result<(Handle, Listen), Box<dyn Error>> {
    let (ready, started) = mpsc::channel();
    // A server stays in the thread that made it.
    std::thread::spawn(move || {
        let opened = open(work, address).map_err(|error| error.to_string());
        let (server, told) = match opened {
            Ok((server, bound)) => {
                let handle = server.handle();
                (Some(server), Ok((handle, bound)))
            }
            Err(error) => (None, Err(error)),
        };
        let _ = ready.send(told);
        if let Some(Err(error)) = server.map(|mut server| server.run()) {
            eprintln!("the agent has ended: {error}");
        }
    });
    Ok(started.recv()??)
}

/// An agent's server, and where it listens.
type Opened = (Server<Arc<Work>>, Listen);

fn open(work: Arc<Work>, address: SocketAddr) -> Result<Opened, Box<dyn Error>> {
    let mut server = Server::new(agent(work)?)?;
    let bound = server.listen(&Listen::Tcp(address))?;
    Ok((server, bound))
}

fn agent(work: Arc<Work>) -> Result<Core<Arc<Work>>, Box<dyn Error>> {
    let jobs = Metric::new("worker.jobs", ValueType::U64).counter().units(Units::COUNT);
    let busy = Metric::new("worker.busy", ValueType::U64).counter().units(Units::MICROSECOND);
    let agent = Agent::new("worker", 453, work)
        .pmns("pmns", PMNS)
        .help("help", HELP)
        .metric(jobs.value(|work: &mut Arc<Work>| work.jobs.load(Ordering::Relaxed)))
        .metric(busy.value(|work: &mut Arc<Work>| work.busy_micros.load(Ordering::Relaxed)));
    Ok(agent.build()?)
}
