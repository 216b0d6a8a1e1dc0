//! The time and the severity at the beginning of a line of any form.
//!
//! **Cost:** a line that has none is given up after its first word, which takes some ten nanoseconds; nothing is looked for
//! beyond the first hundred bytes or so.

use super::when::When;
use super::{klog, level, syslog};
use jumpseat_wire::severity;
use memchr::memchr;
use pcp_model::Timestamp;

/// How far to look for the bracket with the time of a request.
const ADDRESSES: usize = 128;

/// What a line begins with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Head {
    /// When it was written.
    pub time: Option<Timestamp>,
    /// How grave it is.
    pub severity: Option<&'static str>,
}

/// Looks at the beginning of a line.
pub(super) fn read(line: &[u8], when: &When, now: Timestamp) -> Head {
    let reader = Reader { line, when, now };
    match line.first() {
        Some(b'0'..=b'9') => reader.dated(0).or_else(|| reader.request()),
        Some(b'[') => reader.dated(1).or_else(|| reader.graded()),
        Some(b'<') => reader.prioritized(),
        Some(byte) if byte.is_ascii_alphabetic() => reader.lettered(),
        // The other addresses of version 6.
        Some(b':') => reader.request(),
        _ => None,
    }
    .unwrap_or_default()
}

struct Reader<'a> {
    line: &'a [u8],
    when: &'a When,
    now: Timestamp,
}

