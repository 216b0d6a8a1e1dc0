//! The program on a terminal: draws, waits, and does what there is to do, until somebody ends it.

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use jumpseat_tools::later;
use nix::errno::Errno;
use nix::poll::PollFlags;
use nix::sys::signal::Signal;
use nix::unistd::read;

use super::app::{App, Command};
use super::keys::{Decoder, Key};
use super::monitor::Monitor;
use super::screen::{self, Theme};
use super::terminal::{self, Screen, Signals};
use super::{turn, wait};

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
    monitor: Monitor,
    app: App,
    signals: Signals,
    screen: Screen,
    theme: Theme,
    decoder: Decoder,
    /// When the next sample is due.
    next: Instant,
    /// When an escape character that nothing followed is the escape key.
    escape: Option<Instant>,
}

/// Runs on the terminal. If a signal ended it, the process ends of it here.
pub(crate) fn run(monitor: Monitor, app: App) -> io::Result<()> {
    // Before there is a screen to restore: a signal in between ends the program as it always did.
    let signals = Signals::take()?;
    let screen = Screen::enter()?;
    let mut live = Live {
        monitor,
        app,
        signals,
        screen,
        theme: Theme::from_env(),
        decoder: Decoder::default(),
        next: Instant::now(),
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
            if now >= self.next {
                turn::play(&mut self.monitor, &mut self.app);
                // Samples that are late are left out, not made up for.
                self.next = later(self.next, self.app.status.pace()).max(now);
            }
            turn::step(&mut self.monitor, &mut self.app);
            self.app.status.link = self.monitor.link();
            let (app, theme) = (&self.app, self.theme);
            self.screen.terminal.draw(|frame| screen::draw(frame.buffer_mut(), app, theme, now))?;

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

    /// Waits for keys, signals, the collector, or the time for something. What is ready of the first two.
    fn wait(&self) -> [PollFlags; 2] {
        let input = self.screen.input();
        let mut fds = vec![(input.as_fd(), PollFlags::POLLIN), (self.signals.as_fd(), PollFlags::POLLIN)];
        fds.extend(self.monitor.waiting().map(wait::of_client));
        let deadline = [Some(self.next), self.monitor.deadline(), self.escape].into_iter().flatten().min();
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
        let Live { monitor, app, screen, .. } = self;
        let (interval, pace) = (app.status.interval, app.status.pace());
        match app.key(key) {
            Some(Command::Quit) => return Ok(Some(End::Quit)),
            Some(Command::Suspend) => screen.suspend()?,
            Some(Command::Redraw) => screen.redraw()?,
            Some(Command::Add(text)) => {
                let added = monitor.add(&text, &mut app.model);
                app.added(added);
            }
            Some(Command::Remove(id)) => {
                monitor.remove(id, &mut app.model);
                app.removed();
            }
            Some(Command::Seek(seek)) => {
                app.status.trouble = monitor.seek(seek, &mut app.model).err();
                if let Some(playing) = &mut app.status.playing {
                    // Or the title would speak of the place before until the next sample is due.
                    playing.ended = monitor.is_over();
                }
                self.next = later(Instant::now(), app.status.pace());
            }
            None => {}
        }
        if interval != app.status.interval {
            app.status.trouble = monitor.set_interval(app.status.interval, &mut app.model).err();
        }
        if pace != app.status.pace() {
            // Of the new length from now on: a long interval that was begun is not waited for.
            self.next = later(Instant::now(), app.status.pace());
        }
        Ok(None)
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
