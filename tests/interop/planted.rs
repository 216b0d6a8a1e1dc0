//! What somebody else has put into directories that the agent writes to, while it runs as root.
//!
//! Planting takes a second user: these tests are root, and `nobody` plants.

use crate::seat::{JUMPSEAT, PMDA, Seat};
use nix::sys::socket::{AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, connect, listen, socket};
use std::fs::{self, Permissions};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::{Process, eventually, temp_dir};

const NOBODY: u32 = 65534;
/// What only root may read or write.
const PRECIOUS: &str = "root's own";

/// A directory with room for everybody, and one for root only.
struct Ground {
    dir: tempfile::TempDir,
}

impl Ground {
    #[track_caller]
    fn new() -> Ground {
        assert!(
            nix::unistd::geteuid().is_root(),
            "these tests plant links as another user: run them as root"
        );
        let dir = temp_dir();
        let ground = Ground { dir };
        for (name, mode) in [("secret", 0o700), ("ids", 0o777), ("shared", 0o777)] {
            fs::create_dir(ground.at(name)).expect("root may");
            fs::set_permissions(ground.at(name), Permissions::from_mode(mode)).expect("root may");
        }
        fs::write(ground.at("secret/file"), PRECIOUS).expect("root may");
        ground
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Has nobody run a program.
    #[track_caller]
    fn nobody(&self, program: &str, args: &[&Path]) {
        let status = Command::new(program).args(args).uid(NOBODY).gid(NOBODY).status().expect("it runs");
        assert!(status.success(), "{program} {args:?}");
    }

    #[track_caller]
    fn link(&self, to: &str, name: &str) {
        self.nobody("ln", &[Path::new("-s"), &self.at(to), &self.at(name)]);
    }

    #[track_caller]
    fn assert_untouched(&self) {
        let file = self.at("secret/file");
        assert_eq!(fs::read_to_string(&file).expect("root may"), PRECIOUS);
        assert_eq!(fs::metadata(&file).expect("root may").uid(), 0);
        assert_eq!(fs::read_dir(self.at("secret")).expect("root may").count(), 1, "something was made");
    }

    /// Runs `jumpseat serve` in vain; what it says.
    #[track_caller]
    fn refused(&self, seat: &Seat) -> String {
        let mut command = Command::new(JUMPSEAT);
        command.args(["serve", "--listen", "127.0.0.1:0", "--config"]).arg(seat.config());
        let mut process = Process::start(&mut command, self.dir.path(), "refused");
        assert_eq!(process.wait().code(), Some(1), "{}", process.text());
        process.text()
    }
}

#[test]
fn positions_are_not_written_through_links() {
    let ground = Ground::new();
    let log = ground.at("app.log");
    let positions = "ids/jumpseat-400-positions.json";
    ground.link("secret/file", positions);
    ground.link("secret/file", &format!("{positions}.new"));
    let table = format!("[[file]]\npath = {log:?}\nfrom = \"beginning\"\n");
    let seat = Seat::in_dir(ground.dir.path(), &table);
    fs::write(&log, "a line\n").expect("root may");
    let mut endpoint = seat.serve([]);
    eventually("positions on file", || {
        let stored = fs::symlink_metadata(ground.at(positions)).ok()?;
        (stored.is_file() && fs::read_to_string(ground.at(positions)).ok()?.contains("app.log")).then_some(())
    });
    ground.assert_untouched();
    let said = endpoint.process.text();
    assert!(
        said.contains("positions.json: cannot read the positions of files: is a symbolic link"),
        "{said}"
    );
    assert!(endpoint.process.stop().success());
    ground.assert_untouched();
    let left = fs::read_dir(ground.at("ids")).expect("root may").flatten().map(|entry| entry.file_name());
    let left: Vec<_> = left.filter(|name| name.to_string_lossy().ends_with(".new")).collect();
    assert_eq!(left, ["jumpseat-400-positions.json.new"], "nothing but what was planted");
}

#[test]
fn identifiers_are_not_written_through_links_nor_into_files_of_others() {
    for (number, target) in [("1", "secret/file"), ("4", "secret/made")] {
        let ground = Ground::new();
        ground.link(target, &format!("ids/400.{number}"));
        let said = ground.refused(&Seat::in_dir(ground.dir.path(), ""));
        let expected =
            format!("ids/400.{number}: is a symbolic link; only a regular file is allowed: remove");
        assert!(said.contains(&expected), "{said}");
        ground.assert_untouched();
    }
    let ground = Ground::new();
    ground.nobody("touch", &[&ground.at("ids/400.2")]);
    let said = ground.refused(&Seat::in_dir(ground.dir.path(), ""));
    assert!(said.contains("400.2: belongs to uid 65534; only a file of root"), "{said}");
    // The directory itself, somewhere on the way.
    let ground = Ground::new();
    fs::rename(ground.at("ids"), ground.at("gone")).expect("root may");
    fs::create_dir(ground.at("secret/ids")).expect("root may");
    ground.link("secret", "shared/way");
    let seat = Seat::in_dir(ground.dir.path(), "");
    let config = fs::read_to_string(seat.config()).expect("written");
    let moved = config
        .replace(&seat.state_dir().display().to_string(), &ground.at("shared/way/ids").display().to_string());
    fs::write(seat.config(), moved).expect("root may");
    let said = ground.refused(&seat);
    assert!(said.contains("shared/way on the way is a symbolic link of uid 65534"), "{said}");
    assert_eq!(fs::read_dir(ground.at("secret/ids")).expect("root may").count(), 0, "something was made");
}

/// Starts the agent as pmcd would, with a log; it ends for want of a configuration. What it wrote.
#[track_caller]
fn start_with_log(dir: &Path, log: &Path) -> Process {
    let mut command = Command::new(PMDA);
    command.args(["-c", "missing.toml", "-l"]).arg(log).current_dir(dir);
    let mut process = Process::start(&mut command, dir, "agent");
    assert_eq!(process.wait().code(), Some(1), "{}", process.text());
    process
}

#[test]
fn a_log_is_a_new_file_whatever_was_planted() {
    let ground = Ground::new();
    let log = ground.at("shared/jumpseat.log");
    ground.link("secret/file", "shared/jumpseat.log");
    ground.link("secret/file", "shared/jumpseat.log.prev");
    start_with_log(ground.dir.path(), &log);
    let text = fs::read_to_string(&log).expect("a log");
    assert!(text.starts_with("Log for pmdajumpseat on "), "{text}");
    assert!(fs::symlink_metadata(&log).expect("a log").is_file());
    ground.assert_untouched();
}

#[test]
fn a_fifo_in_place_of_the_log_does_not_hang_the_start() {
    let ground = Ground::new();
    let log = ground.at("shared/jumpseat.log");
    ground.nobody("mkfifo", &[&log]);
    let said = start_with_log(ground.dir.path(), &log).text();
    assert!(said.contains("jumpseat.log: is a FIFO; only a regular file is allowed: remove it"), "{said}");
    assert!(fs::symlink_metadata(&log).expect("it is still there").file_type().is_fifo());
    // Devices are for those who may make them.
    start_with_log(ground.dir.path(), Path::new("/dev/null"));
    let said = start_with_log(ground.dir.path(), Path::new("/dev/stderr")).text();
    assert!(said.contains("Log for pmdajumpseat on "), "{said}");
}

/// A socket whose listener accepts nobody, with those that fill its backlog.
#[track_caller]
fn stuck(path: &Path) -> Vec<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let new = || socket(AddressFamily::Unix, SockType::Stream, flags, None).expect("a socket");
    let address = UnixAddr::new(path).expect("a short path");
    let listener = new();
    bind(listener.as_raw_fd(), &address).expect("bound");
    listen(&listener, Backlog::new(0).expect("a backlog")).expect("listens");
    let mut all = vec![listener];
    loop {
        let client = new();
        if connect(client.as_raw_fd(), &address).is_err() {
            return all;
        }
        all.push(client);
        assert!(all.len() < 1000, "the backlog never fills");
    }
}

#[test]
fn a_listener_that_accepts_nobody_does_not_hang_the_start() {
    let dir = temp_dir();
    let seat = Seat::in_dir(dir.path(), "");
    let _stuck = stuck(&seat.socket());
    let mut command = Command::new(JUMPSEAT);
    command.args(["serve", "--listen", "127.0.0.1:0", "--config"]).arg(seat.config());
    let mut serve = Process::start(&mut command, dir.path(), "serve");
    assert_eq!(serve.wait().code(), Some(1), "{}", serve.text());
    assert!(serve.text().contains("another process listens there"), "{}", serve.text());
    let mut command = Command::new(PMDA);
    command.arg("-c").arg(seat.config()).arg("-u").arg(seat.agent_socket()).current_dir(dir.path());
    let mut agent = Process::start(&mut command, dir.path(), "agent");
    assert_eq!(agent.wait().code(), Some(1), "{}", agent.text());
    assert!(agent.text().contains("not started: the agent that serves"), "{}", agent.text());
}
