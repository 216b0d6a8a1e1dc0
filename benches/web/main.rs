//! `jumpseat web` as people use it: history out of the archives of a fleet (`history`), and clients that poll (`live`). Either word alone runs
//! that half.

#[path = "../common/mod.rs"]
mod common;
mod history;
mod live;
mod server;

fn main() {
    let wanted = |half: &str, other: &str| {
        let has = |word: &str| std::env::args().any(|argument| argument == word);
        has(half) || !has(other)
    };
    if wanted("history", "live") {
        history::run();
    }
    if wanted("live", "history") {
        live::run();
    }
}