impl Reader<'_> {
    fn rest(&self, at: usize) -> &[u8] {
        self.line.get(at..).unwrap_or_default()
    }

    /// A time, and where it ends.
    fn time(&self, at: usize) -> Option<(Timestamp, usize)> {
        let (time, length) = self.when.leading(self.rest(at), self.now)?;
        Some((time, at + length))
    }

    /// A time, then the severity.
    fn dated(&self, at: usize) -> Option<Head> {
        let (time, end) = self.time(at)?;
        Some(Head { time: Some(time), severity: level::find(self.rest(end)) })
    }

    /// A letter: of klog, of Ruby's logger, of a month or a weekday, of a severity, or of a host.
    fn lettered(&self) -> Option<Head> {
        if !self.when.is_told()
            && let Some((severity, parts, _)) = klog::header(self.line)
        {
            return Some(Head { time: self.when.assemble(&parts, self.now), severity: Some(severity) });
        }
        if let [_, b',', b' ', b'[', ..] = self.line {
            return self.dated(4);
        }
        self.dated(0).or_else(|| self.graded()).or_else(|| self.request())
    }

    /// The severity, then perhaps the time.
    fn graded(&self) -> Option<Head> {
        let (severity, end) = level::first(self.line)?;
        let gap = self.rest(end).iter().take(8).position(u8::is_ascii_alphanumeric);
        let time = gap.and_then(|gap| self.time(end + gap));
        Some(Head { time: time.map(|(time, _)| time), severity: Some(severity) })
    }

    /// The priority of syslog, then the time.
    fn prioritized(&self) -> Option<Head> {
        let (priority, end) = syslog::priority(self.line)?;
        let at = if self.rest(end).starts_with(b"1 ") { end + 2 } else { end };
        let severity = severity::from_number(i64::from(priority % 8));
        Some(Head { time: self.time(at).map(|(time, _)| time), severity })
    }

    /// `10.0.0.1 - - [22/Nov/2026:22:30:01 +0000] "GET / HTTP/1.1"`: what follows are the client's words.
    fn request(&self) -> Option<Head> {
        let bracket = memchr(b'[', &self.line[..self.line.len().min(ADDRESSES)])?;
        match self.rest(bracket + 1) {
            [b'0'..=b'9', b'0'..=b'9', b'/', ..] => {
                let (time, _) = self.time(bracket + 1)?;
                Some(Head { time: Some(time), severity: None })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-22T23:00:00Z
    const NOW: Timestamp = Timestamp { sec: 1_795_388_400, nsec: 0 };

    fn head(line: &str) -> (Option<String>, Option<&'static str>) {
        let when = When::new(None).and_then(|when| when.in_zone("UTC")).expect("there is UTC");
        let Head { time, severity } = read(line.as_bytes(), &when, NOW);
        let shown = |time: Timestamp| {
            let time = jiff::Timestamp::new(time.sec, time.nsec as i32).expect("in range");
            time.to_string()
        };
        (time.map(shown), severity)
    }

    #[track_caller]
    fn check(lines: &[(&str, &str, &str)]) {
        for (line, time, severity) in lines {
            let found = head(line);
            let expected = (
                (!time.is_empty())
                    .then(|| if time.len() == 8 { format!("2026-11-22T{time}Z") } else { (*time).into() }),
                (!severity.is_empty()).then_some(*severity),
            );
            assert_eq!((found.0, found.1), expected, "{line}");
        }
    }

    #[test]
    fn dates_as_in_iso_8601() {
        check(&[
            ("2026-11-22T22:30:01Z INFO app: started", "22:30:01", "info"),
            ("2026-11-22T22:30:01.123456789Z stdout F text", "2026-11-22T22:30:01.123456789Z", ""),
            ("2026-11-22T23:30:01.5+01:00 host app: text", "2026-11-22T22:30:01.5Z", ""),
            ("2026-11-22 22:30:01 +0000 [warn]: ruby", "22:30:01", "warning"),
            ("2026-11-22 17:30:01-05 postgres", "22:30:01", ""),
            ("2026-11-22 22:30:01.250 UTC [77] LOG:  checkpoint starting", "2026-11-22T22:30:01.25Z", "info"),
            ("2026-11-22 22:30:01.250 CET [77] FATAL:  no", "2026-11-22T22:30:01.25Z", "critical"),
            (
                "2026-11-22T22:30:01.000001Z 0 [Warning] [MY-010068] [Server] text",
                "2026-11-22T22:30:01.000001Z",
                "warning",
            ),
            ("[2026-11-22 22:30:01] local.ERROR: text", "22:30:01", ""),
            ("[2026-11-22T22:30:01Z WARN  app::net] text", "22:30:01", "warning"),
            ("[2026-11-22 22:30:01.123] [app] [info] spdlog", "2026-11-22T22:30:01.123Z", "info"),
            ("2026-11-22T22:30:01.123Z\twarn\tapp/main.go:7\tzap", "2026-11-22T22:30:01.123Z", "warning"),
        ]);
    }

    #[test]
    fn python_and_log4j() {
        check(&[
            ("2026-11-22 22:30:01,123 ERROR text", "2026-11-22T22:30:01.123Z", "error"),
            ("2026-11-22 22:30:01,123 - app.db - WARNING - slow", "2026-11-22T22:30:01.123Z", "warning"),
            ("ERROR:root:text", "", "error"),
            ("WARNING:py.warnings:text", "", "warning"),
            ("[2026-11-22 22:30:01,123: INFO/MainProcess] celery", "2026-11-22T22:30:01.123Z", "info"),
            ("CRITICAL 2026-11-22 22:30:01,123 app 7 text", "2026-11-22T22:30:01.123Z", "critical"),
            ("2026-11-22 22:30:01,123 [main] DEBUG c.e.App - text", "2026-11-22T22:30:01.123Z", "debug"),
            (
                "2026-11-22T22:30:01,123 TRACE [http-nio-8080-exec-1] c.e.App: x",
                "2026-11-22T22:30:01.123Z",
                "trace",
            ),
            ("22 Nov 2026 22:30:01,123 FATAL text", "2026-11-22T22:30:01.123Z", "critical"),
            ("INFO  [2026-11-22 22:30:01,123] org.eclipse.jetty: text", "2026-11-22T22:30:01.123Z", "info"),
            ("22:30:01.123 [main] WARN c.e.App - no date", "", ""),
            ("[INFO] BUILD SUCCESS", "", "info"),
            ("SEVERE: Catalina", "", "error"),
            ("E, [2026-11-22T22:30:01.123456 #77] ERROR -- : ruby", "2026-11-22T22:30:01.123456Z", "error"),
        ]);
    }

    #[test]
    fn syslog_lines() {
        check(&[
            ("Nov 22 22:30:01 host app[77]: text", "22:30:01", ""),
            ("Nov  2 22:30:01.5 host kernel: [  1.5] text", "2026-11-02T22:30:01.5Z", ""),
            ("Dec 31 23:59:59 host app: of last year", "2025-12-31T23:59:59Z", ""),
            ("<34>Nov 22 22:30:01 host su: text", "22:30:01", "critical"),
            (
                "<165>1 2026-11-22T22:30:01.003Z host app - ID47 - ERROR is not it",
                "2026-11-22T22:30:01.003Z",
                "notice",
            ),
            ("<13>text only", "", "notice"),
            ("<999>no priority", "", ""),
            ("Nov 22 22:30:01 host sshd[7]: error: kex", "22:30:01", ""),
            ("Nov 22 2026 22:30:01: %ASA-6-302013: Built", "22:30:01", ""),
            ("Nov 32 22:30:01 host no day", "", ""),
        ]);
    }

    #[test]
    fn web_servers_and_klog() {
        check(&[
            ("2026/11/22 22:30:01 [error] 31#31: *9 open() failed", "22:30:01", "error"),
            ("2026/11/22 22:30:01 [notice] 1#1: start worker processes", "22:30:01", "notice"),
            ("10.0.0.1 - - [22/Nov/2026:22:30:01 +0000] \"GET /ERROR HTTP/1.1\" 200 5", "22:30:01", ""),
            ("::1 - anna [22/Nov/2026:23:30:01 +0100] \"GET / HTTP/1.1\" 200 5", "22:30:01", ""),
            ("fe80::1 - - [22/Nov/2026:22:30:01 +0000] \"\" 408 -", "22:30:01", ""),
            ("www.example.com:443 10.0.0.1 - - [22/Nov/2026:22:30:01 +0000] \"GET /\" 200 5", "22:30:01", ""),
            (
                "[Sun Nov 22 22:30:01.123456 2026] [core:error] [pid 7] text",
                "2026-11-22T22:30:01.123456Z",
                "error",
            ),
            ("[Sun Nov 22 22:30:01 2026] [warn] old", "22:30:01", "warning"),
            ("I1122 22:30:01.123456       1 main.go:7] text", "2026-11-22T22:30:01.123456Z", "info"),
            ("E20261122 22:30:01.5 77 f.cc:12] glog", "2026-11-22T22:30:01.5Z", "error"),
            ("F0229 22:30:01.5 77 f.go:12] no such day", "", "critical"),
            ("2026/11/22 22:30:01.000007 main.go:7: of Go", "2026-11-22T22:30:01.000007Z", ""),
            ("22-Nov-2026 22:30:01.123 general: warning: bind", "2026-11-22T22:30:01.123Z", ""),
            ("[22-Nov-2026 22:30:01 UTC] PHP Fatal error: x", "22:30:01", ""),
        ]);
    }

    #[test]
    fn lines_that_have_neither() {
        for line in [
            "",
            "a",
            "an error has come up",
            "error in line 7",
            "no ERROR here",
            "Information about 2026-11-22",
            "2026",
            "2026-11-22",
            "2026-11-22 22:30",
            "2026-11-22 22:30:01x",
            "2026-13-22 22:30:01",
            "2026-11-22 24:30:01",
            "\t2026-11-22 22:30:01 indented",
            "1795388400 seconds",
            "[main] text",
            "[] x",
            "I1122 at noon",
            "Sunday",
            "Nov",
            "{\"level\":\"error\"}",
            "10.0.0.1 [x] [22/Nov/2026:22:30:01 +0000] is behind another bracket",
            "\u{fffd}\u{fffd}",
        ] {
            assert_eq!(head(line), (None, None), "{line}");
        }
        // Words of sentences behind a time.
        for text in ["an error came up", "The Error class", "errors: 5", "no-ERROR-here", "x.ERROR.y"] {
            assert_eq!(head(&format!("2026-11-22 22:30:01 {text}")).1, None, "{text}");
        }
    }
}
