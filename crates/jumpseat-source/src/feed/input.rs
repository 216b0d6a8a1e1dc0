//! Reading lines of bounded length, and remembering where they were.

use std::io::{self, ErrorKind, Read};

/// Bytes of one read.
const READ_BYTES: usize = 128 * 1024;

/// Lines of a reader. What a line has beyond the limit is left out.
pub(super) struct LineReader<R> {
    reader: R,
    buffer: Vec<u8>,
    /// Where in `buffer` the next line starts, and how far it is filled.
    start: usize,
    end: usize,
    limit: usize,
    consumed: u64,
    ended: bool,
}

impl<R: Read> LineReader<R> {
    /// Lines of at most `limit` bytes.
    pub(super) fn new(reader: R, limit: usize) -> LineReader<R> {
        let buffer = vec![0; READ_BYTES];
        LineReader { reader, buffer, start: 0, end: 0, limit, consumed: 0, ended: false }
    }

    /// Bytes read and given out so far.
    pub(super) fn consumed(&self) -> u64 {
        self.consumed
    }

    /// Whether another line may be had without reading.
    pub(super) fn has_buffered(&self) -> bool {
        self.start < self.end
    }

    /// The next line, without its newline; the last one may lack it.
    pub(super) fn next(&mut self) -> io::Result<Option<&[u8]>> {
        let mut scanned = 0;
        // Bytes of the line beyond the limit, which were thrown away.
        let mut over = 0u64;
        loop {
            let rest = &self.buffer[self.start..self.end];
            if let Some(newline) = memchr::memchr(b'\n', &rest[scanned..]) {
                let len = scanned + newline;
                return Ok(Some(self.take(len, len + 1, over)));
            }
            scanned = rest.len();
            if self.ended {
                return Ok(if scanned == 0 && over == 0 {
                    None
                } else {
                    Some(self.take(scanned, scanned, over))
                });
            }
            if scanned > self.limit {
                over += (scanned - self.limit) as u64;
                self.end = self.start + self.limit;
                scanned = self.limit;
            }
            self.fill()?;
        }
    }

    fn take(&mut self, len: usize, used: usize, over: u64) -> &[u8] {
        let line = self.start..self.start + len.min(self.limit);
        self.start += used;
        self.consumed += used as u64 + over;
        &self.buffer[line]
    }

    /// Reads more behind what there is.
    fn fill(&mut self) -> io::Result<()> {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.end == self.buffer.len() {
            self.buffer.resize(self.end + READ_BYTES, 0);
        }
        loop {
            match self.reader.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.ended = true,
                Ok(read) => self.end += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            return Ok(());
        }
    }
}

/// Line numbers over all inputs, and back to each input's own.
#[derive(Debug, Default)]
pub(super) struct Position {
    line: u64,
    /// Lines before each input, and its name.
    inputs: Vec<(u64, String)>,
}

impl Position {
    /// The next input begins.
    pub(super) fn next_input(&mut self, name: &str) {
        self.inputs.push((self.line, name.to_owned()));
    }

    /// The next line.
    pub(super) fn next_line(&mut self) {
        self.line += 1;
    }

    /// The number of the current line over all inputs, from 1.
    pub(super) fn line(&self) -> u64 {
        self.line
    }

    /// The input and its own line number.
    pub(super) fn resolve(&self, line: u64) -> (String, u64) {
        match self.inputs.iter().rev().find(|(before, _)| *before < line) {
            Some((before, name)) => (name.clone(), line - before),
            None => (String::new(), line),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(bytes: &[u8], limit: usize, piece: usize) -> Vec<String> {
        struct Pieces<'a>(&'a [u8], usize);
        impl Read for Pieces<'_> {
            fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
                let size = out.len().min(self.1);
                self.0.read(&mut out[..size])
            }
        }
        let mut reader = LineReader::new(Pieces(bytes, piece), limit);
        let mut all = Vec::new();
        while let Some(line) = reader.next().expect("memory can be read") {
            all.push(String::from_utf8_lossy(line).into_owned());
        }
        assert_eq!(reader.consumed(), bytes.len() as u64);
        all
    }

    #[test]
    fn lines_come_out_whole_or_cut() {
        for piece in [1, 3, 1000] {
            assert_eq!(lines(b"", 5, piece), Vec::<String>::new());
            assert_eq!(lines(b"a\n\nbc", 5, piece), ["a", "", "bc"]);
            assert_eq!(lines(b"12345\n1234567\nx\n", 5, piece), ["12345", "12345", "x"]);
            assert_eq!(lines(b"1234567", 5, piece), ["12345"]);
        }
        let long = [vec![b'x'; 1_000_000], b"\ny".to_vec()].concat();
        assert_eq!(lines(&long, 2_000_000, 777_777).len(), 2);
    }

    #[test]
    fn positions_lead_back_to_the_input() {
        let mut position = Position::default();
        position.next_input("empty");
        position.next_input("a");
        position.next_line();
        position.next_line();
        position.next_input("b");
        position.next_line();
        assert_eq!(position.resolve(2), ("a".to_owned(), 2));
        assert_eq!(position.resolve(3), ("b".to_owned(), 1));
        assert_eq!(position.resolve(0), (String::new(), 0));
    }
}
