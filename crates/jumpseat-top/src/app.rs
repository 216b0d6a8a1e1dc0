//! What the user sees and does: panes, selection, sorting, editing. No terminal, no clock, no collector.

use std::time::Duration;

use pcp_model::Inst;
use pcp_model::time::Zone;

use super::desk::{Desk, View};
use super::editor::Editor;
use super::keys::Key;
use super::model::{Metric, Model, Row};
use super::monitor::Link;
use super::sample::Id;
use super::tape::{FAR, Playing, Seek};

/// Intervals that keys lead to.
const INTERVALS: [u64; 12] =
    [100, 200, 500, 1_000, 2_000, 5_000, 10_000, 15_000, 30_000, 60_000, 300_000, 600_000];
/// Lines that the page keys go.
const PAGE: usize = 10;

/// The state of the program, apart from where samples come from.
pub(crate) struct App {
    /// What came of the collector.
    pub model: Model,
    /// What the model was when the screen was frozen.
    frozen: Option<Model>,
    /// For the title.
    pub status: Status,
    /// Where the keys go.
    pub pane: Pane,
    /// The selected metric's place.
    pub selected: usize,
    /// The instances of the selected metric.
    pub table: Table,
    /// The number of the last record shown; the newest if there is none.
    pub held: Option<u64>,
    /// The other views.
    pub desk: Desk,
    /// What the keys do now.
    pub mode: Mode,
    /// A message, until the next key.
    pub message: Option<String>,
}

/// What is known of the source.
pub(crate) struct Status {
    /// The host's name.
    pub host: String,
    /// The connection.
    pub link: Link,
    /// Why the last sample failed as a whole.
    pub trouble: Option<String>,
    /// Time between two samples.
    pub interval: Duration,
    /// The zone of all times.
    pub zone: Zone,
    /// How a recording is played; `None` for a collector.
    pub playing: Option<Playing>,
}

/// A part of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pane {
    Metrics,
    Instances,
    Events,
}

/// What the keys do.
#[derive(Debug)]
pub(crate) enum Mode {
    /// Each key is a command.
    Normal,
    /// Any key closes the help.
    Help,
    /// Keys make the filter's text.
    Filter,
    /// Keys make a metric's name or an expression.
    Add(Editor),
    /// Keys make the text that records are searched for.
    Search,
    /// Keys make the filter that records have to pass.
    Where,
    /// Keys make the name of a file for what is shown.
    Export(Editor),
    /// Keys make the name of a layout.
    Save(Editor),
}

/// How instances are shown.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    /// By what.
    pub sort: Sort,
    /// The other way round.
    pub reverse: bool,
    /// Part of the names that are shown.
    pub filter: Editor,
    /// The place of the selected row.
    pub selected: usize,
}

/// What instances are sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Sort {
    /// The largest first.
    #[default]
    Value,
    /// The largest change since the last sample first.
    Change,
    /// In alphabetical order.
    Name,
}

/// What the program has to do upon a key.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Quit,
    Suspend,
    Redraw,
    Add(String),
    Remove(Id),
    Seek(Seek),
    /// The views need their metrics.
    Views,
    /// What names go on with.
    Complete(String),
    /// What is shown goes to a file.
    Export(String),
    /// What is watched and how gets a name.
    Save(String),
}

impl Status {
    /// How long it is from one sample to the next on the clock of the user.
    pub(crate) fn pace(&self) -> Duration {
        self.playing.map_or(self.interval, |playing| playing.pace(self.interval))
    }
}

impl App {
    /// Nothing is watched yet.
    pub(crate) fn new(status: Status) -> App {
        App {
            model: Model::default(),
            frozen: None,
            status,
            pane: Pane::Metrics,
            selected: 0,
            table: Table::default(),
            held: None,
            desk: Desk::default(),
            mode: Mode::Normal,
            message: None,
        }
    }

    /// What is shown: what there is, or what there was when the screen was frozen.
    pub(crate) fn view(&self) -> &Model {
        self.frozen.as_ref().unwrap_or(&self.model)
    }

    /// Whether the screen is frozen. Samples are taken all the same.
    pub(crate) fn is_paused(&self) -> bool {
        self.frozen.is_some() || self.status.playing.is_some_and(|playing| !playing.on)
    }

