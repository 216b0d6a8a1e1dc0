//! What all requests share.

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::Response;
use http::{StatusCode, Uri};
use tower_http::compression::CompressionLayer;

use super::gate::{self, Gate, Unsent};
use super::library::Library;
use super::page::Page;
use super::pmapi::Contexts;
use super::pool::Pool;
use super::records::Records;
use super::series::Series;
use super::sources::Sources;
use super::{logs, page, pmapi, series, traces};
use crate::WebArgs;

/// Most bytes of a request's body: a query that does not fit a URL.
const MAX_BODY: usize = 1 << 20;

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
    /// What the page's requests share.
    pub page: Page,
    /// Event records.
    pub records: Arc<Records>,
}

/// As handlers take it.
pub(super) type Shared = Arc<Web>;

/// All routes, and what is around them: who may look, then how much a request may have, then compression.
pub(super) fn router(web: &Shared, gate: &Arc<Gate>) -> Router {
    let unsent = Arc::new(Unsent::default());
    // Those that answer as pmproxy does.
    let pcp = Router::new().merge(pmapi::routes()).merge(series::routes());
    let pcp = pcp.layer(from_fn_with_state(Arc::clone(web), pmapi::forms::forms));
    Router::new()
        .merge(pcp)
        .merge(traces::routes())
        .merge(logs::routes())
        .merge(page::routes())
        .fallback(nothing)
        .with_state(Arc::clone(web))
        .layer(from_fn(move |request, next| gate::charge(Arc::clone(&unsent), request, next)))
        .layer(CompressionLayer::new())
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(from_fn_with_state(Arc::clone(gate), gate::check))
}

async fn nothing(uri: Uri) -> Response {
    gate::refusal(uri.path(), StatusCode::NOT_FOUND, "there is nothing at this path")
}
