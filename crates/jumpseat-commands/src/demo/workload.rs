//! What the demo traces: a small shop of three services on loopback, and the customers that use it.
//!
//! Real sockets, real spans: a customer's checkout is a span of `web`, which asks `orders`, which asks `payment`; each
//! service tells of its own part under its own name, and a trace's id goes with the request. After a while something goes
//! wrong in one of them.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

/// The sources of events: the services.
pub(super) const SOURCES: [&str; 3] = ["web", "orders", "payment"];
/// When the payment's partner begins to be slow, and to refuse cards that are good.
pub(super) const FAULT: Duration = Duration::from_secs(10);

const CUSTOMERS: u64 = 3;

/// The running services and their customers. They stop when this is dropped.
pub(super) struct Workload {
    stop: Arc<AtomicBool>,
    addresses: Vec<SocketAddr>,
    threads: Vec<JoinHandle<()>>,
}

impl Workload {
    /// Starts the services and the customers, tracing into the ingest socket at `socket`.
    pub(super) fn start(socket: &Path) -> io::Result<Workload> {
        let stop = Arc::new(AtomicBool::new(false));
        let spans = Arc::new(AtomicU64::new(1));
        let begun = Instant::now();
        let (mut threads, mut addresses): (Vec<JoinHandle<()>>, Vec<SocketAddr>) = (Vec::new(), Vec::new());
        // The last one first, as each has to know the one that it asks.
        let works: [(&'static str, Work); 3] = [("checkout", web), ("order", order), ("charge", charge)];
        for (name, (kind, work)) in SOURCES.into_iter().zip(works).rev() {
            let listener = TcpListener::bind(("127.0.0.1", 0))?;
            let service = Arc::new(Service {
                tracer: Tracer { stream: connect(socket, name)?, spans: Arc::clone(&spans) },
                next: addresses.last().copied(),
                begun,
                kind,
                work,
            });
            addresses.push(listener.local_addr()?);
            let stop = Arc::clone(&stop);
            threads.push(std::thread::spawn(move || accept(&listener, &service, &stop)));
        }
        let shop = addresses.last().copied();
        for number in 1..=CUSTOMERS {
            let stop = Arc::clone(&stop);
            threads.push(std::thread::spawn(move || {
                if let Some(shop) = shop {
                    // The service going away is how a customer's day ends.
                    let _ = buy(number, shop, &stop);
                }
            }));
        }
        Ok(Workload { stop, addresses, threads })
    }
}

impl Drop for Workload {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for address in &self.addresses {
            // Wakes the service out of accept().
            let _ = TcpStream::connect(address);
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// What a service does about a request. Its answer.
type Work = fn(&Service, &Request, &Span<'_>) -> io::Result<String>;

struct Service {
    tracer: Tracer,
    /// The service that it asks.
    next: Option<SocketAddr>,
    begun: Instant,
    /// What its spans are called.
    kind: &'static str,
    work: Work,
}

/// A line to a service: whose part it is, and of which order.
struct Request {
    trace: String,
    parent: String,
    order: u64,
}

impl Request {
    fn parse(line: &str) -> Option<Request> {
        let mut words = line.split(' ').map(str::to_owned);
        let (trace, parent, order) = (words.next()?, words.next()?, words.next()?);
        Some(Request { trace, parent, order: order.parse().ok()? })
    }
}

fn accept(listener: &TcpListener, service: &Arc<Service>, stop: &AtomicBool) {
    let mut sessions = Vec::new();
    for stream in listener.incoming() {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let (Ok(stream), service) = (stream, Arc::clone(service)) else { continue };
        sessions.push(std::thread::spawn(move || {
            // A customer that hangs up mid-request is none of the demo's business.
            let _ = service.serve(stream);
        }));
    }
    for session in sessions {
        let _ = session.join();
    }
}

impl Service {
    fn serve(&self, stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let mut replies = stream.try_clone()?;
        for line in BufReader::new(stream).lines() {
            let Some(request) = Request::parse(&line?) else { break };
            let span = self.tracer.begin(self.kind, &request);
            let answer = (self.work)(self, &request, &span)?;
            let fields = match answer.split_once(": ") {
                Some((_, why)) => format!(r#""severity":"error","status":"error","message":"{why}""#),
                None => r#""severity":"info","status":"ok""#.to_owned(),
            };
            span.event("end", &fields);
            replies.write_all(format!("{answer}\n").as_bytes())?;
        }
        Ok(())
    }

    /// Asks the next service, and waits for its answer.
    fn ask(&self, request: &Request, span: &Span<'_>) -> io::Result<String> {
        let Some(next) = self.next else { return Ok(String::new()) };
        let stream = TcpStream::connect(next)?;
        let mut asked = stream.try_clone()?;
        asked.write_all(format!("{} {} {}\n", request.trace, span.id, request.order).as_bytes())?;
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer)?;
        Ok(answer.trim_end().to_owned())
    }

    /// Time that work takes here: not the same for all orders.
    fn work_for(&self, millis: u64, order: u64) {
        std::thread::sleep(Duration::from_micros(millis * 1_000 + order * 7_919 % 1_000 * millis));
    }
}

fn web(service: &Service, request: &Request, span: &Span<'_>) -> io::Result<String> {
    service.work_for(1, request.order);
    let answer = service.ask(request, span)?;
    service.work_for(1, request.order);
    // The customer is told no details.
    Ok(if answer.contains(": ") { "500: no order without payment".to_owned() } else { answer })
}

fn order(service: &Service, request: &Request, span: &Span<'_>) -> io::Result<String> {
    let items = 1 + request.order % 5;
    span.event("point", &format!(r#""severity":"debug","message":"{items} items reserved","items":{items}"#));
    service.work_for(3, request.order);
    service.ask(request, span)
}

fn charge(service: &Service, request: &Request, span: &Span<'_>) -> io::Result<String> {
    let faulty = service.begun.elapsed() >= FAULT;
    if faulty {
        let attempt = r#""severity":"warning","message":"the bank is slow: trying its second address""#;
        span.event("point", attempt);
    }
    service.work_for(if faulty { 60 } else { 5 }, request.order);
    let card = 1_000 + request.order % 9_000;
    match faulty && request.order.is_multiple_of(3) {
        true => Ok(format!("402: the bank has refused card {card} after a timeout")),
        false => Ok("200".to_owned()),
    }
}

fn buy(number: u64, shop: SocketAddr, stop: &AtomicBool) -> io::Result<()> {
    let stream = TcpStream::connect(shop)?;
    stream.set_nodelay(true)?;
    let mut orders = stream.try_clone()?;
    let mut answers = BufReader::new(stream);
    let mut dice = number.wrapping_mul(0x2545_f491_4f6c_dd1d);
    let mut answer = String::new();
    while !stop.load(Ordering::Relaxed) {
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        orders.write_all(format!("{dice:032x} - {}\n", dice % 9973).as_bytes())?;
        answer.clear();
        if answers.read_line(&mut answer)? == 0 {
            break;
        }
        std::thread::sleep(Duration::from_millis(200 + dice % 500));
    }
    Ok(())
}

fn connect(socket: &Path, source: &str) -> io::Result<Mutex<UnixStream>> {
    let mut stream = UnixStream::connect(socket)?;
    stream.write_all(format!("{{\"jumpseat\":{{\"source\":\"{source}\"}}}}\n").as_bytes())?;
    Ok(Mutex::new(stream))
}

/// Sends events to the ingest socket, a line each.
struct Tracer {
    stream: Mutex<UnixStream>,
    /// Shared by all services, so that no id is there twice.
    spans: Arc<AtomicU64>,
}

/// A span that has begun.
struct Span<'a> {
    tracer: &'a Tracer,
    name: &'static str,
    id: String,
    /// The ids of the trace and of the parent, as members of a JSON object.
    place: String,
    order: u64,
}

impl Tracer {
    fn begin(&self, name: &'static str, request: &Request) -> Span<'_> {
        let id = format!("{:016x}", self.spans.fetch_add(1, Ordering::Relaxed));
        let parent = match request.parent.as_str() {
            "-" => String::new(),
            parent => format!(r#","parent_id":"{parent}""#),
        };
        let place = format!(r#""trace_id":"{}","span_id":"{id}"{parent}"#, request.trace);
        let span = Span { tracer: self, name, id, place, order: request.order };
        span.event("start", r#""severity":"info""#);
        span
    }
}

impl Span<'_> {
    fn event(&self, phase: &str, fields: &str) {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
        let (name, place, order) = (self.name, &self.place, self.order);
        let line =
            format!(r#"{{"time":{now},"type":"{name}","phase":"{phase}",{place},"order":{order},{fields}}}"#);
        if let Ok(mut stream) = self.tracer.stream.lock() {
            // Tracing must never hurt the traced program: when the agent is gone, so are the events.
            let _ = stream.write_all((line + "\n").as_bytes());
        }
    }
}
