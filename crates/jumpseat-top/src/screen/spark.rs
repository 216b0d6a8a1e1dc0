//! Sparklines: one column a sample, the newest on the right, one row or more high.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::theme::{Role, Theme};
use crate::series::Series;

/// Heights in a row, the least first. Each has a mark: zero is a value.
const UTF8: [&str; 8] = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];
const ASCII: [&str; 8] = ["_", ".", ",", "-", "=", "+", "*", "#"];

/// Draws as many of the newest values as fit. Samples without a value are marked in the bottom row.
pub(super) fn draw(buffer: &mut Buffer, area: Rect, series: &Series, role: Role, theme: Theme) {
    let area = area.intersection(buffer.area);
    if area.is_empty() {
        return;
    }
    let width = usize::from(area.width);
    let marks = if theme.utf8 { UTF8 } else { ASCII };
    let range = Range::of(series, width);
    let steps = marks.len() * usize::from(area.height);
    let values = series.newest(width);
    let first = area.right() - values.len() as u16;
    for (x, value) in (first..).zip(values) {
        let Some(value) = value else {
            let gap = theme.pick("·", ":");
            buffer[(x, area.bottom() - 1)].set_symbol(gap).set_style(theme.style(Role::Dim));
            continue;
        };
        let mut height = range.height(value, steps);
        for y in (area.top()..area.bottom()).rev() {
            if height == 0 {
                break;
            }
            let here = height.min(marks.len());
            if let Some(mark) = marks.get(here - 1) {
                buffer[(x, y)].set_symbol(mark).set_style(theme.style(role));
            }
            height -= here;
        }
    }
}

/// What the bottom and the top of the bars stand for.
struct Range {
    bottom: f64,
    top: f64,
}

impl Range {
    /// From zero, so that heights compare; but where values hardly vary, nearer to them, so that it shows how they do.
    fn of(series: &Series, width: usize) -> Range {
        let Some(stats) = series.stats(width) else { return Range { bottom: 0.0, top: 1.0 } };
        let spread = stats.max - stats.min;
        let bottom = match stats.min {
            min if min < 0.0 => min,
            min if spread > 0.0 && min > stats.max * 0.5 => stats.max - 2.0 * spread,
            _ => 0.0,
        };
        // What never changes is half way up.
        let top = if spread > 0.0 || stats.max == 0.0 { stats.max } else { 2.0 * stats.max.abs() };
        // Infinities would make every share of them nothing.
        Range { bottom: bottom.max(f64::MIN), top: top.min(f64::MAX) }
    }

    /// 1 to `steps`.
    fn height(&self, value: f64, steps: usize) -> usize {
        let size = self.top - self.bottom;
        let share = if size > 0.0 { (value - self.bottom) / size } else { 0.0 };
        ((share * steps as f64).round() as usize).clamp(1, steps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(values: &[Option<f64>], width: u16, height: u16, utf8: bool) -> Vec<String> {
        let mut series = Series::default();
        values.iter().for_each(|&value| series.push(value));
        let area = Rect::new(0, 0, width, height);
        let mut buffer = Buffer::empty(area);
        draw(&mut buffer, area, &series, Role::Plain, Theme { utf8, ..Theme::PLAIN });
        let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect();
        (0..height).map(line).collect()
    }

    fn some(values: &[f64]) -> Vec<Option<f64>> {
        values.iter().copied().map(Some).collect()
    }

    #[test]
    fn heights_are_shares_of_the_largest_value() {
        assert_eq!(lines(&some(&[0.0, 1.0, 2.0, 4.0, 8.0]), 5, 1, true), ["▁▁▂▄█"]);
        assert_eq!(lines(&some(&[0.0, 1.0, 2.0, 4.0, 8.0]), 5, 1, false), ["__.-#"]);
        assert_eq!(lines(&some(&[1.0, 2.0]), 4, 1, true), ["  ▄█"]);
        assert_eq!(lines(&some(&[1.0, 2.0, 16.0, 12.0]), 4, 2, true), ["  █▄", "▁▂██"]);
    }

    #[test]
    fn gaps_are_neither_zero_nor_nothing() {
        assert_eq!(lines(&[Some(0.0), None, Some(1.0)], 3, 1, true), ["▁·█"]);
        assert_eq!(lines(&[Some(0.0), None, Some(1.0)], 3, 1, false), ["_:#"]);
        assert_eq!(lines(&[None, None], 3, 2, true), ["   ", " ··"]);
    }

    #[test]
    fn small_changes_of_large_values_are_visible() {
        assert_eq!(lines(&some(&[1000.0, 1001.0, 1002.0]), 3, 1, true), ["▄▆█"]);
        assert_eq!(lines(&some(&[5.0, 5.0]), 2, 1, true), ["▄▄"]);
        assert_eq!(lines(&some(&[0.0, 0.0]), 2, 1, true), ["▁▁"]);
        assert_eq!(lines(&some(&[-2.0, 0.0, 2.0]), 3, 1, true), ["▁▄█"]);
    }

    #[test]
    fn any_numbers_and_any_size_can_be_drawn() {
        for width in 0..4 {
            for height in 0..4 {
                lines(&some(&[f64::MAX, f64::MIN, f64::INFINITY, 1e-300, -0.0]), width, height, true);
            }
        }
    }
}
