//! The command line of `jumpseat web`. Data only: the main program makes manual page and completions of it.

use std::path::PathBuf;

use clap::{ArgAction, Args};

/// Show metrics, events and spans of hosts and archives on the web: a page, Grafana's data sources, Prometheus
#[derive(Args, Clone, Debug)]
#[command(
    disable_help_flag = true,
    after_help = "Examples:\n  \
    jumpseat web\n  \
    jumpseat web -h web1 -h web2 -a /var/log/pcp/pmlogger\n  \
    jumpseat web --listen 0.0.0.0:44322 --certificate web.pem --key web.key --passwords people\n\n\
    Without -h and -a: the collector of this machine. Data sources of Grafana: PCP Vector, PCP Valkey, Jaeger, Loki and \
    Prometheus, each with the address of this server.\n\n\
    Exit status: 0 after SIGTERM or SIGINT, 1 if it cannot serve."
)]
pub struct WebArgs {
    /// Host whose collector to show, as PCP's tools take it; may be given again
    #[arg(short = 'h', long = "host", value_name = "HOST")]
    pub hosts: Vec<String>,
    /// Archive, or directory with archives in it and below, which is watched; may be given again
    #[arg(short = 'a', long = "archive", value_name = "PATH")]
    pub archives: Vec<PathBuf>,
    /// Where to listen; beyond this machine only with a certificate and passwords or tokens
    #[arg(long, value_name = "HOST:PORT", default_value = "localhost:44322")]
    pub listen: String,
    /// Let clients name any host, not only those of -h: this server then connects where they say
    #[arg(long)]
    pub any_host: bool,
    /// Let clients store values into metrics
    #[arg(long)]
    pub allow_store: bool,
    /// PEM file with the server's certificate; read again when it changes
    #[arg(long, value_name = "FILE", requires = "key")]
    pub certificate: Option<PathBuf>,
    /// PEM file with its private key
    #[arg(long, value_name = "FILE", requires = "certificate")]
    pub key: Option<PathBuf>,
    /// File of passwords, which `jumpseat passwd` writes: clients have to log in
    #[arg(long, value_name = "FILE")]
    pub passwords: Option<PathBuf>,
    /// File of tokens, a line each: NAME SECRET; clients send one as `Authorization: Bearer SECRET`
    #[arg(long, value_name = "FILE")]
    pub tokens: Option<PathBuf>,
    /// Serve beyond this machine without certificate, passwords or tokens: everybody there may read everything
    #[arg(long)]
    pub insecure: bool,
    /// Name by which browsers reach this server, besides localhost and that of --listen; may be given again
    #[arg(long, value_name = "NAME")]
    pub allow_name: Vec<String>,
    /// Origin whose pages may read from here (`https://grafana.example.com`), or * for all; may be given again
    #[arg(long, value_name = "ORIGIN")]
    pub allow_origin: Vec<String>,
    /// Directory for indexes of archives [default: $XDG_CACHE_HOME/jumpseat, or ~/.cache/jumpseat]
    #[arg(long, value_name = "DIR")]
    pub cache: Option<PathBuf>,
    /// Print help
    #[arg(long, action = ArgAction::Help)]
    help: Option<bool>,
}
