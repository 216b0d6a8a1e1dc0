//! Stack traces as programs write them: which lines are one record.

use jumpseat_source::follow::lines::{Join, Piece, Splitter};
use jumpseat_source::follow::{Multiline, Stack};

/// Records of a text in which a line `====` stands between them, and of the same text without these lines.
fn check(multiline: &Multiline, text: &str) {
    let join = Join::new(multiline).expect("a right table");
    let expected = text.split("====\n").map(|record| record.trim_matches('\n').trim_end());
    let expected: Vec<&str> = expected.collect();
    let input = text.replace("====\n", "");
    let (mut splitter, mut at, mut found) = (Splitter::default(), 0, Vec::new());
    while let Some(piece) = splitter.last_record(input.as_bytes(), &mut at, &join, None) {
        match piece {
            Piece::Line(record) | Piece::Record(record) => {
                found.push(std::str::from_utf8(record).expect("as it came"));
            }
            Piece::Cut(_) | Piece::Part(_) => panic!("within the limits: {piece:?}"),
        }
    }
    found.retain(|record| !record.trim().is_empty());
    assert_eq!(found, expected);
}

fn preset(stack: Stack) -> Multiline {
    Multiline { preset: Some(stack), ..Multiline::default() }
}

const JAVA: &str = r#"
2026-11-22 22:30:01,123 INFO  [main] c.e.App - started
====
2026-11-22 22:30:02,001 ERROR [http-1] c.e.Orders - order 7 failed
java.lang.IllegalStateException: no stock
	at com.example.Stock.take(Stock.java:41)
	at com.example.Orders.place(Orders.java:17)
	... 12 common frames omitted
Caused by: java.sql.SQLException: closed
	at org.h2.Driver.run(Driver.java:99)
	... 3 more
	Suppressed: java.io.IOException: late
		at com.example.Close.run(Close.java:3)
====
2026-11-22 22:30:03,000 WARN  [main] c.e.App - next
====
Exception in thread "main" java.lang.NullPointerException: Cannot invoke "String.length()"
	at com.example.Main.main(Main.java:5)
====
java.lang.OutOfMemoryError: Java heap space
	at java.base/java.util.Arrays.copyOf(Arrays.java:3537)
====
org.example.Übel$InnerException
    at org.example.A.b(A.java)
====
see java.lang.String for more
"#;

const PYTHON: &str = r#"
2026-11-22 22:30:01,123 - app - INFO - started
====
2026-11-22 22:30:02,001 - app - ERROR - order 7 failed
Traceback (most recent call last):
  File "/srv/app.py", line 4, in place
    take(7)
    ~~~~^^^
  File "/srv/app.py", line 9, in take
    raise KeyError(name)
KeyError: 'apples'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/srv/app.py", line 6, in place
    raise Empty from None
app.errors.Empty: nothing is left
====
Traceback (most recent call last):
  File "<stdin>", line 1, in <module>
KeyboardInterrupt
====
Traceback (most recent call last):
  File "x.py", line 3, in f
    g()
ValueError: bad

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "x.py", line 5, in <module>
    f()
RuntimeError: worse
====
2026-11-22 22:30:03,000 - app - CRITICAL - several
  + Exception Group Traceback (most recent call last):
  |   File "x.py", line 1, in <module>
  | ExceptionGroup: two (2 sub-exceptions)
  +-+---------------- 1 ----------------
    | ValueError: 1
====
plain
"#;

const GO: &str = r#"
2026/11/22 22:30:01 started
====
panic: runtime error: invalid memory address or nil pointer dereference
[signal SIGSEGV: segmentation violation code=0x1 addr=0x0 pc=0x4a1b2c]

goroutine 1 [running]:
main.(*Stock).Take(0x0, {0x4b2, 0x6})
	/srv/main.go:12 +0x1d
main.main()
	/srv/main.go:7 +0x25
exit status 2
====
2026/11/22 22:30:02 http: panic serving 10.0.0.1:4711: out of stock
goroutine 34 [running]:
net/http.(*conn).serve.func1()
	/usr/lib/go/src/net/http/server.go:1868 +0xb9
