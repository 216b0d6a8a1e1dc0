//! Cells that several panes have.

use super::canvas::Canvas;
use super::theme::Role;
use crate::measure::Measure;
use crate::series::Cell;

/// A current value. One that is not of the last sample is marked; one that never was is a dash.
pub(super) fn current(canvas: &mut Canvas<'_>, x: u16, y: u16, space: u16, measure: &Measure, cell: &Cell) {
    let number = space.saturating_sub(1);
    match cell.last {
        Some(value) if cell.age == 0 => canvas.put_right(x, y, number, &measure.text(value), Role::Value),
        // An old value is worth more than none, as long as it cannot be taken for a new one.
        Some(value) => {
            canvas.put_right(x, y, number, &measure.text(value), Role::Dim);
            canvas.put(x + number, y, 1, "?", Role::Bad);
        }
        None => canvas.put_right(x, y, number, "-", Role::Dim),
    }
}