    /// The selected metric.
    pub(crate) fn metric(&self) -> Option<&Metric> {
        self.view().metrics.get(self.selected)
    }

    /// The panes that there is something for, in their order.
    pub(crate) fn panes(&self) -> Vec<Pane> {
        let mut panes = vec![Pane::Metrics];
        if self.metric().is_some_and(|metric| metric.instanced && !metric.is_event) {
            panes.push(Pane::Instances);
        }
        if self.view().metrics.iter().any(|metric| metric.is_event) {
            panes.push(Pane::Events);
        }
        panes
    }

    /// The pane that the keys go to.
    pub(crate) fn focus(&self) -> Pane {
        if self.panes().contains(&self.pane) { self.pane } else { Pane::Metrics }
    }

    /// Instances of the selected metric, filtered and sorted.
    pub(crate) fn rows(&self) -> Vec<(Inst, &Row)> {
        let Some(metric) = self.metric() else { return Vec::new() };
        let filter = self.table.filter.text().to_lowercase();
        let shown = |row: &Row| filter.is_empty() || row.name.to_lowercase().contains(&filter);
        let mut rows: Vec<(Inst, &Row)> =
            metric.rows.iter().filter(|(_, row)| shown(row)).map(|(&inst, row)| (inst, row)).collect();
        // Rows without a value come last; equal ones stay in the order of instances.
        let descending = |value: Option<f64>| -value.unwrap_or(f64::NEG_INFINITY);
        match self.table.sort {
            Sort::Value => rows.sort_by(|(_, a), (_, b)| {
                descending(a.cell.last).total_cmp(&descending(b.cell.last)).then_with(|| a.text.cmp(&b.text))
            }),
            Sort::Change => {
                rows.sort_by_cached_key(|(_, row)| Total(descending(row.cell.series.change().map(f64::abs))))
            }
            Sort::Name => rows.sort_by(|(_, a), (_, b)| a.name.cmp(&b.name)),
        }
        if self.table.reverse {
            rows.reverse();
        }
        rows
    }

    /// Takes a key.
    pub(crate) fn key(&mut self, key: Key) -> Option<Command> {
        match key {
            Key::Ctrl('c') => return Some(Command::Quit),
            Key::Ctrl('z') => return Some(Command::Suspend),
            Key::Ctrl('l') => return Some(Command::Redraw),
            _ => {}
        }
        let had_message = self.message.take().is_some();
        match &mut self.mode {
            Mode::Normal => return self.command(key, had_message),
            Mode::Help => self.mode = Mode::Normal,
            Mode::Filter => {
                match key {
                    Key::Enter => self.mode = Mode::Normal,
                    Key::Esc => {
                        self.table.filter = Editor::default();
                        self.mode = Mode::Normal;
                    }
                    key => self.table.filter.key(key),
                }
                self.table.selected = 0;
            }
            Mode::Add(editor) => match key {
                Key::Esc => self.mode = Mode::Normal,
                Key::Enter if editor.text().trim().is_empty() => self.mode = Mode::Normal,
                Key::Enter => return Some(Command::Add(editor.text().to_owned())),
                Key::Tab => return Some(Command::Complete(editor.text().to_owned())),
                key => editor.key(key),
            },
            Mode::Search | Mode::Where => self.sift_key(key),
            Mode::Export(editor) | Mode::Save(editor) => match key {
                Key::Esc => self.mode = Mode::Normal,
                Key::Enter => return self.typed(),
                key => editor.key(key),
            },
        }
        None
    }

    /// A key for the search or the filter: records are chosen while one types.
    fn sift_key(&mut self, key: Key) {
        let searching = matches!(self.mode, Mode::Search);
        let line = if searching { &mut self.desk.search } else { &mut self.desk.filter };
        match key {
            Key::Enter if self.message.is_none() => {}
            Key::Esc => *line = Editor::default(),
            key => line.key(key),
        }
        let sifted = self.desk.sift();
        match key {
            Key::Esc => self.mode = Mode::Normal,
            Key::Enter if sifted.is_ok() => self.mode = Mode::Normal,
            // Nobody can write a filter without its being none in between.
            Key::Enter => self.message = sifted.err(),
            _ => {}
        }
    }

