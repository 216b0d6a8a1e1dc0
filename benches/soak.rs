//! A day of traffic at a hundred times its speed: programs that send come and go, files are rotated, clients ask and leave, the
//! configuration is read again. Memory and descriptors of the agent must be flat; the slope of both is printed.
//!
//! ```text
//! cargo bench --bench soak -- --seconds 864
//! ```
//!
//! The first third of the time is for the event logs to fill up; the slope is that of the rest, by least squares.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use jumpseat::client::{ClientError, Context, Fetched};
use jumpseat::model::{InstanceValue, PM_IN_NULL, Pmid, Value, ValueSet};

const AGENT: &str = env!("CARGO_BIN_EXE_jumpseat");
const DEFAULT_SECONDS: u64 = 60;
/// Events of the sending program in a second, and how long it lives.
const EVENTS: u64 = 1000;
const PROGRAM_LIFE: Duration = Duration::from_secs(5);
/// Lines of the log in a second, and how long a file is written to.
const LINES: u64 = 500;
const FILE_LIFE: Duration = Duration::from_secs(20);
/// What is allowed to grow: memory in KiB an hour at this speed, and descriptors.
const GOAL_KIB: f64 = 2048.0;
const GOAL_DESCRIPTORS: f64 = 2.0;

/// What has been done.
#[derive(Default)]
struct Done {
    events: AtomicU64,
    lines: AtomicU64,
    posts: AtomicU64,
    fetches: AtomicU64,
    clients: AtomicU64,
    programs: AtomicU64,
    reloads: AtomicU64,
    errors: AtomicU64,
}

struct Place {
    dir: tempfile::TempDir,
    host: String,
    otlp: u16,
}

impl Place {
    fn socket(&self) -> PathBuf {
        self.dir.path().join("ingest.socket")
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip_while(|word| word != "--seconds");
    let seconds = words.nth(1).map_or(Ok(DEFAULT_SECONDS), |word| word.parse())?;
    let (place, mut agent) = start()?;
    let (done, stop) = (Done::default(), AtomicBool::new(false));
    let samples = scope(|threads| {
        let run = |work: fn(&Place, &Done) -> io::Result<()>, pause: Duration| {
            let (place, done, stop) = (&place, &done, &stop);
            threads.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    if work(place, done).is_err() {
                        done.errors.fetch_add(1, Ordering::Relaxed);
                    }
                    sleep(pause);
                }
            })
        };
        run(program, Duration::ZERO);
        run(log_file, Duration::ZERO);
        run(post, Duration::from_millis(100));
        run(logger, Duration::ZERO);
        run(visitor, Duration::from_millis(400));
        let samples = watch(&agent, &done, seconds);
        stop.store(true, Ordering::Relaxed);
        samples
    })?;
    report(&samples, &done);
    agent.kill()?;
    agent.wait()?;
    Ok(())
}

fn start() -> io::Result<(Place, Child)> {
    let dir = tempfile::tempdir()?;
    let otlp = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let config = dir.path().join("jumpseat.toml");
    let text = format!(
        "state_dir = {:?}\n[[socket]]\npath = {:?}\n[otlp]\nlisten = \"127.0.0.1:{otlp}\"\n[[file]]\npath = {:?}\nsource = \"log\"\n",
        dir.path().join("ids"),
        dir.path().join("ingest.socket"),
        dir.path().join("app.log*")
    );
    fs::create_dir(dir.path().join("ids"))?;
    fs::write(&config, text)?;
    let mut agent = Command::new(AGENT)
        .args(["serve", "--listen", "127.0.0.1:0", "--config"])
        .arg(&config)
        .current_dir(dir.path())
        .stdout(Stdio::piped())
        .stderr(File::create(dir.path().join("log"))?)
        .spawn()?;
    let mut said = String::new();
    let mut stdout = agent.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
    let host = loop {
        let mut piece = [0; 256];
        let read = stdout.read(&mut piece)?;
        said.push_str(&String::from_utf8_lossy(&piece[..read]));
        if read == 0 {
            return Err(io::Error::other(fs::read_to_string(dir.path().join("log"))?));
        }
        if let Some((_, rest)) = said.split_once("PCP clients: ")
            && let Some((host, _)) = rest.split_once('\n')
        {
            break host.trim().to_owned();
        }
    };
    Ok((Place { dir, host, otlp }, agent))
}

