//! Stack traces of some languages: which lines go on with the record before them.
//!
//! What is indented always does. The rest depends on the language, and on what the record has had so far: the line with
//! a Python exception is whatever comes after the frames, and a second Java exception without a `Caused by:` begins a
//! record of its own.

use crate::follow::multiline::Stack;

/// What a record has had so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    /// No trace yet.
    #[default]
    Plain,
    /// The head of a trace: what it is about comes next.
    Head,
    /// Frames.
    Frames,
    /// A trace that is whole.
    Whole,
    /// An announcement that another trace follows.
    Chain,
}

/// What is known after a record's first line.
pub(super) fn begin(stack: Stack, line: &[u8]) -> State {
    match stack {
        Stack::Java if is_throwable(line) || line.starts_with(b"Exception in thread ") => State::Head,
        Stack::Python if line.starts_with(PYTHON_TRACE) => State::Frames,
        Stack::Go if is_goroutine(line) || line.starts_with(b"runtime stack:") => State::Frames,
        Stack::Go if is_go_panic(line) => State::Head,
        // Before Rust 1.73 the message stood on the same line.
        Stack::Rust if is_rust_panic(line) && line.ends_with(b":") => State::Head,
        _ => State::Plain,
    }
}

/// Whether a line that is not blank goes on with a record, and what is known of that then.
pub(super) fn goes_on(stack: Stack, state: State, line: &[u8]) -> Option<State> {
    if matches!(line.first(), Some(b' ' | b'\t')) {
        let is_frame = stack == Stack::Java && {
            let line = line.trim_ascii_start();
            line.starts_with(b"at ") || line.starts_with(b"... ")
        };
        return Some(if is_frame { State::Frames } else { state });
    }
    match stack {
        Stack::Java => java(state, line),
        Stack::Python => python(state, line),
        Stack::Go => go(state, line),
        Stack::Rust => rust(state, line),
    }
}

fn java(state: State, line: &[u8]) -> Option<State> {
    if starts_with_any(line, &[b"Caused by: ", b"Suppressed: ", b"Wrapped by: "]) {
        return Some(State::Frames);
    }
    if line.starts_with(b"... ") && (line.ends_with(b" more") || line.ends_with(b"omitted")) {
        return Some(State::Frames);
    }
    // The exception that a line of the logger is about; another one behind its frames has nothing to do with it.
    (state == State::Plain && is_throwable(line)).then_some(State::Head)
}

/// `com.example.Some$FineException` up to a colon or the end: a name with dots, and one of the usual endings.
fn is_throwable(line: &[u8]) -> bool {
    let end = line.iter().position(|byte| !is_java_name(*byte)).unwrap_or(line.len());
    let (name, rest) = line.split_at(end);
    let ends: [&[u8]; 5] = [b"Exception", b"Error", b"Throwable", b"Death", b"Interrupt"];
    matches!(rest, [] | [b':', ..])
        && memchr::memchr(b'.', name).is_some_and(|dot| dot > 0)
        && ends.iter().any(|end| name.ends_with(end))
}

fn is_java_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'$') || byte >= 0x80
}

const PYTHON_TRACE: &[u8] = b"Traceback (most recent call last):";

fn python(state: State, line: &[u8]) -> Option<State> {
    match state {
        // Behind the frames comes what has happened, in whatever words.
        State::Frames => Some(State::Whole),
        State::Whole
            if starts_with_any(
                line,
                &[b"During handling of the above exception", b"The above exception was the direct cause"],
            ) =>
        {
            Some(State::Chain)
        }
        State::Plain | State::Chain if line.starts_with(PYTHON_TRACE) => Some(State::Frames),
        State::Plain if line.starts_with(b"Stack (most recent call last):") => Some(State::Plain),
        _ => None,
    }
}

fn go(state: State, line: &[u8]) -> Option<State> {
    if is_goroutine(line) {
        return Some(State::Frames);
    }
    match state {
        State::Head if starts_with_any(line, &[b"[signal ", b"[recovered]"]) => Some(State::Head),
        State::Head if line.starts_with(b"runtime stack:") => Some(State::Frames),
        State::Frames if is_go_call(line) => Some(State::Frames),
        State::Frames
            if starts_with_any(line, &[b"created by ", b"...", b"exit status ", b"runtime stack:"]) =>
        {
            Some(State::Frames)
        }
        _ => None,
    }
}

/// `goroutine 7 [running]:`.
fn is_goroutine(line: &[u8]) -> bool {
    line.strip_prefix(b"goroutine ").is_some_and(|rest| {
        rest.first().is_some_and(u8::is_ascii_digit)
            && rest.ends_with(b":")
            && memchr::memchr(b'[', rest).is_some()
    })
}

fn is_go_panic(line: &[u8]) -> bool {
    starts_with_any(line, &[b"panic: ", b"fatal error: ", b"SIGQUIT: ", b"SIGSEGV: ", b"SIGABRT: "])
}

/// `main.(*T).f(0xc000, 0x1)`: a name without blanks, and arguments up to the end.
fn is_go_call(line: &[u8]) -> bool {
    let Some(open) = memchr::memchr(b'(', line) else { return false };
    let name = &line[..open];
    line.ends_with(b")")
        && (name == b"panic" || memchr::memchr(b'.', name).is_some())
        && !name.iter().any(u8::is_ascii_whitespace)
}

fn rust(state: State, line: &[u8]) -> Option<State> {
    if is_rust_panic(line) {
        return None;
    }
    let parts: &[&[u8]] = &[
        b"stack backtrace:",
        b"Stack backtrace:",
        b"note: ",
        b"Caused by:",
        b"Location:",
        b"Backtrace omitted",
        b"Run with RUST_BACKTRACE",
    ];
    match state {
        // The message stands on a line of its own.
        State::Head => Some(State::Plain),
        _ => starts_with_any(line, parts).then_some(State::Plain),
    }
}

/// `thread 'main' panicked at src/main.rs:4:5:`.
fn is_rust_panic(line: &[u8]) -> bool {
    line.starts_with(b"thread '") && memchr::memmem::find(line, b" panicked at ").is_some()
}

fn starts_with_any(line: &[u8], prefixes: &[&[u8]]) -> bool {
    prefixes.iter().any(|prefix| line.starts_with(prefix))
}
