//! inotify, which makes looking sooner; what it does not tell, the next look finds.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::Path;

use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, WatchDescriptor};
use rustc_hash::FxHashMap;

/// Most reads of notifications at a time; the rest comes with the next.
const READS: usize = 16;

/// What notifications ask for.
#[derive(Debug, Default)]
pub(super) struct News {
    /// Files, by their number, that may have more to read.
    pub files: Vec<usize>,
    /// Names may have changed: look at all of them.
    pub names: bool,
}

/// Watches on files and directories.
#[derive(Debug)]
pub(super) struct Watcher {
    /// None where the system has no more of them.
    inotify: Option<Inotify>,
    /// Files by their watch: several tables may follow one.
    files: FxHashMap<WatchDescriptor, Vec<usize>>,
    told: bool,
}

impl Watcher {
    /// Without any watch yet.
    pub(super) fn new() -> Watcher {
        let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)
            .inspect_err(|error| tracing::warn!("no inotify ({error}): files are looked at once a second"))
            .ok();
        Watcher { inotify, files: FxHashMap::default(), told: false }
    }

    /// What to poll.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.inotify.as_ref().map(AsFd::as_fd)
    }

    /// Watches an open file, known by a number, whatever its name is by now.
    pub(super) fn file(&mut self, file: &File, number: usize) {
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let flags = AddWatchFlags::IN_MODIFY | AddWatchFlags::IN_MOVE_SELF | AddWatchFlags::IN_ATTRIB;
        if let Some(watch) = self.add(Path::new(&path), flags) {
            self.files.entry(watch).or_default().push(number);
        }
    }

    /// Watches a directory for new names. Doing it again is cheap, and right when there is another one at the path.
    pub(super) fn directory(&mut self, path: &Path) {
        let flags = AddWatchFlags::IN_CREATE
            | AddWatchFlags::IN_MOVE
            | AddWatchFlags::IN_DELETE
            | AddWatchFlags::IN_DELETE_SELF
            | AddWatchFlags::IN_MOVE_SELF
            | AddWatchFlags::IN_ONLYDIR;
        self.add(path, flags);
    }

    /// Ends the watch of a file, if no other number needs it.
    pub(super) fn forget(&mut self, number: usize) {
        let Some(inotify) = &self.inotify else { return };
        self.files.retain(|watch, numbers| {
            numbers.retain(|known| *known != number);
            if numbers.is_empty() {
                // It may have ended by itself.
                let _ = inotify.rm_watch(*watch);
            }
            !numbers.is_empty()
        });
    }

    /// What has happened since the last time.
    pub(super) fn read(&mut self) -> News {
        let mut news = News::default();
        let Some(inotify) = &self.inotify else { return news };
        for _ in 0..READS {
            let events = match inotify.read_events() {
                Ok(events) => events,
                Err(Errno::EAGAIN | Errno::EINTR) => break,
                Err(error) => {
                    tracing::warn!("inotify ends ({error}): files are looked at once a second");
                    self.inotify = None;
                    break;
                }
            };
            for event in events {
                match self.files.get(&event.wd) {
                    Some(numbers) if event.mask == AddWatchFlags::IN_MODIFY => {
                        news.files.extend_from_slice(numbers);
                    }
                    // A name, a link, a directory, or more than the kernel could note.
                    _ => news.names = true,
                }
            }
        }
        news
    }

    fn add(&mut self, path: &Path, flags: AddWatchFlags) -> Option<WatchDescriptor> {
        let added = self.inotify.as_ref()?.add_watch(path, flags);
        match added {
            Ok(watch) => Some(watch),
            // It is not there yet, or may not be read: looking will tell.
            Err(Errno::ENOENT | Errno::ENOTDIR | Errno::EACCES) => None,
            Err(error) => {
                if !std::mem::replace(&mut self.told, true) {
                    let path = path.display();
                    tracing::warn!("{path}: no inotify watch ({error}): looked at once a second");
                }
                None
            }
        }
    }
}