    /// What was typed is done, if it is anything.
    fn typed(&mut self) -> Option<Command> {
        match std::mem::replace(&mut self.mode, Mode::Normal) {
            Mode::Export(editor) => Some(Command::Export(editor.text().trim().to_owned())),
            Mode::Save(editor) => Some(Command::Save(editor.text().trim().to_owned())),
            _ => None,
        }
        .filter(|command| !matches!(command, Command::Export(name) | Command::Save(name) if name.is_empty()))
    }

    /// What came of [`Command::Complete`]: the longest beginning that names have in common, and the names.
    pub(crate) fn completed(&mut self, text: &str, names: &[String]) {
        if let Mode::Add(editor) = &mut self.mode {
            *editor = Editor::with(text);
        }
        if names.len() > 1 {
            self.message = Some(names.join("  "));
        }
    }

    /// What came of [`Command::Add`].
    pub(crate) fn added(&mut self, result: Result<(), String>) {
        match result {
            Ok(()) => {
                self.mode = Mode::Normal;
                self.unfreeze();
                self.pane = Pane::Metrics;
                self.select(self.model.metrics.len().saturating_sub(1));
            }
            // The line is still there to be corrected.
            Err(message) => self.message = Some(message),
        }
    }

    /// What came of [`Command::Remove`].
    pub(crate) fn removed(&mut self) {
        self.unfreeze();
        self.select(self.selected.min(self.model.metrics.len().saturating_sub(1)));
    }

    fn unfreeze(&mut self) {
        // What was added or removed would not be seen on a frozen screen.
        (self.frozen, self.held) = (None, None);
    }

    fn command(&mut self, key: Key, had_message: bool) -> Option<Command> {
        if let Some(playing) = &mut self.status.playing {
            // In a recording these keys go through time, so that g and G are left to select.
            let seek = match key {
                Key::Right => Seek::By(1),
                Key::Left => Seek::By(-1),
                Key::Char(']') => Seek::By(FAR),
                Key::Char('[') => Seek::By(-FAR),
                Key::Home => Seek::Start,
                Key::End => Seek::End,
                _ => {
                    match key {
                        Key::Char('>') => playing.faster(1),
                        Key::Char('<') => playing.faster(-1),
                        Key::Char('p' | ' ') => playing.on = !playing.on,
                        _ => return self.usual_command(key, had_message),
                    }
                    return None;
                }
            };
            return Some(Command::Seek(seek));
        }
        self.usual_command(key, had_message)
    }

    fn usual_command(&mut self, key: Key, had_message: bool) -> Option<Command> {
        if let Some(done) = self.view_command(key, had_message) {
            return done;
        }
        match key {
            Key::Char('q') => return Some(Command::Quit),
            // It closes the message.
            Key::Esc if had_message => {}
            Key::Esc if !self.table.filter.text().is_empty() => self.table.filter = Editor::default(),
            Key::Esc => return Some(Command::Quit),
            Key::Char('?' | 'h') => self.mode = Mode::Help,
            Key::Up | Key::Char('k') => self.go(-1),
            Key::Down | Key::Char('j') => self.go(1),
            Key::PageUp => self.go(-(PAGE as isize)),
            Key::PageDown => self.go(PAGE as isize),
            Key::Home | Key::Char('g') => self.go(isize::MIN),
            Key::End | Key::Char('G') => self.go(isize::MAX),
            Key::Tab => self.turn(1),
            Key::BackTab => self.turn(-1),
            Key::Enter => self.enter(),
            Key::Char('s') => {
                self.table.sort = match self.table.sort {
                    Sort::Value => Sort::Change,
                    Sort::Change => Sort::Name,
                    Sort::Name => Sort::Value,
                };
                self.table.selected = 0;
            }
            Key::Char('r') => {
                self.table.reverse = !self.table.reverse;
                self.table.selected = 0;
            }
            Key::Char('/') => {
                self.mode = Mode::Filter;
                // To where the filter shows, unless there are no instances.
                if self.panes().contains(&Pane::Instances) {
                    self.pane = Pane::Instances;
                }
            }
            Key::Char('+' | '=') => self.change_interval(true),
            Key::Char('-') => self.change_interval(false),
            Key::Char('p' | ' ') => match self.frozen {
                None => self.frozen = Some(self.model.clone()),
                Some(_) => self.unfreeze(),
            },
            Key::Char('a') => self.mode = Mode::Add(Editor::default()),
            Key::Char('d') | Key::Delete => return self.metric().map(|metric| Command::Remove(metric.id)),
            _ => {}
        }
        None
    }

