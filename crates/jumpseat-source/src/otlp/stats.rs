//! What the OTLP source counts about its connections.

use std::sync::atomic::AtomicU64;

/// Counters of all listeners together. Read without locks.
#[derive(Debug, Default)]
pub struct OtlpStats {
    /// Connections open now.
    pub connections: AtomicU64,
    /// Connections turned away so far: too many, or no descriptors left.
    pub turned_away: AtomicU64,
    /// Connections closed so far because others waited for a place.
    pub made_room: AtomicU64,
    /// Requests so far.
    pub requests: AtomicU64,
    /// Requests refused so far, in whole.
    pub refused: AtomicU64,
    /// Connections refused so far because both sides did not agree on TLS: it was none, or the certificate none that counts.
    pub handshakes_failed: AtomicU64,
    /// Requests refused so far because they came with no token that counts.
    pub unauthenticated: AtomicU64,
    /// Requests refused so far because those before them with the same token were as many, or as large, as it allows.
    pub over_limit: AtomicU64,
    /// Data points of metrics so far, those refused included.
    pub data_points: AtomicU64,
    /// Of these, the ones refused so far.
    pub points_refused: AtomicU64,
    /// Requests that clients were told to send again later, so far.
    pub busy: AtomicU64,
    /// Connections dropped so far because the client was too slow.
    pub slow: AtomicU64,
    /// Bytes received so far, as they came.
    pub bytes: AtomicU64,
    /// Memory of requests that are not complete, in bytes.
    pub memory: AtomicU64,
}
