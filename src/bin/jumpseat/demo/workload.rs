//! What the demo traces: a small order service on loopback, and the customers that use it.
//!
//! Real sockets, real work, real spans: a request is a span, the stock look-up in it a child span,
//! and what the customer saw a point event of its own source.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

const SHOP: &str = "shop";
const CUSTOMERS_SOURCE: &str = "customers";
/// The sources of events.
pub(super) const SOURCES: [&str; 2] = [SHOP, CUSTOMERS_SOURCE];

const SHELVES: usize = 20_000;
const CUSTOMERS: u64 = 3;

/// The running service and its customers. They stop when this is dropped.
pub(super) struct Workload {
    stop: Arc<AtomicBool>,
    address: SocketAddr,
    threads: Vec<JoinHandle<()>>,
}

impl Workload {
    /// Starts the service and the customers, tracing into the ingest socket at `socket`.
    pub(super) fn start(socket: &Path) -> io::Result<Workload> {
        let stop = Arc::new(AtomicBool::new(false));
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let address = listener.local_addr()?;
        let service = Arc::new(Service {
            tracer: Tracer::connect(socket, SHOP)?,
            stock: (0..SHELVES as u64).map(|shelf| shelf.wrapping_mul(0x9e37_79b9) % 97).collect(),
        });
        let customers = Arc::new(Tracer::connect(socket, CUSTOMERS_SOURCE)?);

        let mut threads = vec![std::thread::spawn({
            let stop = Arc::clone(&stop);
            move || accept(&listener, &service, &stop)
        })];
        for number in 1..=CUSTOMERS {
            let (stop, tracer) = (Arc::clone(&stop), Arc::clone(&customers));
            threads.push(std::thread::spawn(move || {
                // The service going away is how a customer's day ends.
                let _ = shop(number, address, &tracer, &stop);
            }));
        }
        Ok(Workload { stop, address, threads })
    }
}

impl Drop for Workload {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // Wakes the service out of accept().
        let _ = TcpStream::connect(self.address);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

struct Service {
    tracer: Tracer,
    stock: Vec<u64>,
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
            let line = line?;
            let begun = Instant::now();
            let span = self.tracer.new_span();
            let (verb, target) = line.split_once(' ').unwrap_or((&line, ""));
            self.tracer.event(
                "request",
                "start",
                "info",
                &format!(r#""span_id":"{span}","verb":"{verb}","target":"{target}""#),
            );
            let (status, found) = match target.strip_prefix("/orders/").and_then(|n| n.parse::<u64>().ok()) {
                Some(order) => self.look_up(&span, order),
                None => (404, 0),
            };
            let micros = begun.elapsed().as_micros();
            let severity = if status >= 500 { "error" } else { "info" };
            self.tracer.event(
                "request",
                "end",
                severity,
                &format!(r#""span_id":"{span}","status":{status},"items":{found},"micros":{micros}"#),
            );
            replies.write_all(format!("{status} {found}\n").as_bytes())?;
        }
        Ok(())
    }

    fn look_up(&self, parent: &str, order: u64) -> (u32, u64) {
        let span = self.tracer.new_span();
        let ids = format!(r#""span_id":"{span}","parent_id":"{parent}""#);
        self.tracer.event("stock.lookup", "start", "debug", &ids);
        let wanted = order % 97;
        let found = self.stock.iter().filter(|&&item| item == wanted).count() as u64;
        // A warehouse worker walks to the shelf.
        std::thread::sleep(Duration::from_micros(300 + order % 7 * 400));
        self.tracer.event("stock.lookup", "end", "debug", &format!(r#"{ids},"scanned":{SHELVES}"#));
        if order.is_multiple_of(31) { (500, 0) } else { (200, found) }
    }
}

fn shop(number: u64, address: SocketAddr, tracer: &Tracer, stop: &AtomicBool) -> io::Result<()> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    let mut orders = stream.try_clone()?;
    let mut answers = BufReader::new(stream);
    let mut dice = number.wrapping_mul(0x2545_f491_4f6c_dd1d);
    let mut answer = String::new();
    while !stop.load(Ordering::Relaxed) {
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        let target =
            if dice.is_multiple_of(13) { "/basement".into() } else { format!("/orders/{}", dice % 9973) };
        let begun = Instant::now();
        orders.write_all(format!("GET {target}\n").as_bytes())?;
        answer.clear();
        if answers.read_line(&mut answer)? == 0 {
            break;
        }
        let status = answer.split_once(' ').map_or("0", |(status, _)| status);
        let millis = begun.elapsed().as_secs_f64() * 1e3;
        let severity = if status.starts_with('2') { "info" } else { "warn" };
        tracer.event(
            "answer",
            "point",
            severity,
            &format!(
                r#""message":"customer {number}: {target} answered {status}","status":{status},"millis":{millis:.3}"#
            ),
        );
        std::thread::sleep(Duration::from_millis(120 + dice % 400));
    }
    Ok(())
}

/// Sends events to the ingest socket, a line each.
struct Tracer {
    stream: Mutex<UnixStream>,
    spans: AtomicU64,
}

impl Tracer {
    fn connect(socket: &Path, source: &str) -> io::Result<Tracer> {
        let mut stream = UnixStream::connect(socket)?;
        stream.write_all(format!("{{\"jumpseat\":{{\"source\":\"{source}\"}}}}\n").as_bytes())?;
        Ok(Tracer { stream: Mutex::new(stream), spans: AtomicU64::new(1) })
    }

    fn new_span(&self) -> String {
        format!("{:08x}", self.spans.fetch_add(1, Ordering::Relaxed))
    }

    fn event(&self, kind: &str, phase: &str, severity: &str, fields: &str) {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
        let line = format!(
            "{{\"time\":{now},\"type\":\"{kind}\",\"phase\":\"{phase}\",\"severity\":\"{severity}\",{fields}}}\n"
        );
        if let Ok(mut stream) = self.stream.lock() {
            // Tracing must never hurt the traced program: when the agent is gone, so are the events.
            let _ = stream.write_all(line.as_bytes());
        }
    }
}
