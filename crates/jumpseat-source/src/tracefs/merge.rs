//! The pages of all CPUs as one series of events in time order.
//!
//! Each CPU's events are in order. Of several CPUs the oldest goes first; events younger than a horizon wait, as a
//! CPU may not have been read so far.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::fs::File;
use std::io::{ErrorKind, Read};

use super::page::{Entry, Layout, Lost, Walk};

/// Memory for pages of all CPUs; each has room for [`MIN_PAGES`] in any case.
const MAX_BYTES: usize = 32 << 20;
/// Most memory for the pages of one CPU.
const MAX_CPU_BYTES: usize = 1 << 20;
const MIN_PAGES: usize = 2;

/// What the series holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item<'a> {
    /// An event's record.
    Event(&'a [u8]),
    /// The CPU lost something here.
    Lost(Lost),
    /// A page, or what is left of it, makes no sense; that many bytes of it.
    Broken(usize),
}

/// How reading went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Progress {
    /// There was nothing.
    Nothing,
    /// Everything was read.
    Drained,
    /// There is more than there was room for.
    More,
}

/// The CPUs' files and what was read of them.
#[derive(Debug)]
pub struct Cpus {
    layout: Layout,
    page_bytes: usize,
    max_pages: usize,
    cpus: Vec<Cpu>,
    /// The head of each CPU that has one.
    heads: BinaryHeap<Reverse<(u64, usize)>>,
    spare: Vec<Vec<u8>>,
}

#[derive(Debug)]
struct Cpu {
    number: u32,
    file: File,
    pages: VecDeque<Page>,
    head: Head,
    /// Its file has more than there was room for.
    more: bool,
}

#[derive(Debug)]
struct Page {
    bytes: Vec<u8>,
    /// `None`: it makes no sense.
    walk: Option<Walk>,
}

/// What comes next from a CPU.
#[derive(Clone, Copy, Debug)]
enum Head {
    None,
    Event(Entry),
    Lost(Lost),
    Broken(usize),
}

impl Cpus {
    /// `files` are the `trace_pipe_raw` of the CPUs, with `O_NONBLOCK`; pages have `page_bytes`.
    pub fn new(files: Vec<(u32, File)>, layout: Layout, page_bytes: usize) -> Cpus {
        let room = (MAX_BYTES / files.len().max(1)).min(MAX_CPU_BYTES);
        let cpu =
            |(number, file)| Cpu { number, file, pages: VecDeque::new(), head: Head::None, more: false };
        Cpus {
            layout,
            page_bytes,
            max_pages: (room / page_bytes.max(1)).max(MIN_PAGES),
            cpus: files.into_iter().map(cpu).collect(),
            heads: BinaryHeap::new(),
            spare: Vec::new(),
        }
    }

    /// The files, to wait for.
    pub fn files(&self) -> impl Iterator<Item = &File> {
        self.cpus.iter().map(|cpu| &cpu.file)
    }

    /// Whether events wait for older ones.
    pub fn is_waiting(&self) -> bool {
        !self.heads.is_empty()
    }

    /// Reads what all CPUs have, as far as there is room.
    ///
    /// # Errors
    /// The first file that could not be read, with its CPU. The others have been read.
    pub fn read(&mut self) -> Result<Progress, (u32, std::io::Error)> {
        let mut progress = Progress::Nothing;
        let mut failed = None;
        for index in 0..self.cpus.len() {
            match self.read_cpu(index) {
                Ok(of_cpu) => progress = progress.max(of_cpu),
                Err(error) => failed = failed.or(Some((self.cpus[index].number, error))),
            }
        }
        failed.map_or(Ok(progress), Err)
    }

