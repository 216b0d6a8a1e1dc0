//! traces

use axum::Router;

use super::web::Shared;

pub(super) fn routes() -> Router<Shared> {
    Router::new()
}
