//! Polls: a fetch of metrics that a context knows is done by the task of its request itself, which waits for the collector as it waits
//! for its client. All else is done by threads of the pool ([`Held::run`]).
//!
//! **Invariant:** a fetch that was sent is ended by somebody; if the client goes away before the answer is there, by a task of its own.
//!
//! **Bounds:** a task writes [`MAX_VALUES`] and [`MAX_BYTES`]; more is written by a thread.
//!
//! **Cost:** no other thread is woken: a fetch of ten metrics takes 40 us of processor time, and took 65 with one.

use std::io;
use std::time::{Duration, Instant};

use pcp_client::{ClientError, Fetched, Interest, StateChange, ValueRef};
use tokio::runtime::Handle;

use super::busy;
use super::call::{Call, Output, refused};
use super::contexts::Held;
use super::fetch::Known;
use super::readiness::Readiness;
use super::target::Command;
use crate::server::answer::Refusal;
use crate::server::pool::Pool;

/// Most values that a task writes: others have to wait for it.
const MAX_VALUES: usize = 4096;
/// Most bytes of values that are no numbers of 32 bits.
const MAX_BYTES: usize = 256 << 10;
/// When it is tried again to wait for something, if that was not possible.
const AGAIN: Duration = Duration::from_millis(100);

/// What has come of a request.
pub(super) enum Polled {
    /// The answer.
    Answer(Result<Output, Refusal>),
    /// It is none of these, or its connection is lost: it has to be done by a thread.
    Not(Held, Call),
}

/// Does a request, if it is a fetch of what its context knows.
pub(super) async fn poll(held: Held, call: Call, number: u32, pool: &Pool) -> Polled {
    let Some(known) = started(&held, &call) else { return Polled::Not(held, call) };
    let mut under_way = UnderWay { held: Some(held) };
    // Without a descriptor there is nothing to wait with.
    let waited = under_way.done().await.map_err(|error| busy(format!("cannot wait: {error}")));
    let (done, held) = match waited.map(|done| (done, under_way.held.take())) {
        Ok((done, Some(held))) => (done, held),
        // Nothing else takes it.
        Ok((_, None)) => return Polled::Answer(Err(busy("the context is gone"))),
        Err(refusal) => return Polled::Answer(Err(refusal)),
    };
    match done {
        // What the metrics are may be something else since.
        Ok(()) if has_changes(&held) => Polled::Not(held, call),
        Ok(()) if is_long(&held) => {
            let answered = held.run(pool, move |session| known.answer(&call, session, number)).await;
            Polled::Answer(answered.and_then(|answer| answer))
        }
        Ok(()) => {
            let answer = known.answer(&call, &held.session(), number);
            held.touch();
            Polled::Answer(answer)
        }
        Err(_) if is_lost(&held) => Polled::Not(held, call),
        Err(error) => Polled::Answer(Err(Refusal { context: Some(number), ..refused(&error) })),
    }
}

/// Whether the collector has told of a change with the values.
fn has_changes(held: &Held) -> bool {
    held.session().fetched.changes != StateChange::default()
}

/// Whether the answer is longer than what a task may write.
fn is_long(held: &Held) -> bool {
    is_longer(&held.session().fetched, MAX_VALUES, MAX_BYTES)
}

fn is_longer(fetched: &Fetched, most_values: usize, most_bytes: usize) -> bool {
    let (mut values, mut bytes) = (0, 0);
    fetched.sets().filter_map(|set| set.values.ok()).any(|of_one| {
        values += of_one.len();
        values > most_values
            || of_one.iter().any(|(_, value)| {
                bytes += match value {
                    ValueRef::InSitu(_) => 0,
                    ValueRef::Block(block) => block.len(),
                };
                bytes > most_bytes
            })
    })
}

/// Whether the connection is lost of a fetch that failed.
fn is_lost(held: &Held) -> bool {
    let mut session = held.session();
    let is_lost = !session.context.is_connected();
    if is_lost {
        session.lose();
    }
    is_lost
}

