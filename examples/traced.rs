//! A program that traces itself: its spans and events become records of the agent on this machine.
//!
//! Start `jumpseat serve --config ...` or the agent, then `cargo run --example traced -- SOCKET`, and
//! watch with `pmevent jumpseat.event.records` or `jumpseat events jumpseat.event.records`.

use std::time::Duration;

use tracing_subscriber::prelude::*;

fn main() {
    let mut layer = jumpseat::layer().source("traced");
    if let Some(socket) = std::env::args().nth(1) {
        layer = layer.socket(socket);
    }
    // Until the end of main, so that the last events are sent.
    let _guard = layer.guard();
    tracing_subscriber::registry().with(layer).init();

    for order in 1_u32..=10 {
        let span = tracing::info_span!("order", number = order, total = tracing::field::Empty);
        span.in_scope(|| {
            tracing::debug_span!("pay", method = "card")
                .in_scope(|| std::thread::sleep(Duration::from_millis(20)));
            if order.is_multiple_of(4) {
                tracing::warn!(target: "stock", left = 3, "running low");
            }
        });
        span.record("total", f64::from(order) * 9.75);
    }
}
