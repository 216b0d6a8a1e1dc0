//! `jumpseat serve`: the agent with a collector endpoint of its own.

use crate::default_address;
use crate::say::sayln;
use jumpseat_tools::complain;
use std::io::IsTerminal;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use jumpseat_agent::{self as agent, Adjust, Clients, Config, RunningAgent, Setup, Signals, Trust, handover};
use jumpseat_source::SocketConfig;
use nix::errno::Errno;
use nix::unistd::geteuid;
use pcp_net::{Certificate, Passwords};
use pcp_pmda::log::{self, Log, LogFormat};
use pcp_pmda::{Exit, Listen, Security, ServeError, identity};

/// Where programs with an OpenTelemetry SDK send, unless told otherwise.
const OTLP_HTTP: &str = "localhost:4318";
const OTLP_GRPC: &str = "localhost:4317";

#[derive(Args, Clone)]
pub(crate) struct ServeArgs {
    /// Address for PCP clients: HOST:PORT, PORT on localhost, or unix:PATH. May be given several times.
    /// [default: localhost:44321, or another port if that is in use, and a Unix socket next to the ingest socket]
    ///
    /// Who a client is, is known on Unix sockets only; where it is, over TCP. Both count in [access] and for readers of sources
    /// in the configuration; without these whoever can connect can read everything. Port 0 is any free port.
    #[arg(long, value_name = "ADDRESS")]
    listen: Vec<String>,
    /// Permission bits of Unix sockets for PCP clients, in octal.
    #[arg(long, value_name = "MODE", default_value = "600", value_parser = mode)]
    listen_mode: u32,
    /// Certificate (PEM) that the endpoint proves itself with, so that clients may encrypt: pcps://HOST.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Its private key, which others must not be able to read.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Certificates of authorities: clients over TCP have to show one by these.
    #[arg(long, value_name = "FILE")]
    tls_client_ca: Option<PathBuf>,
    /// Turn clients over TCP away that do not begin TLS.
    #[arg(long)]
    require_tls: bool,
    /// Users who may log in over TLS and Unix sockets; `jumpseat passwd` writes the file.
    #[arg(long, value_name = "FILE")]
    passwords: Option<PathBuf>,
    /// Configuration file (TOML); without it, the defaults and one ingest socket.
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Ingest socket to make, instead of those of the configuration.
    #[arg(short, long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Take OpenTelemetry's traces and logs (OTLP): over HTTP at localhost:4318 and over gRPC at localhost:4317, or over HTTP at
    /// this address only; what the configuration says comes first.
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    otlp: Option<String>,
    /// Take it beyond this machine, too, in plain text and from everybody who reaches it, as in a network of containers.
    #[arg(long, requires = "otlp")]
    otlp_insecure: bool,
    /// Directory where identifiers are kept across restarts, over what the configuration says.
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Number of the performance metrics domain.
    #[arg(short, long, value_parser = clap::value_parser!(u16).range(1..=510))]
    domain: Option<u16>,
    /// User to run as, if started as root; such as pcp. What only root may, opening the kernel's files, is done by a helper.
    #[arg(short = 'U', long, value_name = "USER")]
    user: Option<String>,
    /// For units of systemd: leave listening sockets to the next process in systemd's store of descriptors
    /// (FileDescriptorStoreMax=), so that a restart refuses nobody, in place of a keeper as [handover] says.
    #[arg(long)]
    fd_store: bool,
    /// Where messages go; standard error by default.
    #[arg(short, long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Form of the messages: text, or json for one object a line.
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    log_format: LogFormat,
}

pub(crate) fn run(args: &ServeArgs) -> ExitCode {
    match serve(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            // A configuration has all its mistakes told, a line each.
            message.lines().for_each(|line| complain!("jumpseat: {line}"));
            ExitCode::FAILURE
        }
    }
}

