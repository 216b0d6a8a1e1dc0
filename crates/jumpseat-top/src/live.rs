//! The program on a terminal: draws, waits, and does what there is to do, until somebody ends it.

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use jumpseat_tools::later;
use nix::errno::Errno;
use nix::poll::PollFlags;
use nix::sys::signal::Signal;
use nix::unistd::read;

use super::act::{Done, act};
use super::app::App;
use super::keys::{Decoder, Key};
use super::screen::{Hit, Theme};
use super::terminal::{self, Screen, Signals};
use super::{Seat, side, turn, wait};

/// How long an escape character waits for what may follow it.
const ESCAPE: Duration = Duration::from_millis(40);

/// What ends the program.
enum End {
    /// The user, or the terminal is gone.
    Quit,
    /// A signal that ends programs.
    Signal(Signal),
}

/// The program, and all that it waits for.
struct Live {
    seats: Vec<Place>,
    /// The place that the keys go to.
    focus: usize,
    signals: Signals,
    screen: Screen,
    theme: Theme,
    decoder: Decoder,
    /// When an escape character that nothing followed is the escape key.
    escape: Option<Instant>,
}

/// A host, and its part of the screen.
struct Place {
    seat: Seat,
    /// When the next sample is due.
    next: Instant,
    /// Where a click selects what.
    hits: Vec<Hit>,
}

/// Runs on the terminal. If a signal ended it, the process ends of it here.
pub(crate) fn run(seats: Vec<Seat>, theme: Theme) -> io::Result<()> {
    // Before there is a screen to restore: a signal in between ends the program as it always did.
    let signals = Signals::take()?;
    let screen = Screen::enter()?;
    let now = Instant::now();
    let mut live = Live {
        seats: seats.into_iter().map(|seat| Place { seat, next: now, hits: Vec::new() }).collect(),
        focus: 0,
        signals,
        screen,
        theme,
        decoder: Decoder::default(),
        escape: None,
    };
    let ended = live.until_the_end();
    // Gives the terminal back, before anything is said or the process ends.
    drop(live);
    match ended? {
        End::Quit => Ok(()),
        End::Signal(signal) => terminal::die_of(signal),
    }
}

impl Live {
    fn until_the_end(&mut self) -> io::Result<End> {
        loop {
            let now = Instant::now();
            for Place { seat: Seat { monitor, app }, next, .. } in &mut self.seats {
                if now >= *next {
                    turn::play(monitor, app);
                    // Samples that are late are left out, not made up for.
                    *next = later(*next, app.status.pace()).max(now);
                }
                turn::step(monitor, app);
                app.status.link = monitor.link();
            }
            self.draw(now)?;

            let [input, signals] = self.wait();
            if let Some(end) = self.read(input)? {
                return Ok(end);
            }
            if let Some(end) = self.take_keys()? {
                return Ok(end);
            }
            if !signals.is_empty()
                && let Some(end) = self.take_signals()?
            {
                return Ok(end);
            }
        }
    }

    fn draw(&mut self, now: Instant) -> io::Result<()> {
        let apps: Vec<&App> = self.seats.iter().map(|place| &place.seat.app).collect();
        let (theme, mut hits) = (self.theme, Vec::new());
        self.screen.terminal.draw(|frame| hits = side::draw(frame.buffer_mut(), &apps, theme, now))?;
        for (place, hits) in self.seats.iter_mut().zip(hits) {
            place.hits = hits;
        }
        Ok(())
    }

    /// Waits for keys, signals, the collectors, or the time for something. What is ready of the first two.
    fn wait(&self) -> [PollFlags; 2] {
        let input = self.screen.input();
        let mut fds = vec![(input.as_fd(), PollFlags::POLLIN), (self.signals.as_fd(), PollFlags::POLLIN)];
        let monitors = || self.seats.iter().map(|place| &place.seat.monitor);
        fds.extend(monitors().filter_map(|monitor| monitor.waiting()).map(wait::of_client));
        let due = self.seats.iter().map(|place| place.next);
        let deadline =
            due.chain(monitors().filter_map(|monitor| monitor.deadline())).chain(self.escape).min();
        match wait::until(&fds, deadline)[..] {
            [input, signals, ..] => [input, signals],
            _ => [PollFlags::empty(); 2],
        }
    }

