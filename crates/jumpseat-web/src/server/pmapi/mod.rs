//! PMWEBAPI (`/pmapi/*`) and expositions of metrics (`/metrics`); `docs/pcp/webapi.md` 1 to 8.
//!
//! ```text
//! path, parameters --target, call--> Call --contexts--> WebContext, one at a time --Pool--> command --> answer
//!                                                                                 --poll, if it is a fetch of what is known--> answer
//! ```
//!
//! * [`forms`]: what all answers have in common with pmproxy's: methods, headers for other origins.
//! * [`target`]: what a path asks for. [`call`]: a request as commands take it, and how they answer or refuse.
//! * [`contexts`]: contexts of clients, by number, until they expire. [`session`]: what is in one. [`connections`]: those to a host, which they share; [`back_off`]: hosts that failed; [`texts`]: help.
//! * [`poll`]: fetches of what a context knows.
//! * Commands: [`describe`] (context, children), [`metric`], [`indom`], [`fetch`], [`profile`], [`derive`], [`store`]; [`scrape`]: `/metrics`.
//! * What they share: [`labels`] (and identifiers), [`leaves`] (metrics by names), [`choice`] (instances by name, pattern, number), [`values`], [`events`],
//!   [`moment`] (times of archives).
//!
//! **Invariant:** a context is used by one request at a time; whatever may keep its thread waiting is done on threads of the pool, and
//! who waits for the context waits in a task.

mod back_off;
mod call;
mod choice;
mod connections;
mod contexts;
mod derive;
mod describe;
mod events;
mod fetch;
pub(super) mod forms;
#[doc(hidden)]
pub(super) mod fuzzing;
mod indom;
mod labels;
mod leaves;
mod metric;
mod moment;
mod poll;
mod profile;
mod readiness;
mod scrape;
mod session;
mod store;
mod target;
mod texts;
mod values;

use std::net::SocketAddr;

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, State};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use http::{Method, Request, StatusCode};

use super::answer::Refusal;
use super::query::Query;
use super::web::Shared;
use call::Call;
pub(super) use contexts::Contexts;
use poll::Polled;
use target::{Command, Target};

/// Most bytes of a body: names of metrics, definitions of derived ones.
const MAX_BODY: usize = 1 << 20;

pub(super) fn routes() -> Router<Shared> {
    Router::new()
        .route("/metrics", any(serve))
        .route("/pmapi", any(serve))
        .route("/pmapi/", any(serve))
        .route("/pmapi/{*command}", any(serve))
}

/// Any request of these paths. Methods have been looked at by [`forms::forms`].
async fn serve(State(web): State<Shared>, request: Request<Body>) -> Response {
    match answer(&web, request).await {
        Ok(response) => response,
        Err(refusal) => refusal.into_response(),
    }
}

async fn answer(web: &Shared, request: Request<Body>) -> Result<Response, Refusal> {
    let (parts, body) = request.into_parts();
    let target = Target::parse(parts.uri.path()).ok_or_else(|| Refusal::bad("no handler for URL"))?;
    if target.command == Command::Store && parts.method != Method::POST {
        store::expect_no_foreign_page(&parts.uri, &parts.headers)?;
    }
    let client = parts.extensions.get::<ConnectInfo<SocketAddr>>().map(|peer| peer.0.ip());
    let credentials = call::credentials(web, &parts.headers)?;
    let text = parts.uri.query().unwrap_or_default();
    let query = Query::parse(text).map_err(|bad| Refusal::bad(bad.to_string()))?;
    let body = match parts.method {
        Method::POST => Some(call::body(body, MAX_BODY).await?),
        _ => None,
    };
    let is_text = matches!(target.command, Command::Derive | Command::Store);
    // Names that are too long for a URL.
    let query = match &body {
        Some(body) if text.is_empty() && !is_text => {
            Query::parse(body).map_err(|bad| Refusal::bad(bad.to_string()))?
        }
        _ => query,
    };
    let call = Call::new(target, query, body, &parts.headers, client, credentials)?;
    call.check()?;
    let lease = match call.number {
        Some(number) => web.contexts.find(number).map_err(|refusal| call.placed(refusal))?,
        None => web.contexts.make(web, &call).await?,
    };
    let number = lease.number();
    let may_store = web.args.allow_store;
    let held = lease.take().await?;
    let done = match poll::poll(held, call, number, &web.pool).await {
        Polled::Answer(answer) => answer,
        Polled::Not(held, call) => {
            held.run(&web.pool, move |session| call.run(session, number, may_store)).await?
        }
    };
    match done {
        Ok(output) => Ok(output.into_response()),
        Err(refusal) => Err(refusal),
    }
}

/// Status 503.
fn busy(message: impl Into<String>) -> Refusal {
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, message)
}
