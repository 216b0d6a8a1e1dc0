//! The files of the page, as they are in the repository, in the program.
//!
//! Nothing else runs in the page: its policy allows files of this server only, no inline scripts, no frames around it.

use std::sync::LazyLock;

use axum::Router;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};

use crate::server::web::Shared;

/// A file: its path below the root, its type and its bytes.
struct File {
    path: &'static str,
    kind: &'static str,
    bytes: &'static [u8],
}

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const JS: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";
const TEXT: &str = "text/plain; charset=utf-8";

macro_rules! file {
    ($kind:expr, $path:literal) => {
        file!($kind, $path, concat!("/", $path))
    };
    ($kind:expr, $path:literal, $at:expr) => {
        File {
            path: $at,
            kind: $kind,
            bytes: include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/page/", $path)),
        }
    };
}

static FILES: &[File] = &[
    file!(HTML, "index.html", "/"),
    file!(CSS, "style.css"),
    file!(SVG, "icon.svg"),
    file!(JS, "app.js"),
    file!(JS, "lib/api.js"),
    file!(JS, "lib/chart.js"),
    file!(JS, "lib/complete.js"),
    file!(JS, "lib/density.js"),
    file!(JS, "lib/dom.js"),
    file!(JS, "lib/filter.js"),
    file!(JS, "lib/follow.js"),
    file!(JS, "lib/format.js"),
    file!(JS, "lib/frames.js"),
    file!(JS, "lib/layers.js"),
    file!(JS, "lib/list.js"),
    file!(JS, "lib/names.js"),
    file!(JS, "lib/route.js"),
    file!(JS, "lib/series.js"),
    file!(JS, "lib/timebar.js"),
    file!(JS, "views/charts.js"),
    file!(JS, "views/events.js"),
    file!(JS, "views/flame.js"),
    file!(JS, "views/overview.js"),
    file!(JS, "views/spans.js"),
    file!(JS, "views/traces.js"),
    file!(JS, "vendor/uPlot.esm.js"),
    file!(CSS, "vendor/uPlot.min.css"),
    file!(TEXT, "vendor/LICENSE"),
];

const POLICY: &str =
    "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; object-src 'none'";

/// What tells one state of the files from another.
static TAG: LazyLock<HeaderValue> = LazyLock::new(|| {
    use std::hash::{DefaultHasher, Hash as _, Hasher as _};
    let mut hash = DefaultHasher::new();
    FILES.iter().for_each(|file| file.bytes.hash(&mut hash));
    HeaderValue::from_str(&format!("W/\"{:016x}\"", hash.finish()))
        .unwrap_or(HeaderValue::from_static("W/\"0\""))
});

pub(super) fn routes() -> Router<Shared> {
    FILES.iter().fold(Router::new(), |router, file| {
        router.route(file.path, get(move |headers: HeaderMap| async move { answer(file, &headers) }))
    })
}

fn answer(file: &'static File, asked: &HeaderMap) -> Response {
    let fixed: [(HeaderName, &str); 6] = [
        (header::CONTENT_TYPE, file.kind),
        (header::CACHE_CONTROL, "no-cache"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ];
    let is_known = asked.get(header::IF_NONE_MATCH).is_some_and(|known| known == *TAG);
    let status = if is_known { StatusCode::NOT_MODIFIED } else { StatusCode::OK };
    let mut response = (status, if is_known { &[][..] } else { file.bytes }).into_response();
    for (name, value) in fixed {
        if let Ok(value) = HeaderValue::from_str(value) {
            response.headers_mut().insert(name, value);
        }
    }
    response.headers_mut().insert(header::ETAG, TAG.clone());
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_files_of_the_page_are_in_the_program() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/page");
        let mut left = vec![std::path::PathBuf::from(root)];
        let mut found = Vec::new();
        while let Some(directory) = left.pop() {
            for entry in std::fs::read_dir(directory).expect("a directory") {
                let path = entry.expect("an entry").path();
                match path.is_dir() {
                    true if path.ends_with("page/test") => {}
                    true => left.push(path),
                    false => found.push(path.strip_prefix(root).expect("below").display().to_string()),
                }
            }
        }
        // What checks the types is not for browsers.
        found.retain(|path| !path.ends_with(".d.ts") && path != "tsconfig.json" && path != "package.json");
        found.sort();
        let mut served: Vec<&str> =
            FILES.iter().map(|file| if file.path == "/" { "index.html" } else { &file.path[1..] }).collect();
        served.sort_unstable();
        assert_eq!(served, found);
    }
}
