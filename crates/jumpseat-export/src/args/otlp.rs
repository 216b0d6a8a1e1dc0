//! The options that go with `--otlp`.

use std::path::PathBuf;

use clap::Args;

/// The options that go with `--otlp`.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "OTLP")]
pub struct OtlpArgs {
    /// Send to a receiver of OTLP, such as http://localhost:4318
    #[arg(long, value_name = "URL", group = "output")]
    pub otlp: Option<String>,
    /// How: protobuf over HTTP, or gRPC [default: grpc for port 4317, else http]
    #[arg(long, value_name = "PROTOCOL", requires = "otlp")]
    pub protocol: Option<Protocol>,
    /// Send this header with each request, may be given several times
    #[arg(long = "header", value_name = "NAME=VALUE", requires = "otlp")]
    pub headers: Vec<String>,
    /// Trust these certificates (PEM) for https, not those of the system
    #[arg(long, value_name = "FILE", requires = "otlp")]
    pub ca: Option<PathBuf>,
    /// Send the word in this file as bearer token
    #[arg(long, value_name = "FILE", requires = "otlp")]
    pub token_file: Option<PathBuf>,
    /// Keep in this file how far event records were taken, and go on there
    #[arg(long, value_name = "FILE", requires = "otlp", conflicts_with = "archives")]
    pub state: Option<PathBuf>,
    /// Most bytes of requests that wait for the receiver
    #[arg(long, value_name = "BYTES", requires = "otlp", default_value_t = 64 << 20)]
    pub queue: usize,
    /// How long a request that is not taken is sent again
    #[arg(long, value_name = "INTERVAL", requires = "otlp", default_value = "5min")]
    pub give_up: String,
    /// How long the end of a live export waits for what was not sent yet
    #[arg(long, value_name = "INTERVAL", requires = "otlp", default_value = "10sec")]
    pub flush: String,
    /// Send requests as they are, not compressed
    #[arg(long, requires = "otlp")]
    pub no_gzip: bool,
}

/// How requests are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Protocol {
    /// Protobuf over HTTP.
    Http,
    /// gRPC.
    Grpc,
}
