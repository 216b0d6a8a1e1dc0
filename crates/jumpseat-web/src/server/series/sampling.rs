//! Which of the samples that were recorded a window takes (`docs/pcp/webapi.md` 12). Nothing is interpolated.

use super::language::Window;
use super::values::Sample;

/// Takes those samples that a window wants of all within its times. They come, and are, in ascending time, but newest first where
/// the window says so.
pub(super) fn select(mut samples: Vec<Sample>, window: &Window) -> Vec<Sample> {
    if window.newest_first {
        samples.reverse();
    } else if window.interval > 0 {
        let times: Vec<i64> = samples.iter().map(|sample| sample.time).collect();
        let mut wanted = wanted(&times, window).into_iter();
        samples.retain(|_| wanted.next() == Some(true));
    }
    if window.offset > 0 {
        samples.drain(..window.offset.min(samples.len()));
    }
    samples.truncate(window.count.unwrap_or(usize::MAX));
    samples
}

/// Which samples at these times, in microseconds and ascending, an interval takes.
fn wanted(times: &[i64], window: &Window) -> Vec<bool> {
    const SECOND: i128 = 1_000_000_000;
    let nanos = |time: i64| i128::from(time) * 1000;
    let Some(first) = times.first() else { return Vec::new() };
    let mut goal = window.start.unwrap_or_else(|| nanos(*first)) + 1;
    let far = 2 * (window.interval / SECOND) * SECOND;
    let mut wanted: Vec<bool> = times
        .windows(2)
        .map(|pair| {
            let next = nanos(pair[1]);
            if next <= goal {
                return false;
            }
            if next - goal > far {
                goal = next;
            }
            goal += window.interval;
            true
        })
        .collect();
    wanted.push(true);
    wanted
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: i64 = 1_000_000;

    fn samples(times: &[i64]) -> Vec<Sample> {
        times.iter().map(|&time| Sample { time, points: Vec::new() }).collect()
    }

    fn times(times: &[i64], window: &Window) -> Vec<i64> {
        select(samples(times), window).into_iter().map(|sample| sample.time).collect()
    }

    fn every(seconds: i64, start: i64) -> Window {
        Window {
            interval: i128::from(seconds) * 1_000_000_000,
            start: Some(i128::from(start) * 1000),
            ..Window::default()
        }
    }

    /// Of a real server: two samples a second, one a second is asked for.
    #[test]
    fn an_interval_takes_the_last_sample_before_each_step() {
        let recorded: Vec<i64> = (0..9).map(|n| n * SECOND / 2 + 500_000).collect();
        let taken = times(&recorded, &every(1, 0));
        assert_eq!(taken, [500_000, 1_000_000, 2_000_000, 3_000_000, 4_000_000, 4_500_000]);
    }

    #[test]
    fn the_newest_come_first_and_an_offset_leaves_some_out() {
        let window = Window { count: Some(2), offset: 1, newest_first: true, ..Window::default() };
        assert_eq!(times(&[1, 2, 3, 4], &window), [3, 2]);
        let window = Window { count: Some(2), offset: 1, ..Window::default() };
        assert_eq!(times(&[1, 2, 3, 4], &window), [2, 3]);
        let window = Window { offset: 9, ..Window::default() };
        assert_eq!(times(&[1, 2], &window), Vec::<i64>::new());
    }

    proptest! {
        #[test]
        fn what_is_taken_is_recorded_in_order_and_has_the_last(
            mut recorded in prop::collection::vec(0_i64..1_000_000_000, 0..50),
            interval in 0_i64..100,
            start in prop::option::of(0_i64..1_000_000_000),
        ) {
            recorded.sort_unstable();
            recorded.dedup();
            let window = Window {
                interval: i128::from(interval) * 1_000_000_000,
                start: start.map(|start| i128::from(start) * 1000),
                ..Window::default()
            };
            let taken = times(&recorded, &window);
            prop_assert!(taken.is_sorted());
            prop_assert!(taken.iter().all(|time| recorded.contains(time)));
            prop_assert_eq!(taken.last(), recorded.last());
            if interval == 0 {
                prop_assert_eq!(taken, recorded);
            }
        }

        /// No step is without a sample where there is one: between two that are taken there are never two steps with samples.
        #[test]
        fn dense_samples_come_about_one_a_step(count in 10_i64..200, interval in 2_i64..10) {
            let recorded: Vec<i64> = (0..count).map(|n| n * SECOND).collect();
            let taken = times(&recorded, &every(interval, 0));
            let steps = taken.windows(2).take(taken.len().saturating_sub(2));
            for pair in steps {
                prop_assert!(pair[1] - pair[0] <= (interval + 1) * SECOND);
            }
        }
    }
}
