//! PMWEBAPI (`/pmapi/*`) and OpenMetrics (`/metrics`); spec `webapi.md` 3 to 8.

use axum::Router;

use super::web::Shared;

/// Contexts of clients.
#[derive(Debug, Default)]
pub(super) struct Contexts;

impl Contexts {
    pub(super) fn new() -> Contexts {
        Contexts
    }
}

pub(super) fn routes() -> Router<Shared> {
    Router::new()
}
