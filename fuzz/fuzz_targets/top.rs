//! Text on `top`'s screen: the place in the first bytes, the text in the rest. What is shown has no control characters and
//! is as much as the screen has cells for, however long or strange the text.
#![no_main]

use jumpseat_top::fuzzing::lay_out;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((&[columns, x, space], rest)) = data.split_first_chunk() else { return };
    let (columns, space) = (u16::from(columns), u16::from(space));
    let text = String::from_utf8_lossy(rest);
    // Some once more, so long that only a bounded look at them can be quick.
    let long = if rest.len() < 16 && columns % 32 == 0 { text.repeat(10_000) } else { String::new() };
    for text in [&*text, &long] {
        let screen = lay_out(columns, u16::from(x), space, text);
        for line in screen.lines() {
            assert!(!line.chars().any(char::is_control), "{line:?}");
        }
        // As many as are looked at for each column, in each of the four lines.
        let most = 4 * (4 * (usize::from(columns) + 2) + 1) * 4;
        assert!(screen.chars().count() <= most, "{} of {most}", screen.chars().count());
    }
});
