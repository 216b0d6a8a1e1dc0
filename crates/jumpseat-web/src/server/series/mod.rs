//! `/series/*`: what is in archives, as pmseries asks for it; spec `webapi.md` 9 to 13.

use std::io;
use std::sync::Arc;

use axum::Router;

use super::library::Library;
use super::web::Shared;
use crate::WebArgs;

/// What is known of the series in archives.
#[derive(Debug)]
pub(super) struct Series;

impl Series {
    pub(super) fn open(_args: &WebArgs, _library: Arc<Library>) -> io::Result<Series> {
        Ok(Series)
    }
}

pub(super) fn routes() -> Router<Shared> {
    Router::new()
}
