//! What all requests share.

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use tower_http::compression::CompressionLayer;

use super::library::Library;
use super::pmapi::Contexts;
use super::pool::Pool;
use super::records::Records;
use super::series::Series;
use super::sources::Sources;
use super::{logs, page, pmapi, series, traces};
use crate::WebArgs;

/// The state of the server.
pub(super) struct Web {
    /// What was asked for on the command line.
    pub args: WebArgs,
    /// Hosts that may be looked at.
    pub sources: Arc<Sources>,
    /// Archives that may be looked at.
    pub library: Arc<Library>,
    /// Where work is done that may wait.
    pub pool: Pool,
    /// Contexts of PMWEBAPI's clients.
    pub contexts: Contexts,
    /// What is known of the series in archives.
    pub series: Series,
    /// Event records.
    pub records: Arc<Records>,
}

/// As handlers take it.
pub(super) type Shared = Arc<Web>;

/// All routes.
pub(super) fn router(web: Shared) -> Router {
    // Those that answer as pmproxy does.
    let pcp = Router::new().merge(pmapi::routes()).merge(series::routes());
    let pcp =
        pcp.layer(from_fn_with_state(Arc::clone(&web), pmapi::forms::forms)).layer(CompressionLayer::new());
    Router::new()
        .merge(pcp)
        .merge(traces::routes())
        .merge(logs::routes())
        .merge(page::routes())
        .with_state(web)
}
