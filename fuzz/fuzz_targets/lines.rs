//! Lines of followed files, in every format: the format in the first byte.
#![no_main]

use std::cell::RefCell;

use jumpseat::model::Timestamp;
use jumpseat::source::event::{Event, Limits};
use jumpseat::source::follow::FormatName;
use jumpseat::source::follow::lines::{Parser, Reading, repair};

thread_local! {
    static PARSERS: RefCell<Vec<Parser>> = RefCell::new({
        let plain = r"^(?<time>\S+) (?<severity>\w+) \[(?<thread>[^\]]*)\] (?<message>.*)$";
        let formats = [
            FormatName::Text,
            FormatName::Json,
            FormatName::Logfmt,
            FormatName::Syslog,
            FormatName::Plain,
            FormatName::Nginx,
            FormatName::Apache,
            FormatName::Klog,
        ];
        let parsers = formats
            .into_iter()
            .map(|format| Parser::new(&Reading { format, pattern: Some(plain), ..Reading::default() }));
        let mut parsers: Vec<Parser> = parsers.map(|parser| parser.expect("a right pattern")).collect();
        let time_format = Some("%d/%b/%Y:%H:%M:%S %z");
        let syslog = Parser::new(&Reading { format: FormatName::Syslog, time_format, ..Reading::default() });
        parsers.push(syslog.expect("a right format"));
        parsers
    });
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((first, line)) = data.split_first() else { return };
    let limits = Limits { max_line: 4096, max_field: 256, truncate: first & 128 != 0 };
    let mut scratch = Vec::new();
    PARSERS.with_borrow_mut(|parsers| {
        let count = parsers.len();
        let parser = &mut parsers[usize::from(first & 127) % count];
        let line = if parser.repairs() { repair(line, &mut scratch).0 } else { line };
        let now = Timestamp::new(1_800_000_000, 0);
        for cut in [false, true] {
            let _ = parser.parse(line, &limits, cut, now, &mut Event::default());
        }
    });
});