/// A program that sends for a while, in hundredths of a second.
fn program(place: &Place, done: &Done) -> io::Result<()> {
    let mut stream = UnixStream::connect(place.socket())?;
    writeln!(
        stream,
        "{{\"jumpseat\":{{\"source\":\"app{}\"}}}}",
        done.programs.fetch_add(1, Ordering::Relaxed) % 8
    )?;
    let begun = Instant::now();
    let mut lines = String::new();
    while begun.elapsed() < PROGRAM_LIFE {
        lines.clear();
        for n in 0..EVENTS / 100 {
            lines.push_str(&format!(
                "{{\"type\":\"request{}\",\"status\":{},\"path\":\"/orders/{n}\",\"micros\":{}}}\n",
                n % 5,
                200 + n % 3,
                n * 17
            ));
        }
        stream.write_all(lines.as_bytes())?;
        done.events.fetch_add(EVENTS / 100, Ordering::Relaxed);
        sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// A log that is written to, and then rotated away; the one before that is removed.
fn log_file(place: &Place, done: &Done) -> io::Result<()> {
    let path = place.dir.path().join("app.log");
    let mut file = File::create(&path)?;
    let begun = Instant::now();
    while begun.elapsed() < FILE_LIFE {
        for n in 0..LINES / 50 {
            writeln!(file, "request {n} took {} ms and nobody was hurt", n * 3)?;
        }
        done.lines.fetch_add(LINES / 50, Ordering::Relaxed);
        sleep(Duration::from_millis(20));
    }
    fs::rename(&path, place.dir.path().join("app.log.1"))
}

fn post(place: &Place, done: &Done) -> io::Result<()> {
    let span = r#"{"traceId":"5b8efff798038103d269b633813fc60c","spanId":"eee19b7ec3c1b174","name":"work","startTimeUnixNano":"1","endTimeUnixNano":"9"}"#;
    let body = format!("{{\"resourceSpans\":[{{\"scopeSpans\":[{{\"spans\":[{span}]}}]}}]}}");
    let mut stream = TcpStream::connect(("127.0.0.1", place.otlp))?;
    write!(
        stream,
        "POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    if !answer.starts_with("HTTP/1.1 200") {
        return Err(io::Error::other(answer));
    }
    done.posts.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

/// A client that stays for a while and fetches everything ten times a second, as a logger does every ten seconds.
fn logger(place: &Place, done: &Done) -> io::Result<()> {
    let mut context = Context::host(&place.host).map_err(io::Error::other)?;
    let pmids = everything(&mut context).map_err(io::Error::other)?;
    let mut fetched = Fetched::new();
    for _ in 0..300 {
        context.fetch(&pmids, &mut fetched).map_err(io::Error::other)?;
        done.fetches.fetch_add(1, Ordering::Relaxed);
        sleep(Duration::from_millis(100));
    }
    Ok(())
}

/// A client that looks around, filters, and goes.
fn visitor(place: &Place, done: &Done) -> io::Result<()> {
    let visit = || {
        let mut context = Context::host(&place.host)?;
        let pmids = everything(&mut context)?;
        let records = context.pmid("jumpseat.event.records")?;
        let number = done.clients.fetch_add(1, Ordering::Relaxed);
        let filter = format!("status > {} && path =~ '^/orders/[0-9]+$'", number % 100);
        let values = Ok(vec![InstanceValue { inst: PM_IN_NULL, value: Value::from(filter) }]);
        context.store(&[ValueSet { pmid: records, values }])?;
        let mut fetched = Fetched::new();
        for _ in 0..3 {
            context.fetch(&pmids, &mut fetched)?;
            done.fetches.fetch_add(1, Ordering::Relaxed);
        }
        Ok::<_, ClientError>(())
    };
    visit().map_err(io::Error::other)
}

fn everything(context: &mut Context) -> Result<Vec<Pmid>, ClientError> {
    let names = context.traverse("jumpseat")?;
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let pmids: Vec<Pmid> = context.lookup_names(&names)?.into_iter().flatten().collect();
    context.descs(&pmids)?;
    Ok(pmids)
}

/// What the agent's process holds at a time.
struct Sample {
    seconds: f64,
    kib: f64,
    descriptors: f64,
}

/// Looks at the agent once a second, and has it read its configuration again once a minute.
fn watch(agent: &Child, done: &Done, seconds: u64) -> io::Result<Vec<Sample>> {
    let (begun, proc) = (Instant::now(), PathBuf::from(format!("/proc/{}", agent.id())));
    let mut samples = Vec::new();
    for second in 1..=seconds {
        sleep(Duration::from_secs(second).saturating_sub(begun.elapsed()));
        if second % 60 == 30 {
            let status = Command::new("kill").args(["-HUP", &agent.id().to_string()]).status()?;
            done.reloads.fetch_add(u64::from(status.success()), Ordering::Relaxed);
        }
        let sample = look(&proc, begun.elapsed().as_secs_f64())?;
        if second % 60 == 0 || second == seconds {
            println!("{second:5} s: {:8.0} KiB, {:4.0} descriptors", sample.kib, sample.descriptors);
        }
        samples.push(sample);
    }
    Ok(samples)
}

fn look(proc: &Path, seconds: f64) -> io::Result<Sample> {
    let status = fs::read_to_string(proc.join("status"))?;
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = resident.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0.0);
    let descriptors = fs::read_dir(proc.join("fd"))?.count() as f64;
    Ok(Sample { seconds, kib, descriptors })
}

fn report(samples: &[Sample], done: &Done) {
    let rest = &samples[samples.len() / 3..];
    let an_hour = |value: fn(&Sample) -> f64| slope(rest, value) * 3600.0;
    let (kib, descriptors) = (an_hour(|sample| sample.kib), an_hour(|sample| sample.descriptors));
    let [events, lines, posts, fetches, clients, programs, reloads, errors] = [
        &done.events,
        &done.lines,
        &done.posts,
        &done.fetches,
        &done.clients,
        &done.programs,
        &done.reloads,
        &done.errors,
    ]
    .map(|count| count.load(Ordering::Relaxed));
    println!(
        "{events} events, {lines} lines, {posts} posts, {fetches} fetches, {clients} visitors, {programs} programs, {reloads} reloads, {errors} errors"
    );
    let verdict = |met: bool| if met { "flat" } else { "NOT FLAT" };
    println!("memory:      {kib:+9.0} KiB an hour (goal: below {GOAL_KIB}): {}", verdict(kib < GOAL_KIB));
    println!(
        "descriptors: {descriptors:+9.2} an hour (goal: below {GOAL_DESCRIPTORS}): {}",
        verdict(descriptors < GOAL_DESCRIPTORS)
    );
}

/// By least squares, for each second.
fn slope(samples: &[Sample], value: fn(&Sample) -> f64) -> f64 {
    let count = samples.len() as f64;
    let mean = |of: &dyn Fn(&Sample) -> f64| samples.iter().map(of).sum::<f64>() / count;
    let (time, middle) = (mean(&|sample| sample.seconds), mean(&|sample| value(sample)));
    let above: f64 = samples.iter().map(|sample| (sample.seconds - time) * (value(sample) - middle)).sum();
    let below: f64 = samples.iter().map(|sample| (sample.seconds - time).powi(2)).sum();
    above / below
}