fn serve(args: &ServeArgs) -> Result<(), String> {
    let mut config = match &args.config {
        Some(path) => Config::load(path).map_err(|error| error.to_string())?,
        None => Config::default(),
    };
    apply(args, &mut config);
    let mut security = security(&config)?;
    let state_dir = args.state_dir.clone().or(config.state_dir.clone());
    let state_dir = state_dir.unwrap_or_else(|| user_state_dir(args.user.is_some()));
    let domain = args.domain.or(config.domain).unwrap_or(agent::DEFAULT_DOMAIN);
    let addresses = match &args.listen[..] {
        [] => vec![default_address::tcp(&handover::waiting(&state_dir, domain).tcp)?],
        given => given.iter().map(|text| resolve(text, args.listen_mode)).collect::<Result<_, _>>()?,
    };
    // Beyond what was asked for: that it cannot be had is no reason to end.
    let extra = config.socket.iter().find_map(|socket| socket.unix()).filter(|_| args.listen.is_empty());
    let extra = extra.map(|events| default_address::unix(events, args.listen_mode));
    Log::new(agent::NAME, tracing::Level::INFO).format(args.log_format).install();
    let open = |path: &PathBuf| {
        log::open(agent::NAME, path)
            .map_err(|error| format!("cannot open the log {}: {error}", path.display()))
    };
    let log = args.log.as_ref().map(open).transpose()?;
    let mut trust = Trust::prepare(&config).map_err(|error| format!("cannot start a helper: {error}"))?;
    if let Some(user) = &args.user {
        identity::drop_privileges(user, log.as_ref(), None, &trust.groups)
            .map_err(|error| error.to_string())?;
    } else if geteuid().is_root() {
        tracing::warn!("runs as root; with --user it reads what others send as a user who may do less");
    }
    let sockets = addresses.iter().flatten().chain(&extra).filter_map(|address| match address {
        Listen::Unix { path, .. } => Some(path.clone()),
        Listen::Tcp(_) => None,
    });
    let sockets: Vec<_> = sockets.collect();
    if args.fd_store {
        trust.store_listeners().map_err(|error| format!("--fd-store: {error}"))?;
    } else {
        trust.keep_listeners(&config, &state_dir, domain, &sockets);
    }
    trust.confine(&config, &state_dir, &sockets);
    let options = args.clone();
    let adjust: Adjust = Arc::new(move |config| apply(&options, config));
    let mut running = RunningAgent::open(&Setup {
        config: &config,
        domain,
        state_dir: Some(&state_dir),
        help: None,
        signals: Signals::Handle { reload: args.config.as_deref(), adjust: Some(&adjust) },
        clients: Clients::Direct,
        trust: &trust,
    })
    .map_err(|error| match error.is_in_use() {
        true => format!("{error}; --state-dir DIR --socket PATH run this one beside it"),
        false => error.to_string(),
    })?;
    // Later on it is read as the user that this is now.
    let passwords = config.access.passwords.as_ref().map(|path| Passwords::open(path)).transpose();
    security.passwords = passwords.map_err(|error| error.to_string())?;
    running.server.secure(security).map_err(|error| error.to_string())?;
    listen(&mut running, &addresses, extra.as_ref(), &config)?;
    match running.run().map_err(|error| error.to_string())? {
        Exit::Signal(signal) => tracing::info!("ended by signal {signal}"),
        Exit::PmcdGone | Exit::Stopped => {}
    }
    Ok(())
}