    /// Takes a key that is for the views. `None` if it is for the metrics, or for all.
    fn view_command(&mut self, key: Key, had_message: bool) -> Option<Option<Command>> {
        let outside = self.desk.view == View::Metrics;
        match key {
            Key::Char(digit @ '1'..='6') => {
                let at = usize::from(digit as u8 - b'1');
                return Some(View::ALL.get(at).and_then(|&view| self.show(view)));
            }
            Key::Char('e') => self.mode = Mode::Export(Editor::with("top.svg")),
            Key::Char('w') => self.mode = Mode::Save(Editor::default()),
            Key::Char('f') => return Some(self.sift_records(Mode::Where)),
            _ if outside => return None,
            Key::Char('/') => return Some(self.sift_records(Mode::Search)),
            Key::Tab | Key::BackTab => {
                let by = if key == Key::Tab { 1 } else { View::ALL.len() - 1 };
                let at = (self.desk.view as usize + by) % View::ALL.len();
                return Some(View::ALL.get(at).and_then(|&view| self.show(view)));
            }
            // It closes the message.
            Key::Esc if had_message => {}
            _ => return self.desk_key(key).then_some(None),
        }
        Some(None)
    }

    /// Has the keys make what records are chosen by, where one sees them.
    fn sift_records(&mut self, mode: Mode) -> Option<Command> {
        self.mode = mode;
        (self.desk.view != View::Events).then(|| self.show(View::Events)).flatten()
    }

    /// A click into the screen, on a line of the view's table.
    pub(crate) fn click(&mut self, line: usize) {
        if !matches!(self.mode, Mode::Normal) {
            return;
        }
        match self.desk.view {
            View::Metrics => {
                self.pane = Pane::Metrics;
                self.select(line.min(self.view().metrics.len().saturating_sub(1)));
            }
            _ => self.select_line(line),
        }
    }

    fn change_interval(&mut self, longer: bool) {
        let now = self.status.interval;
        let all = INTERVALS.map(Duration::from_millis);
        let next = match longer {
            true => all.into_iter().find(|interval| *interval > now),
            false => all.into_iter().rev().find(|interval| *interval < now),
        };
        self.status.interval = next.unwrap_or(now);
    }

    fn turn(&mut self, by: isize) {
        let panes = self.panes();
        let at = panes.iter().position(|&pane| pane == self.focus()).unwrap_or(0) as isize;
        let next = (at + by).rem_euclid(panes.len().max(1) as isize);
        self.pane = panes.get(next.unsigned_abs()).copied().unwrap_or(Pane::Metrics);
    }

    fn enter(&mut self) {
        self.pane = match (self.focus(), self.metric()) {
            // Events have instances, too, but their records are what one wants to see.
            (Pane::Metrics, Some(metric)) if metric.is_event => Pane::Events,
            (Pane::Metrics, Some(metric)) if metric.instanced => Pane::Instances,
            _ => Pane::Metrics,
        };
    }

    fn select(&mut self, metric: usize) {
        if metric != self.selected {
            (self.table.selected, self.table.filter) = (0, Editor::default());
        }
        self.selected = metric;
    }

    fn go(&mut self, by: isize) {
        // Saturating: "to the end" is as far as it goes.
        let to = |at: usize, len: usize| at.saturating_add_signed(by).min(len.saturating_sub(1));
        match self.focus() {
            Pane::Metrics => self.select(to(self.selected, self.view().metrics.len())),
            Pane::Instances => self.table.selected = to(self.table.selected, self.rows().len()),
            Pane::Events => {
                let events = &self.view().events;
                // Counted from the first record ever, so that a held one stays where it is while others come.
                let (newest, kept) = (events.seen, events.newest.len() as u64);
                let at = self.held.unwrap_or(newest).saturating_add_signed(by as i64);
                // Back at the newest it follows again.
                self.held = (at < newest).then_some(at.max((newest + 1).saturating_sub(kept)));
            }
        }
    }
}

/// An order for floating-point numbers.
#[derive(PartialEq)]
struct Total(f64);

impl Eq for Total {}

impl PartialOrd for Total {
    fn partial_cmp(&self, other: &Total) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Total {
    fn cmp(&self, other: &Total) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}
