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
//!   `span` and `log`: their records.
//! * `grpc`: the same over gRPC, in a thread of its own.
//!
//! A span becomes a START and an END record, each of its events a POINT, all with the span's id as ID; a log
//! record becomes a POINT. The resource decides the source (`docs/sources/otlp.md`).
//!
//! **Bad input:** what cannot be read within a span or a log record refuses that one, and the answer tells how many
//! were refused and why the first of them was. What cannot be read around them refuses the rest of the request.
//! All of it is counted by [`super::Reason`].

#[cfg(feature = "otlp")]
pub mod answer;
#[cfg(feature = "otlp")]
pub mod config;
#[cfg(feature = "otlp")]
pub mod decode;
#[cfg(feature = "otlp-grpc")]
pub mod grpc;
#[cfg(feature = "otlp")]
pub mod http;
#[cfg(feature = "otlp")]
pub mod inflate;
#[cfg(feature = "otlp")]
mod intake;
#[cfg(feature = "otlp")]
pub mod json;
#[cfg(feature = "otlp")]
mod log;
#[cfg(feature = "otlp")]
mod resource;
#[cfg(feature = "otlp")]
pub mod server;
#[cfg(feature = "otlp")]
mod span;
pub mod stats;
#[cfg(feature = "otlp")]
mod value;
#[cfg(feature = "otlp")]
mod wire;

#[cfg(feature = "otlp")]
pub use config::OtlpConfig;
#[cfg(feature = "otlp-grpc")]
pub use grpc::GrpcSource;
#[cfg(feature = "otlp")]
pub use server::OtlpSource;
pub use stats::OtlpStats;
#[cfg(feature = "otlp")]
pub use value::Limits;
