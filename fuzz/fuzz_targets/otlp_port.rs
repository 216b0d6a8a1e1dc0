//! A running OTLP source for fuzzing: hyper, our handlers and the decoder behind a port of this machine.

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, bounded};
use jumpseat::source::delivery::Delivery;
use jumpseat::source::otlp::{OtlpConfig, OtlpSource, OtlpStats};
use jumpseat::source::registry::{Registry, RegistryConfig};
use jumpseat::source::{Definition, Outlet};

/// Longer than any answer takes.
const PATIENCE: Duration = Duration::from_secs(5);

/// Which of the two protocols.
#[derive(Clone, Copy, PartialEq, Eq)]
#[allow(dead_code, reason = "each target takes one of them")]
pub enum Protocol {
    Http,
    Grpc,
}

/// The source, and the core's ends of its channels.
pub struct Port {
    source: OtlpSource,
    deliveries: Receiver<Delivery>,
    definitions: Receiver<Definition>,
}

impl Port {
    pub fn open(protocol: Protocol) -> Port {
        let (registry, definitions) = Registry::open(&RegistryConfig::new(400)).expect("nothing is on disk");
        let (out, deliveries) = bounded(1000);
        let outlet =
            Outlet { registry, out, wake: Arc::new(|| ()), state_dir: None, restarts: Arc::default(), kept: Default::default(), starting: Default::default(), series: Default::default() };
        let here = |wanted| (protocol == wanted).then(|| "127.0.0.1:0".to_owned());
        let config = OtlpConfig {
            listen: here(Protocol::Http),
            grpc: here(Protocol::Grpc),
            max_field: 1024,
            max_fields: 64,
            ..OtlpConfig::default()
        };
        let source = OtlpSource::start(&config, &outlet, &Arc::new(OtlpStats::default()));
        Port { source: source.expect("a port is free"), deliveries, definitions }
    }

    /// A new connection; `None` while the machine has no port left for one.
    pub fn connect(&self) -> Option<TcpStream> {
        let address: SocketAddr = self.source.addresses[0];
        let stream = TcpStream::connect(address).ok()?;
        stream.set_nodelay(true).expect("a socket");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        Some(stream)
    }

    /// Throws away what the core would take.
    pub fn drain(&self) {
        while self.deliveries.try_recv().is_ok() {}
        while self.definitions.try_recv().is_ok() {}
    }
}