/// Sends the fetch.
fn started(held: &Held, call: &Call) -> Option<Known> {
    if call.command != Command::Fetch {
        return None;
    }
    let mut session = held.session();
    session.begin();
    let known = Known::of(call, &session);
    known.filter(|known| session.start_fetch(&known.pmids()))
}

/// A fetch whose answer is not there yet.
struct UnderWay {
    /// Until it is done.
    held: Option<Held>,
}

/// How far a fetch is.
enum Step {
    Wait(tokio::io::Interest, Option<Instant>),
    Done(Result<(), ClientError>),
}

impl UnderWay {
    /// Waits for the answer, or why there is none.
    ///
    /// # Errors
    /// It cannot be waited for.
    async fn done(&self) -> io::Result<Result<(), ClientError>> {
        match &self.held {
            Some(held) => done(held).await,
            None => Ok(Ok(())),
        }
    }
}

async fn done(held: &Held) -> io::Result<Result<(), ClientError>> {
    let mut step = advance(held)?;
    let mut kept = held.session().take_readiness();
    loop {
        let (interest, deadline) = match step {
            Step::Wait(interest, deadline) => (interest, deadline),
            Step::Done(done) => {
                if let Some(readiness) = kept {
                    held.session().keep_readiness(readiness);
                }
                return Ok(done);
            }
        };
        if interest != tokio::io::Interest::READABLE {
            // Seldom: a request is short. What is kept tells nothing of room to write that was told of before.
            watched(held)?.wait(interest, deadline).await?;
            step = advance(held)?;
            continue;
        }
        let readiness = match &mut kept {
            Some(readiness) => readiness,
            empty => empty.insert(watched(held)?),
        };
        readiness.wait(interest, deadline).await?;
        // All is read that is there, be it what was waited for or not yet.
        step = readiness.drained(|| advance(held))?;
    }
}

/// Goes on as far as that is possible without waiting.
fn advance(held: &Held) -> io::Result<Step> {
    let mut session = held.session();
    loop {
        match session.advance() {
            Ok(false) => {}
            Ok(true) => return Ok(Step::Done(Ok(()))),
            Err(error) => return Ok(Step::Done(Err(error))),
        }
        if let Some(waiting) = session.context.waiting() {
            let interest = match waiting.interest {
                Interest::Read => tokio::io::Interest::READABLE,
                Interest::Write => tokio::io::Interest::WRITABLE,
                Interest::ReadOrWrite => tokio::io::Interest::READABLE | tokio::io::Interest::WRITABLE,
            };
            return Ok(Step::Wait(interest, waiting.deadline));
        }
    }
}

/// Of the socket that is waited for.
fn watched(held: &Held) -> io::Result<Readiness> {
    let session = held.session();
    Readiness::of(session.context.waiting().ok_or(io::ErrorKind::NotConnected)?.fd)
}

/// Ends a fetch that nobody waits for any more. It has a deadline, and a task costs nobody a thread, however many clients go away.
async fn give_up(held: Held) {
    loop {
        match done(&held).await {
            // What it tells of changes was heeded: that is told once.
            Ok(Ok(())) => break,
            Ok(Err(_)) => {
                is_lost(&held);
                break;
            }
            Err(_) => tokio::time::sleep(AGAIN).await,
        }
    }
    held.touch();
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let Some(held) = self.held.take() else { return };
        // Where there is no runtime any more, all connections are closed.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(give_up(held));
        }
    }
}

#[cfg(test)]
mod tests {
    use pcp_model::{Pmid, Value};

    use super::*;

    #[test]
    fn an_answer_is_long_by_its_values_and_by_their_bytes() {
        let mut fetched = Fetched::new();
        for (pmid, value) in [(1, Value::I32(7)), (2, Value::from("x".repeat(100)))] {
            fetched.begin_set(Pmid(pmid));
            for inst in 0..10 {
                fetched.push_value(inst, &value).expect("all of one type");
            }
            fetched.end_set();
        }
        assert!(!is_longer(&fetched, 20, 2000));
        assert!(is_longer(&fetched, 19, 2000));
        assert!(is_longer(&fetched, 20, 999), "numbers of 32 bits are counted, no more");
    }
}
