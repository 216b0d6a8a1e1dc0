//! Polls: a fetch of metrics that a context knows is done by the task of its request itself, which waits for the collector as it waits
//! for its client. All else is done by threads of the pool ([`Held::run`]).
//!
//! **Invariant:** a fetch that was sent is ended by somebody; if the client goes away before the answer is there, by a thread that
//! waits for it.
//!
//! **Cost:** no other thread is woken: a fetch of ten metrics takes 40 us of processor time, and took 65 with one.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Instant;

use pcp_client::{ClientError, Interest};
use tokio::net::UnixStream;
use tokio::runtime::Handle;
use tokio::time::timeout_at;

use super::busy;
use super::call::{Call, Output, refused};
use super::contexts::Held;
use super::fetch::Known;
use super::session::Session;
use super::target::Command;
use crate::server::answer::Refusal;
use crate::server::pool::Pool;

/// Most values that a task writes: others have to wait for it.
const MAX_VALUES: usize = 4096;

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
    // Without a descriptor there is nothing to wait with: a thread ends the fetch.
    let waited = under_way.done().await.map_err(|error| busy(format!("cannot wait: {error}")));
    let (done, held) = match waited.map(|done| (done, under_way.held.take())) {
        Ok((done, Some(held))) => (done, held),
        // Nothing else takes it.
        Ok((_, None)) => return Polled::Answer(Err(busy("the context is gone"))),
        Err(refusal) => return Polled::Answer(Err(refusal)),
    };
    match done {
        Ok(()) if is_long(&held) => {
            let answered = held.run(pool, move |session| answer(session, &known, &call, number)).await;
            Polled::Answer(answered.and_then(|answer| answer))
        }
        Ok(()) => {
            let answer = answer(&mut held.session(), &known, &call, number);
            held.touch();
            Polled::Answer(answer)
        }
        Err(_) if is_lost(&held) => Polled::Not(held, call),
        Err(error) => Polled::Answer(Err(Refusal { context: Some(number), ..refused(&error) })),
    }
}

/// The answer, when the metrics have been fetched.
fn answer(session: &mut Session, known: &Known, call: &Call, number: u32) -> Result<Output, Refusal> {
    let answer = known.answer(call, session, number);
    session.end();
    answer
}

/// Whether the answer has more values than a task may write.
fn is_long(held: &Held) -> bool {
    let session = held.session();
    session.fetched.sets().filter_map(|set| Some(set.values.ok()?.len())).sum::<usize>() > MAX_VALUES
}

/// Whether the connection is lost of a fetch that failed.
fn is_lost(held: &Held) -> bool {
    let mut session = held.session();
    let is_lost = !session.context.is_connected();
    if is_lost {
        session.lose();
    }
    session.end();
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
    let known = known.filter(|known| session.start_fetch(&known.pmids()));
    if known.is_none() {
        session.end();
    }
    known
}

/// A fetch whose answer is not there yet.
struct UnderWay {
    /// Until it is done.
    held: Option<Held>,
}

/// What has to come.
struct Wait {
    /// Of the connection's socket.
    fd: OwnedFd,
    interest: tokio::io::Interest,
    deadline: Option<Instant>,
}

/// How far a fetch is.
enum Step {
    Wait(Wait),
    Done(Result<(), ClientError>),
}

impl UnderWay {
    /// Waits for the answer, or why there is none.
    ///
    /// # Errors
    /// It cannot be waited for.
    async fn done(&self) -> io::Result<Result<(), ClientError>> {
        loop {
            match self.advance()? {
                Step::Wait(wait) => wait.ready().await?,
                Step::Done(done) => return Ok(done),
            }
        }
    }

    /// Goes on as far as that is possible without waiting.
    fn advance(&self) -> io::Result<Step> {
        let Some(held) = &self.held else { return Ok(Step::Done(Ok(()))) };
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
                let (fd, deadline) = (waiting.fd.try_clone_to_owned()?, waiting.deadline);
                return Ok(Step::Wait(Wait { fd, interest, deadline }));
            }
        }
    }
}

impl Wait {
    async fn ready(self) -> io::Result<()> {
        // Whatever the socket is, nothing of it is used but that it gets ready.
        let socket = UnixStream::from_std(self.fd.into())?;
        let ready = socket.ready(self.interest);
        match self.deadline {
            None => ready.await.map(drop),
            // Who goes on finds out that it is late.
            Some(deadline) => {
                timeout_at(deadline.into(), ready).await.map_or(Ok(()), |ready| ready.map(drop))
            }
        }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let Some(held) = self.held.take() else { return };
        // Where there is no runtime any more, all connections are closed.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn_blocking(move || {
                held.session().give_up();
                held.touch();
            });
        }
    }
}
