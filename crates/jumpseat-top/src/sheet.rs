//! A table that is shown, or exported: what all views have in common.

use super::screen::Role;
use super::series::Series;

/// A view's table.
#[derive(Debug, Default)]
pub(crate) struct Sheet<'a> {
    /// What it is.
    pub title: String,
    /// What else is to be said, behind the title.
    pub notes: Vec<(String, Role)>,
    pub columns: Vec<Column>,
    pub lines: Vec<Line<'a>>,
    /// What is said if there are no lines.
    pub empty: String,
    /// Whether the last line is the one that is looked at first.
    pub newest_last: bool,
}

/// A column.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub name: &'static str,
    pub kind: Kind,
}

/// What a column is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// As wide as its texts are, up to so many columns.
    Text(u16),
    /// The same, at the right.
    Number,
    /// Takes what the others leave.
    Rest,
    /// Drawn, in what the others leave.
    Drawn,
}

/// A line.
#[derive(Debug)]
pub(crate) struct Line<'a> {
    /// Tells it from the others, also when they change their places.
    pub key: String,
    /// One for each column.
    pub cells: Vec<Cell<'a>>,
}

/// A cell.
#[derive(Debug)]
pub(crate) struct Cell<'a> {
    pub text: String,
    pub role: Role,
    /// What it is sorted by, if not by its text.
    pub number: Option<f64>,
    pub drawn: Drawn<'a>,
}

/// What is drawn in a cell.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Drawn<'a> {
    Nothing,
    /// A recent past.
    Bars(&'a Series),
    /// From one share of the width to another.
    Extent(f64, f64),
}

/// A column of texts.
pub(crate) fn text(name: &'static str, most: u16) -> Column {
    Column { name, kind: Kind::Text(most) }
}

/// A column of numbers.
pub(crate) fn number(name: &'static str) -> Column {
    Column { name, kind: Kind::Number }
}

/// The column that takes what is left.
pub(crate) fn rest(name: &'static str) -> Column {
    Column { name, kind: Kind::Rest }
}

/// The column that is drawn in what is left.
pub(crate) fn drawn(name: &'static str) -> Column {
    Column { name, kind: Kind::Drawn }
}

impl<'a> Cell<'a> {
    pub(crate) fn text(text: impl Into<String>, role: Role) -> Cell<'a> {
        Cell { text: text.into(), role, number: None, drawn: Drawn::Nothing }
    }

    /// A number, as it is shown; a dash if there is none.
    pub(crate) fn number(number: Option<f64>, show: impl FnOnce(f64) -> String) -> Cell<'a> {
        let (text, role) = number.map_or(("-".to_owned(), Role::Dim), |number| (show(number), Role::Value));
        Cell { text, role, number: Some(number.unwrap_or(f64::NEG_INFINITY)), drawn: Drawn::Nothing }
    }

    /// The same in another role.
    pub(crate) fn with(self, role: Role) -> Cell<'a> {
        Cell { role, ..self }
    }

    pub(crate) fn drawn(drawn: Drawn<'a>, role: Role) -> Cell<'a> {
        Cell { text: String::new(), role, number: None, drawn }
    }
}

/// Which line of a table is selected, and the order of the lines.
#[derive(Clone, Debug, Default)]
pub(crate) struct List {
    /// The selected line; where it is gone, the one in its place.
    key: Option<String>,
    at: usize,
    /// The column that lines are sorted by; as the table has them without one.
    sort: Option<usize>,
    reverse: bool,
}

impl List {
    /// Puts the lines in the order that was asked for.
    pub(crate) fn sort(&self, sheet: &mut Sheet<'_>) {
        if let Some(column) = self.sort {
            let key = |line: &Line<'_>| line.cells.get(column).map(|cell| (cell.number, cell.text.clone()));
            sheet.lines.sort_by(|a, b| match (key(a), key(b)) {
                // The largest number first, texts by the alphabet.
                (Some((Some(a), _)), Some((Some(b), _))) => b.total_cmp(&a),
                (a, b) => a.map(|(_, text)| text).cmp(&b.map(|(_, text)| text)),
            });
            if let Some(name) = sheet.columns.get(column).map(|column| column.name) {
                sheet.notes.push((format!("by {name}"), Role::Dim));
            }
        }
        if self.reverse {
            sheet.lines.reverse();
        }
    }

    /// The place of the selected line.
    pub(crate) fn place(&self, sheet: &Sheet<'_>) -> usize {
        let last = sheet.lines.len().saturating_sub(1);
        match &self.key {
            Some(key) => sheet.lines.iter().position(|line| line.key == *key).unwrap_or(self.at.min(last)),
            None if sheet.newest_last => last,
            None => 0,
        }
    }

    /// The selected line's key.
    pub(crate) fn key<'b>(&self, sheet: &'b Sheet<'_>) -> Option<&'b str> {
        sheet.lines.get(self.place(sheet)).map(|line| line.key.as_str())
    }

    /// Whether it stays with what is newest.
    pub(crate) fn follows(&self) -> bool {
        self.key.is_none()
    }

    /// Goes up or down.
    pub(crate) fn go(&mut self, by: isize, sheet: &Sheet<'_>) {
        self.select(self.place(sheet).saturating_add_signed(by), sheet);
    }

    /// Goes to a line. At the end of what comes in it follows again.
    pub(crate) fn select(&mut self, at: usize, sheet: &Sheet<'_>) {
        let last = sheet.lines.len().saturating_sub(1);
        self.at = at.min(last);
        let key = sheet.lines.get(self.at).map(|line| line.key.clone());
        self.key = key.filter(|_| !(sheet.newest_last && self.at == last));
    }

    /// Sorts by the next column of a table.
    pub(crate) fn next_column(&mut self, columns: usize) {
        let next = self.sort.map_or(0, |column| column + 1);
        self.sort = (next < columns).then_some(next);
        (self.key, self.at) = (None, 0);
    }

    /// The other way round.
    pub(crate) fn turn_round(&mut self) {
        self.reverse = !self.reverse;
        (self.key, self.at) = (None, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sheet(numbers: &[(&str, f64)]) -> Sheet<'static> {
        let line = |&(key, number): &(&str, f64)| Line {
            key: key.to_owned(),
            cells: vec![Cell::text(key, Role::Plain), Cell::number(Some(number), |n| n.to_string())],
        };
        let columns = vec![rest("name"), number("n")];
        Sheet { columns, lines: numbers.iter().map(line).collect(), ..Sheet::default() }
    }

    #[test]
    fn the_selected_line_is_followed_to_its_new_place() {
        let mut list = List::default();
        list.go(1, &sheet(&[("a", 1.0), ("b", 2.0)]));
        assert_eq!(list.place(&sheet(&[("b", 1.0), ("c", 1.0), ("a", 2.0)])), 0);
        assert_eq!(list.place(&sheet(&[("c", 1.0), ("a", 2.0)])), 1);
        assert_eq!(list.place(&sheet(&[])), 0);
    }

    #[test]
    fn columns_are_sorted_by_number_or_text() {
        let (mut list, order) = (List::default(), |list: &List| {
            let mut sheet = sheet(&[("b", 1.0), ("a", 9.0), ("c", 10.0)]);
            list.sort(&mut sheet);
            sheet.lines.into_iter().map(|line| line.key).collect::<String>()
        });
        assert_eq!(order(&list), "bac");
        list.next_column(2);
        assert_eq!(order(&list), "abc");
        list.next_column(2);
        assert_eq!(order(&list), "cab");
        list.turn_round();
        assert_eq!(order(&list), "bac");
    }
}
