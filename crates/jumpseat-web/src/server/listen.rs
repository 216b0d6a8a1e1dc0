//! Connections: they are accepted, spoken to by hyper, and closed when they are idle, slow or too many.
//!
//! **Cost:** a task a connection, a few kilobytes while it is idle.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use pcp_net::{Kept, listen_tcp};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_io_timeout::TimeoutStream;
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt as _;

use super::gate::{Gate, Turns};

/// Most connections at a time, and most of an address; those beyond are closed at once.
const MAX_CONNECTIONS: usize = 4096;
const MAX_CONNECTIONS_OF_ONE: usize = 256;
/// How long a client may take for the head of a request, and be idle between two.
const HEAD: Duration = Duration::from_secs(30);
/// How long a client may read nothing of what is written to it.
const WRITE: Duration = Duration::from_secs(10);
/// How long a client may take to agree on encryption.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Most bytes of a head, URL included.
const MAX_HEAD: usize = 64 * 1024;
/// Most headers of a request.
const MAX_HEADERS: usize = 128;
/// How soon to try again to accept when there were no descriptors left.
const RETRY: Duration = Duration::from_millis(200);

/// The sockets, at all addresses of a name.
///
/// # Errors
/// The system's.
pub(super) fn bind(address: &str) -> io::Result<Vec<std::net::TcpListener>> {
    let listening = listen_tcp(address, &Kept::default())?;
    listening
        .into_iter()
        .map(|listening| {
            let listener = listening.listener.try_clone()?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        })
        .collect()
}

/// Accepts and serves until `stop` says so. For a runtime.
pub(super) async fn serve(
    listener: TcpListener,
    router: Router,
    gate: Arc<Gate>,
    mut stop: watch::Receiver<bool>,
) {
    let places = Turns::new(MAX_CONNECTIONS, MAX_CONNECTIONS_OF_ONE);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.changed() => return,
        };
        let Ok((stream, peer)) = accepted else {
            sleep(RETRY).await;
            continue;
        };
        let Some(place) = places.take(Some(peer.ip())) else { continue };
        // Answers are written as a whole: there is nothing to wait for.
        let _ = stream.set_nodelay(true);
        let (router, stop) = (router.clone(), stop.clone());
        let acceptor =
            gate.certificate().map(|certificate| TlsAcceptor::from(certificate.server_config(&["http/1.1"])));
        tokio::spawn(async move {
            let _place = place;
            match acceptor {
                None => connection(stream, peer, router, stop).await,
                Some(acceptor) => {
                    if let Ok(Ok(stream)) = timeout(HANDSHAKE, acceptor.accept(stream)).await {
                        connection(stream, peer, router, stop).await;
                    }
                }
            }
        });
    }
}

/// Requests of one connection, one after the other.
async fn connection(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: SocketAddr,
    router: Router,
    mut stop: watch::Receiver<bool>,
) {
    let service = hyper::service::service_fn(move |mut request: http::Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(peer));
        router.clone().oneshot(request)
    });
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(MAX_HEAD)
        .max_headers(MAX_HEADERS)
        .half_close(false);
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(WRITE));
    let connection = http.serve_connection(TokioIo::new(Box::pin(stream)), service).with_upgrades();
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        // What ends a connection is the client's affair.
        _ = connection.as_mut() => {}
        _ = stop.changed() => {
            connection.as_mut().graceful_shutdown();
            let _ = timeout(HANDSHAKE, connection).await;
        }
    }
}