    /// Reads what was typed.
    fn read(&mut self, ready: PollFlags) -> io::Result<Option<End>> {
        if !ready.contains(PollFlags::POLLIN) {
            // Only now: what was typed before a terminal went is still there.
            let gone = ready.intersects(PollFlags::POLLHUP | PollFlags::POLLERR);
            return Ok(gone.then_some(End::Quit));
        }
        let mut bytes = [0; 1024];
        match read(self.screen.input(), &mut bytes) {
            // The terminal is gone.
            Ok(0) | Err(Errno::EIO) => return Ok(Some(End::Quit)),
            Ok(count) => self.decoder.feed(bytes.get(..count).unwrap_or_default()),
            Err(Errno::EINTR | Errno::EAGAIN) => {}
            Err(errno) => return Err(errno.into()),
        }
        self.escape = Some(Instant::now() + ESCAPE);
        Ok(None)
    }

    /// Does what the keys ask for that are complete.
    fn take_keys(&mut self) -> io::Result<Option<End>> {
        let late = self.escape.is_some_and(|escape| Instant::now() >= escape);
        while let Some(key) = self.decoder.next(late) {
            if let Some(end) = self.take_key(key)? {
                return Ok(Some(end));
            }
        }
        if !self.decoder.is_pending() {
            self.escape = None;
        }
        Ok(None)
    }

    fn take_key(&mut self, key: Key) -> io::Result<Option<End>> {
        match key {
            Key::Ctrl('o') => {
                self.focus = (self.focus + 1) % self.seats.len().max(1);
                let others = self.seats.len() > 1;
                if let Some(Place { seat, .. }) = self.seats.get_mut(self.focus).filter(|_| others) {
                    seat.app.message = Some(format!("the keys go to {} now", seat.app.status.host));
                }
                return Ok(None);
            }
            Key::Click(x, y) => {
                self.click(x, y);
                return Ok(None);
            }
            _ => {}
        }
        let Some(Place { seat: Seat { monitor, app }, next, .. }) = self.seats.get_mut(self.focus) else {
            return Ok(None);
        };
        let (interval, pace) = (app.status.interval, app.status.pace());
        if let Some(command) = app.key(key) {
            let buffer = self.screen.terminal.current_buffer_mut();
            match act(command, monitor, app, self.theme, buffer) {
                Done::Quit => return Ok(Some(End::Quit)),
                Done::Suspend => self.screen.suspend()?,
                Done::Redraw => self.screen.redraw()?,
                Done::Moved => *next = later(Instant::now(), app.status.pace()),
                Done::Nothing => {}
            }
        }
        if interval != app.status.interval {
            app.status.trouble = monitor.set_interval(app.status.interval, &mut app.model).err();
        }
        if pace != app.status.pace() {
            // Of the new length from now on: a long interval that was begun is not waited for.
            *next = later(Instant::now(), app.status.pace());
        }
        Ok(None)
    }

    /// Selects what is there, and has the keys go to that host.
    fn click(&mut self, x: u16, y: u16) {
        for (at, place) in self.seats.iter_mut().enumerate() {
            // What was drawn last is on top.
            let hit =
                place.hits.iter().rev().find(|(area, _)| area.contains(ratatui::layout::Position { x, y }));
            if let Some(&(_, line)) = hit {
                self.focus = at;
                place.seat.app.click(line);
                return;
            }
        }
    }

    fn take_signals(&mut self) -> io::Result<Option<End>> {
        while let Some(signal) = self.signals.next() {
            match signal {
                Signal::SIGTSTP => self.screen.suspend()?,
                Signal::SIGCONT => self.screen.resume()?,
                // The next drawing finds the new size.
                Signal::SIGWINCH => {}
                other => return Ok(Some(End::Signal(other))),
            }
        }
        Ok(None)
    }
}