panic({0x64a1, 0x72b0})
	/usr/lib/go/src/runtime/panic.go:920 +0x270
created by net/http.(*Server).Serve in goroutine 1
	/usr/lib/go/src/net/http/server.go:3086 +0x5cb
====
2026/11/22 22:30:03 next (and a call())
====
fatal error: all goroutines are asleep - deadlock!

goroutine 1 [chan receive]:
main.main()
	/srv/main.go:4 +0x2d

goroutine 5 [select, 3 minutes]:
main.wait(...)
	/srv/main.go:9
====
panic: one
====
panic: two

goroutine 7 [running]:
main.f[...](0x1)
	/srv/main.go:4 +0x2d
====
goroutines are cheap
"#;

const RUST: &str = r#"
2026-11-22T22:30:01Z  INFO app: started
====
thread 'main' panicked at src/main.rs:4:5:
index out of bounds: the len is 3 but the index is 7
stack backtrace:
   0: rust_begin_unwind
             at /rustc/abc/library/std/src/panicking.rs:652:5
   1: core::panicking::panic_fmt
note: Some details are omitted, run with `RUST_BACKTRACE=full` for a verbose backtrace.
====
thread 'tokio-runtime-worker' (4711) panicked at src/lib.rs:9:1:
assertion `left == right` failed
  left: 1
 right: 2
note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace
====
thread 'main' panicked at 'old style', src/main.rs:2:5
note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace
====
Error: cannot read the configuration

Caused by:
    0: cannot open app.toml
    1: No such file or directory (os error 2)

Stack backtrace:
   0: anyhow::error
====
2026-11-22T22:30:03Z  INFO app: thread 'main' is what it is called
"#;

#[test]
fn stack_traces_of_java() {
    check(&preset(Stack::Java), JAVA);
}

#[test]
fn stack_traces_of_python() {
    check(&preset(Stack::Python), PYTHON);
}

#[test]
fn stack_traces_of_go() {
    check(&preset(Stack::Go), GO);
}

#[test]
fn stack_traces_of_rust() {
    check(&preset(Stack::Rust), RUST);
}

#[test]
fn records_that_begin_as_an_expression_says() {
    let start = Multiline { start: Some(r"^\d{4}-\d\d-\d\d ".into()), ..Multiline::default() };
    check(&start, "2026-11-22 a\nb\n\n c\n====\n2026-11-22 d\n====\n2026-11-23 e\n2026-11-2x\n");
    check(&start, "whatever came before\nand more\n====\n2026-11-22 a\n");
    // All presets leave lines without a trace alone.
    for stack in [Stack::Java, Stack::Python, Stack::Go, Stack::Rust] {
        check(&preset(stack), "one\n====\ntwo: 2\n====\n\nthree (3)\n====\n[four]\n  goes on\n");
    }
}

/// What each preset has to look at in each line: a line of its first form, over and over, and lines without end.
#[test]
fn no_text_makes_a_record_that_is_longer_than_allowed() {
    let multiline = |stack| Multiline { max_lines: 50, max_bytes: 4096, ..preset(stack) };
    let lines: [&[u8]; 6] = [
        b"Caused by: x\n",
        b"Traceback (most recent call last):\n",
        b"goroutine 1 [x]:\n",
        b"stack backtrace:\n",
        b" \n",
        b" at (((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((\n",
    ];
    for stack in [Stack::Java, Stack::Python, Stack::Go, Stack::Rust] {
        let join = Join::new(&multiline(stack)).expect("a right table");
        for line in lines {
            let input = [b"first\n".to_vec(), line.repeat(20_000)].concat();
            let (mut splitter, mut at, mut records) = (Splitter::default(), 0, 0);
            while let Some(piece) = splitter.next_record(&input, &mut at, &join, None) {
                let (Piece::Line(record) | Piece::Record(record) | Piece::Part(record) | Piece::Cut(record)) =
                    piece;
                assert!(record.len() <= 4096 && record.iter().filter(|byte| **byte == b'\n').count() < 50);
                records += 1;
            }
            // Each byte was consumed in order, but for those of a record that may go on.
            assert!(input.len() - at <= 4097 && records >= 50, "{stack:?}: {records}");
        }
    }
}
