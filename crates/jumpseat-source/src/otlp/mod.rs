//! OpenTelemetry's protocol (OTLP): spans, logs and metrics that programs send over HTTP or gRPC.
//!
//! ```text
//! TCP --> server --> http, grpc (on hyper) --> intake --> inflate --> json --> decode --> span, log --> Lanes --> core
//!                                                                             --> points --> Series --> core
//! ```
//!
//! * `server`: the thread that listens, and its connections, with their `places`; `http` and `grpc`: which requests are served, and with
//!   what answer; `transport` and `reply`: what hyper needs for that; `intake`: what becomes of a request;
//!   [`inflate`]: bodies made shorter; `answer`: what clients are told.
//! * [`json`]: turns a body of JSON into the same body in protobuf, so that there is one decoder.
//! * [`decode`]: a whole request; `wire`: protobuf's wire format; `value`: attributes; `resource`: who sends;
//!   `span` and `log`: their records, and `record`: what these have in common; `points`: metrics.
//!
//! A span becomes a START and an END record, each of its events a POINT, all with the span's id as ID; a log
//! record becomes a POINT. The resource decides the source (`docs/sources/otlp.md`).
//!
//! **Bad input:** what cannot be read within a span, a log record or a data point refuses that one, and the answer tells how many
//! were refused and why the first of them was. What cannot be read around them refuses the rest of the request.
//! All of it is counted by [`super::Reason`].

mod answer;
mod bearer;
pub mod config;
mod cors;
pub mod decode;
mod grpc;
mod http;
pub mod inflate;
mod intake;
pub mod json;
mod log;
mod places;
mod points;
mod record;
mod reply;
mod resource;
mod server;
mod span;
mod stats;
mod transport;
mod value;
mod wire;

pub use config::OtlpConfig;
pub use server::OtlpSource;
pub use stats::OtlpStats;
pub use value::AttributeLimits;