/// Listens, and tells where.
fn listen(
    running: &mut RunningAgent,
    addresses: &[Vec<Listen>],
    extra: Option<&Listen>,
    config: &Config,
) -> Result<(), String> {
    let hints = std::io::stdout().is_terminal();
    for addresses in addresses {
        for bound in listen_to_those_there(addresses, |address| running.listen(address))? {
            sayln!("PCP clients: {}", host_of(&bound));
            if hints {
                sayln!("    pminfo -h {} -f jumpseat", host_of(&bound));
            }
        }
    }
    match extra.map(|address| running.listen(address)) {
        None => {}
        Some(Ok(bound)) => {
            sayln!("             {}", host_of(&bound));
            if hints {
                sayln!("    pmstore -h {} jumpseat.control.reload 1", host_of(&bound));
            }
        }
        Some(Err(error)) => tracing::warn!("{error}: nobody can store values here"),
    }
    for socket in &config.socket {
        sayln!("events:      {}", socket.place());
        match (&socket.listen, socket.unix()) {
            (Some(listen), _) if hints => {
                sayln!("    jumpseat feed --connect {listen} --ca FILE --token-file FILE FILE");
            }
            (_, Some(path)) if hints => sayln!("    jumpseat feed --socket {} FILE", path.display()),
            _ => {}
        }
    }
    for (what, protocol, address) in
        [("HTTP", "http/protobuf", &config.otlp.listen), ("gRPC", "grpc", &config.otlp.grpc)]
    {
        let Some(address) = address else { continue };
        let scheme = if config.otlp.tls.is_some() { "https" } else { "http" };
        sayln!("OTLP, {what}:  {scheme}://{address}");
        if hints {
            let endpoint = format!("OTEL_EXPORTER_OTLP_ENDPOINT={scheme}://{address}");
            sayln!("    {endpoint} OTEL_EXPORTER_OTLP_PROTOCOL={protocol} PROGRAM");
        }
    }
    Ok(())
}

/// Puts options in the place of what the configuration says, each time it is read.
fn apply(args: &ServeArgs, config: &mut Config) {
    if args.socket.is_some() || config.socket.is_empty() {
        let path = args.socket.clone().unwrap_or_else(jumpseat_source::config::socket_to_make);
        config.socket = vec![SocketConfig { path, ..SocketConfig::default() }];
    }
    match args.otlp.as_deref() {
        None => {}
        Some("") => {
            config.otlp.listen.get_or_insert_with(|| OTLP_HTTP.to_owned());
            config.otlp.grpc.get_or_insert_with(|| OTLP_GRPC.to_owned());
        }
        Some(address) => _ = config.otlp.listen.get_or_insert_with(|| address.to_owned()),
    }
    config.otlp.insecure |= args.otlp_insecure;
    let tls = &mut config.tls;
    for (key, option) in [
        (&mut tls.certificate, &args.tls_cert),
        (&mut tls.key, &args.tls_key),
        (&mut tls.client_ca, &args.tls_client_ca),
        (&mut config.access.passwords, &args.passwords),
    ] {
        if option.is_some() {
            key.clone_from(option);
        }
    }
    tls.required |= args.require_tls;
}

/// What is said about certificates, with the files read.
fn security(config: &Config) -> Result<Security, String> {
    let tls = &config.tls;
    let files = tls.files();
    if files.is_none() && (tls.required || tls.client_ca.is_some()) {
        return Err("TLS needs a certificate and its key: give --tls-cert FILE --tls-key FILE".to_owned());
    }
    let certificate = files.map(|files| Certificate::load(&files)).transpose();
    let certificate = certificate.map_err(|error| error.to_string())?;
    Ok(Security { certificate, required: tls.required, passwords: None })
}

/// Permission bits.
fn mode(text: &str) -> Result<u32, String> {
    let bits = u32::from_str_radix(text, 8).ok().filter(|bits| *bits <= 0o777);
    bits.ok_or_else(|| "write octal digits, such as 660".to_owned())
}

/// What an address given means: all addresses of a host, so that `localhost` means both of its families, or a path.
fn resolve(text: &str, mode: u32) -> Result<Vec<Listen>, String> {
    match text.strip_prefix("unix:") {
        Some("") => Err(format!("--listen {text}: write unix:PATH")),
        // As PCP's tools say it: two slashes more mean nothing.
        Some(path) => Ok(vec![Listen::Unix { path: path.into(), mode }]),
        None => Ok(addresses_of(text)?.into_iter().map(Listen::Tcp).collect()),
    }
}