    fn read_cpu(&mut self, index: usize) -> std::io::Result<Progress> {
        let Cpus { cpus, spare, page_bytes, max_pages, layout, heads } = self;
        let cpu = &mut cpus[index];
        let mut progress = Progress::Nothing;
        cpu.more = false;
        loop {
            if cpu.pages.len() >= *max_pages {
                cpu.more = true;
                return Ok(Progress::More);
            }
            let mut bytes = spare.pop().unwrap_or_default();
            bytes.resize(*page_bytes, 0);
            let read = match cpu.file.read(&mut bytes) {
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
                Err(error) => return Err(error),
            };
            if read == 0 {
                spare.push(bytes);
                return Ok(progress);
            }
            bytes.truncate(read);
            let walk = Walk::begin(&bytes, *layout);
            let left = walk.map_or(0, |walk| walk.left());
            cpu.pages.push_back(Page { bytes, walk });
            if cpu.pages.len() == 1 {
                cpu.advance(spare);
                if let Some(time) = cpu.time() {
                    heads.push(Reverse((time, index)));
                }
            }
            progress = Progress::Drained;
            // A page that is not full was the last. One of the smallest size may end early as the next event is long.
            if left * 2 < *page_bytes && *page_bytes > 8192 {
                return Ok(progress);
            }
        }
    }

    /// Gives everything up to the horizon to `sink`, oldest first, with CPU and time. What is over the room for
    /// one CPU does not wait.
    pub fn merge(&mut self, horizon: u64, mut sink: impl FnMut(u32, u64, Item<'_>)) {
        let horizon = if self.cpus.iter().any(|cpu| cpu.more) { u64::MAX } else { horizon };
        while let Some(&Reverse((time, index))) = self.heads.peek() {
            if time > horizon {
                return;
            }
            self.heads.pop();
            let limit = self.heads.peek().map_or(horizon, |Reverse((next, _))| horizon.min(*next));
            let cpu = &mut self.cpus[index];
            while let Some(time) = cpu.time().filter(|time| *time <= limit) {
                let item = match (cpu.head, cpu.pages.front()) {
                    (Head::Event(entry), Some(page)) => {
                        Item::Event(page.bytes.get(entry.start..entry.end).unwrap_or_default())
                    }
                    (Head::Lost(lost), _) => Item::Lost(lost),
                    (Head::Broken(bytes), _) => Item::Broken(bytes),
                    _ => break,
                };
                sink(cpu.number, time, item);
                cpu.advance(&mut self.spare);
            }
            match cpu.time() {
                Some(time) => self.heads.push(Reverse((time, index))),
                // What others have may be younger than what this one still has in its file.
                None if cpu.more => return,
                None => {}
            }
        }
    }
}

impl Cpu {
    /// The time of the head.
    #[inline]
    fn time(&self) -> Option<u64> {
        match self.head {
            Head::None => None,
            Head::Event(entry) => Some(entry.time),
            Head::Lost(_) => self.pages.front().and_then(|page| page.walk).map(|walk| walk.time()),
            // As soon as possible: it has no time.
            Head::Broken(_) => Some(0),
        }
    }

    /// Goes to what comes next.
    #[inline]
    fn advance(&mut self, spare: &mut Vec<Vec<u8>>) {
        while let Some(page) = self.pages.front_mut() {
            match &mut page.walk {
                Some(walk) if walk.lost != Lost::Nothing => {
                    // The page is as yet untouched, so that its time is that of its first event.
                    self.head = Head::Lost(std::mem::replace(&mut walk.lost, Lost::Nothing));
                    return;
                }
                Some(walk) => match walk.next(&page.bytes) {
                    Some(entry) => {
                        self.head = Head::Event(entry);
                        return;
                    }
                    None if walk.left() > 0 => {
                        self.head = Head::Broken(walk.left());
                        *walk = Walk::DONE;
                        return;
                    }
                    None => {}
                },
                None => {
                    self.head = Head::Broken(page.bytes.len());
                    page.walk = Some(Walk::DONE);
                    return;
                }
            }
            if let Some(page) = self.pages.pop_front() {
                spare.push(page.bytes);
            }
        }
        self.head = Head::None;
    }
}
