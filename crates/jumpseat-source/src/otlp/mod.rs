//! OpenTelemetry's protocol (OTLP): spans and logs that programs send over HTTP or gRPC.
//!
//! ```text
//! socket --> server --> http --> intake --> inflate --> json --> decode --> span, log --> Lanes --> core
//! ```
//!
//! * [`server`]: the thread that listens; [`http`]: a connection's requests, sans-I/O; `intake`: what becomes of one;
//!   [`inflate`]: bodies made shorter; [`answer`]: what clients are told.
//! * [`json`]: turns a body of JSON into the same body in protobuf, so that there is one decoder.
//! * [`decode`]: a whole request; `wire`: protobuf's wire format; `value`: attributes; `resource`: who sends;
//!   `span` and `log`: their records, and `record`: what these have in common.
//! * `grpc`: the same over gRPC, in a thread of its own.
//!
//! A span becomes a START and an END record, each of its events a POINT, all with the span's id as ID; a log
//! record becomes a POINT. The resource decides the source (`docs/sources/otlp.md`).
//!
//! **Bad input:** what cannot be read within a span or a log record refuses that one, and the answer tells how many
//! were refused and why the first of them was. What cannot be read around them refuses the rest of the request.
//! All of it is counted by [`super::Reason`].

pub mod answer;
pub mod config;
pub mod decode;
pub mod grpc;
pub mod http;
pub mod inflate;
mod intake;
pub mod json;
mod log;
mod record;
mod resource;
pub mod server;
mod span;
pub mod stats;
mod value;
mod wire;

pub use config::OtlpConfig;
pub use grpc::GrpcSource;
pub use server::OtlpSource;
pub use stats::OtlpStats;
pub use value::Limits;