pub(crate) fn addresses_of(text: &str) -> Result<Vec<SocketAddr>, String> {
    let bare_port = text.parse::<u16>().is_ok();
    let full = if bare_port { format!("localhost:{text}") } else { text.to_owned() };
    let found = full.to_socket_addrs().map_err(|error| {
        format!("--listen {text}: {error}; write HOST:PORT, such as {}", default_address::FIRST)
    })?;
    let mut found: Vec<_> = found.collect();
    found.dedup();
    if found.first().is_some_and(|address| address.port() == 0) {
        // Each family would get a port of its own.
        found.truncate(1);
    }
    if found.is_empty() {
        return Err(format!("--listen {text}: the host has no address"));
    }
    Ok(found)
}

/// Listens on the addresses of one host. A name may have addresses that the machine has not, such as `::1` for
/// `localhost` where IPv6 is switched off; one of them has to be there.
fn listen_to_those_there(
    addresses: &[Listen],
    mut listen: impl FnMut(&Listen) -> Result<Listen, ServeError>,
) -> Result<Vec<Listen>, String> {
    let (mut bound, mut absent) = (Vec::new(), None);
    for address in addresses {
        match listen(address) {
            Ok(address) => bound.push(address),
            Err(error) if is_absent(&error) => absent = Some(error),
            Err(error) => return Err(error.to_string()),
        }
    }
    match absent {
        Some(error) if bound.is_empty() => Err(error.to_string()),
        _ => Ok(bound),
    }
}

/// Whether it is an address the machine has not, or of a family it does not know.
fn is_absent(error: &ServeError) -> bool {
    let ServeError::Listen { source, .. } = error else { return false };
    let code = source.raw_os_error().map(Errno::from_raw);
    matches!(code, Some(Errno::EADDRNOTAVAIL | Errno::EAFNOSUPPORT))
}

/// What `-h` of PCP's tools takes.
fn host_of(address: &Listen) -> String {
    match address {
        Listen::Tcp(address) => address.to_string(),
        Listen::Unix { path, .. } => format!("unix:{}", path.display()),
    }
}

/// Where the agent of an ordinary user keeps identifiers. One that was started as root for somebody else: where PCP does.
pub(crate) fn user_state_dir(for_another: bool) -> PathBuf {
    if for_another && geteuid().is_root() {
        return agent::default_state_dir();
    }
    let base = std::env::var_os("XDG_STATE_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/state")));
    base.map_or_else(agent::default_state_dir, |base| base.join("jumpseat"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn an_address_that_is_not_there_is_left_out_unless_it_is_the_only_one() {
        let listen = |address: &Listen| match address {
            Listen::Tcp(tcp) => match TcpListener::bind(tcp) {
                Ok(socket) => Ok(Listen::Tcp(socket.local_addr().unwrap())),
                Err(source) => Err(ServeError::Listen { address: address.to_string(), source }),
            },
            Listen::Unix { .. } => panic!("not here"),
        };
        // Of the block for documentation: nobody's.
        let tcp = |address| Listen::Tcp(SocketAddr::from((address, 0)));
        let (absent, there) = (tcp([192, 0, 2, 1]), tcp([127, 0, 0, 1]));
        assert_eq!(listen_to_those_there(&[absent.clone(), there.clone()], listen).unwrap().len(), 1);
        assert_eq!(listen_to_those_there(&[there.clone(), there.clone()], listen).unwrap().len(), 2);
        let error = listen_to_those_there(&[absent], listen).unwrap_err();
        assert!(error.starts_with("cannot listen on 192.0.2.1:0: "), "{error}");
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let taken_address = Listen::Tcp(taken.local_addr().unwrap());
        assert!(listen_to_those_there(&[there, taken_address], listen).is_err());
    }
}
