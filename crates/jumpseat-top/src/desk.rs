//! The views besides the metrics: which one is shown, what is selected and opened in it.

use clap::ValueEnum;

use super::app::{App, Command};
use super::editor::Editor;
use super::flame::{Frame, flame};
use super::keys::Key;
use super::sheet::{List, Sheet};
use super::sheets;
use super::sift::Sift;
use super::trace;

/// Lines that the page keys go.
const PAGE: isize = 10;
/// Columns that the keys for that go to the side.
const ASIDE: usize = 16;

/// A way to look at what there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum View {
    /// Metrics, their instances, and records as they come.
    #[default]
    Metrics,
    /// Records: searched, filtered, one in detail.
    Events,
    /// Spans by name: rates, errors, quantiles; histogram and slowest examples.
    Spans,
    /// Traces over all sources; the spans of one over time.
    Traces,
    /// Errors by source, type and message.
    Errors,
    /// Where the time of spans goes, as a flame graph.
    Flame,
}

impl View {
    /// All, in the order of their keys.
    pub(crate) const ALL: [View; 6] =
        [View::Metrics, View::Events, View::Spans, View::Traces, View::Errors, View::Flame];

    /// What it is called.
    pub(crate) fn name(self) -> &'static str {
        match self {
            View::Metrics => "metrics",
            View::Events => "events",
            View::Spans => "spans",
            View::Traces => "traces",
            View::Errors => "errors",
            View::Flame => "flame",
        }
    }
}

/// The state of the views.
#[derive(Debug, Default)]
pub(crate) struct Desk {
    pub view: View,
    /// The list of each view.
    lists: [List; View::ALL.len()],
    /// The list of what is opened.
    inner: List,
    /// What is opened of the view: the key of a line.
    pub open: Option<String>,
    /// What is searched for.
    pub search: Editor,
    /// The filter.
    pub filter: Editor,
    sift: Sift,
    /// Columns that texts are moved to the left.
    pub aside: usize,
}

/// A table on the screen.
pub(crate) struct Panel<'a> {
    pub sheet: Sheet<'a>,
    /// The place of the selected line, where there is one.
    pub selected: Option<usize>,
    /// Whether the keys go to it.
    pub focus: bool,
    /// Whether its list stays with what is newest.
    pub follows: bool,
}

impl Panel<'_> {
    fn plain(sheet: Sheet<'_>) -> Panel<'_> {
        Panel { sheet, selected: None, focus: false, follows: false }
    }
}

impl Desk {
    /// Another view.
    pub(crate) fn show(&mut self, view: View) {
        (self.view, self.open, self.inner, self.aside) = (view, None, List::default(), 0);
    }

    /// The list of the view itself.
    fn outer(&self) -> &List {
        &self.lists[self.view as usize]
    }

    /// Whether the keys go to what is opened.
    fn is_inside(&self) -> bool {
        self.open.is_some() && matches!(self.view, View::Spans | View::Traces)
    }

    /// The list that the keys go to.
    fn list(&self) -> &List {
        if self.is_inside() { &self.inner } else { self.outer() }
    }

    fn list_mut(&mut self) -> &mut List {
        match self.is_inside() {
            true => &mut self.inner,
            false => &mut self.lists[self.view as usize],
        }
    }

    /// Takes over what was typed into the lines for the search and the filter.
    ///
    /// # Errors
    /// Why the filter is none.
    pub(crate) fn sift(&mut self) -> Result<(), String> {
        self.sift = Sift::new(self.search.text(), self.filter.text())?;
        Ok(())
    }
}

