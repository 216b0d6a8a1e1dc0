//! What all requests share.

use std::sync::Arc;

use axum::Router;

use super::library::Library;
use super::page::Page;
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
    /// What the page's requests share.
    pub page: Page,
    /// Event records.
    pub records: Arc<Records>,
}

/// As handlers take it.
pub(super) type Shared = Arc<Web>;

/// All routes.
pub(super) fn router(web: Shared) -> Router {
    Router::new()
        .merge(pmapi::routes())
        .merge(series::routes())
        .merge(traces::routes())
        .merge(logs::routes())
        .merge(page::routes())
        .with_state(web)
}
