//! The terminal: raw mode and the alternate screen while the program runs, as it was before when it ends, whatever
//! ends it.

use std::fs::File;
use std::io::{self, IsTerminal, Stdout, Write as _};
use std::os::fd::{AsFd, BorrowedFd};

use nix::sys::signal::{SigSet, Signal, raise};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::execute;
use ratatui::crossterm::style::Print;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};

/// Has the terminal report buttons and the wheel, with numbers as text, but not each movement.
const MOUSE_ON: &str = "\x1b[?1000h\x1b[?1006h";
const MOUSE_OFF: &str = "\x1b[?1006l\x1b[?1000l";

/// A terminal in raw mode, on its alternate screen.
pub(crate) struct Screen {
    /// What to draw on.
    pub terminal: Terminal<CrosstermBackend<Stdout>>,
    /// The terminal itself, where standard input is something else.
    tty: Option<File>,
}

impl Screen {
    /// Takes the terminal over. It is given back when the value is dropped, and before a panic is told.
    pub(crate) fn enter() -> io::Result<Screen> {
        let tty = match io::stdin().is_terminal() {
            true => None,
            false => Some(File::open("/dev/tty")?),
        };
        // The message of a panic on the alternate screen would go with it.
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            restore();
            before(info);
        }));
        let mut screen = Screen { terminal: Terminal::new(CrosstermBackend::new(io::stdout()))?, tty };
        screen.resume()?;
        Ok(screen)
    }

    /// Where keys come from.
    pub(crate) fn input(&self) -> Input<'_> {
        match &self.tty {
            Some(tty) => Input::Tty(tty),
            None => Input::Stdin(io::stdin()),
        }
    }

    /// Stops the program, as the terminal's own key for that would, until somebody lets it go on.
    pub(crate) fn suspend(&mut self) -> io::Result<()> {
        restore();
        let mut stop = SigSet::empty();
        stop.add(Signal::SIGTSTP);
        // The signal has to do its own work now.
        stop.thread_unblock()?;
        raise(Signal::SIGTSTP)?;
        stop.thread_block()?;
        self.resume()
    }

    /// Takes the terminal over again after somebody else had it.
    pub(crate) fn resume(&mut self) -> io::Result<()> {
        // Whoever had it may have changed its modes.
        disable_raw_mode()?;
        enable_raw_mode()?;
        execute!(io::stdout(), EnterAlternateScreen, Hide, Print(MOUSE_ON))?;
        self.redraw()
    }

    /// Has the next drawing draw everything.
    pub(crate) fn redraw(&mut self) -> io::Result<()> {
        // Not `clear`, which asks the terminal for the cursor's place and waits for the answer.
        self.terminal.resize(self.terminal.size()?.into())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

/// Gives the terminal back.
fn restore() {
    // It may be gone.
    let _ = execute!(io::stdout(), Print(MOUSE_OFF), LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
    let _ = io::stdout().flush();
}

/// A terminal's input.
pub(crate) enum Input<'a> {
    /// Standard input.
    Stdin(io::Stdin),
    /// The terminal, opened by its name.
    Tty(&'a File),
}

impl AsFd for Input<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Input::Stdin(stdin) => stdin.as_fd(),
            Input::Tty(tty) => tty.as_fd(),
        }
    }
}

/// Signals as something to read.
pub(crate) struct Signals {
    fd: SignalFd,
}

impl Signals {
    /// Takes the signals that a program on a terminal gets, from here on.
    pub(crate) fn take() -> io::Result<Signals> {
        let mut signals = SigSet::empty();
        for signal in [
            Signal::SIGINT,
            Signal::SIGTERM,
            Signal::SIGHUP,
            Signal::SIGQUIT,
            Signal::SIGTSTP,
            Signal::SIGCONT,
            Signal::SIGWINCH,
        ] {
            signals.add(signal);
        }
        signals.thread_block()?;
        Ok(Signals { fd: SignalFd::with_flags(&signals, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)? })
    }

    /// The next signal that has come, if any.
    pub(crate) fn next(&mut self) -> Option<Signal> {
        let info = self.fd.read_signal().ok().flatten()?;
        Signal::try_from(i32::try_from(info.ssi_signo).ok()?).ok()
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Ends the program by a signal that it had taken, so that whoever started it sees why it ended.
pub(crate) fn die_of(signal: Signal) -> io::Result<()> {
    let mut taken = SigSet::empty();
    taken.add(signal);
    raise(signal)?;
    taken.thread_unblock()?;
    Ok(())
}