impl App {
    /// The tables of the view, from top to bottom.
    pub(crate) fn panels(&self) -> Vec<Panel<'_>> {
        let desk = &self.desk;
        let (model, zone) = (self.view(), &self.status.zone);
        let mut panels = vec![self.main_panel()];
        let selected = panels
            .first()
            .and_then(|panel| panel.sheet.lines.get(panel.selected?))
            .map(|line| line.key.clone());
        match (desk.view, &desk.open) {
            (View::Events, Some(_)) => {
                let number = selected.and_then(|key| key.parse().ok());
                panels.push(Panel::plain(sheets::details(&model.events, number, zone)));
            }
            (View::Errors, Some(_)) => {
                let faults = super::faults::faults(&model.events);
                let is = |fault: &super::faults::Fault| {
                    Some(format!("{}\n{}\n{}", fault.source, fault.kind, fault.pattern)) == selected
                };
                let number = faults.iter().find(|fault| is(fault)).map(|fault| fault.record);
                panels.push(Panel::plain(sheets::details(&model.events, number, zone)));
            }
            (View::Spans, Some(span)) => panels.insert(0, Panel::plain(sheets::histogram(model, span))),
            (View::Traces, Some(trace)) => {
                let key = selected.unwrap_or_default();
                panels.push(Panel::plain(sheets::fields(&model.events, trace, &key)));
            }
            _ => {}
        }
        panels
    }

    /// The table that the keys go to.
    fn main_panel(&self) -> Panel<'_> {
        let desk = &self.desk;
        let (model, zone) = (self.view(), &self.status.zone);
        let mut sheet = match (desk.view, &desk.open) {
            (View::Metrics, _) => sheets::metrics(model),
            (View::Events, _) => sheets::events(&model.events, &desk.sift, zone),
            (View::Spans, None) => sheets::spans(model),
            (View::Spans, Some(span)) => sheets::examples(model, span, zone),
            (View::Traces, None) => sheets::traces(&model.events, zone),
            (View::Traces, Some(trace)) => sheets::waterfall(&model.events, trace),
            (View::Errors, _) => sheets::errors(&model.events, zone),
            (View::Flame, _) => sheets::flame(&self.flame()),
        };
        let list = desk.list();
        list.sort(&mut sheet);
        let selected = Some(list.place(&sheet));
        Panel { sheet, selected, focus: true, follows: list.follows() }
    }

    /// The table that is exported.
    pub(crate) fn main_sheet(&self) -> Sheet<'_> {
        self.main_panel().sheet
    }

    /// The time of spans, of the frame that was opened only.
    pub(crate) fn flame(&self) -> Frame {
        let mut root = flame(&trace::traces(&self.view().events));
        for part in self.desk.open.iter().flat_map(|path| path.split('\n')).filter(|part| !part.is_empty()) {
            root = root.children.remove(part).unwrap_or_default();
        }
        root
    }

    /// Takes a key in one of the views. False if it means the same as everywhere.
    pub(crate) fn desk_key(&mut self, key: Key) -> bool {
        match key {
            Key::Up | Key::Char('k') => self.go_line(-1),
            Key::Down | Key::Char('j') => self.go_line(1),
            Key::PageUp => self.go_line(-PAGE),
            Key::PageDown => self.go_line(PAGE),
            Key::Home | Key::Char('g') => self.go_line(isize::MIN),
            Key::End | Key::Char('G') => self.go_line(isize::MAX),
            Key::Enter => self.open_line(),
            Key::Right | Key::Char('.') => self.desk.aside = (self.desk.aside + ASIDE).min(4_096),
            Key::Left | Key::Char(',') => self.desk.aside = self.desk.aside.saturating_sub(ASIDE),
            Key::Char('s') => {
                let columns = self.main_panel().sheet.columns.len();
                self.desk.list_mut().next_column(columns);
            }
            Key::Char('r') => self.desk.list_mut().turn_round(),
            Key::Esc | Key::Backspace => return self.step_back(),
            Key::Char('d') | Key::Delete => {}
            _ => return false,
        }
        true
    }

    /// Selects a line by its place, as the mouse does.
    pub(crate) fn select_line(&mut self, at: usize) {
        let mut list = self.desk.list().clone();
        list.select(at, &self.main_panel().sheet);
        *self.desk.list_mut() = list;
    }

    fn go_line(&mut self, by: isize) {
        let mut list = self.desk.list().clone();
        list.go(by, &self.main_panel().sheet);
        *self.desk.list_mut() = list;
    }

    fn open_line(&mut self) {
        let panel = self.main_panel();
        let Some(key) = self.desk.list().key(&panel.sheet).map(str::to_owned) else { return };
        let desk = &self.desk;
        match (desk.view, &desk.open) {
            // From an example to the trace that it is in.
            (View::Spans, Some(span)) => {
                let trace = self.trace_of(span, &key);
                self.desk.show(View::Traces);
                self.desk.open = trace;
            }
            (View::Traces, Some(_)) => {}
            (View::Events | View::Errors, Some(_)) => self.desk.open = None,
            (View::Flame, Some(above)) => {
                let path = [above.as_str(), key.as_str()].map(str::to_owned);
                let path: Vec<String> = path.into_iter().filter(|part| !part.is_empty()).collect();
                self.desk.open = Some(path.join("\n")).filter(|_| !key.is_empty());
            }
            (_, _) => (self.desk.open, self.desk.inner) = (Some(key), List::default()),
        }
    }

    /// The trace of a span, by the trace's id and its own.
    fn trace_of(&self, path: &str, key: &str) -> Option<String> {
        let (trace, id) = key.split_once('\n')?;
        if !trace.is_empty() {
            return Some(trace.to_owned());
        }
        let has = |trace: &trace::Trace| trace.spans.iter().any(|p| p.span.id == id && p.span.path() == path);
        trace::traces(&self.view().events).into_iter().find(has).map(|trace| trace.id)
    }

    /// Closes what is open, then shows all again, then goes back to the metrics. False if there is nothing to do.
    fn step_back(&mut self) -> bool {
        let desk = &mut self.desk;
        if desk.open.take().is_some() {
            desk.inner = List::default();
        } else if !desk.sift.is_open() {
            (desk.search, desk.filter, desk.sift) = Default::default();
        } else {
            desk.show(View::Metrics);
        }
        true
    }

    /// Shows a view. Its records and spans have to be watched from now on.
    pub(crate) fn show(&mut self, view: View) -> Option<Command> {
        self.desk.show(view);
        (view != View::Metrics).then_some(Command::Views)
    }
}
