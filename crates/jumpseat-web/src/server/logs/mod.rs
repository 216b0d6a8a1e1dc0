//! logs

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use http::StatusCode;

use super::answer::json;
use super::web::Shared;

pub(super) fn routes() -> Router<Shared> {
    Router::new().route("/records/hosts", get(hosts))
}

/// How it is with the hosts whose records are followed.
async fn hosts(State(web): State<Shared>) -> Response {
    #[derive(serde::Serialize)]
    struct Hosts {
        hosts: Vec<super::records::follow::HostState>,
    }
    json(StatusCode::OK, &Hosts { hosts: web.records.hosts() })
}
