//! What a confined process cannot do, tried by one.
//!
//! The measures cannot be taken back, so each attempt is a process of its own: this program again, told what to try.

use std::fs::{self, File};
use std::io;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

use jumpseat_confine::{Calls, Capability, Confinement, Files, confine};

const TRY: &str = "JUMPSEAT_CONFINE_TRY";
const DIR: &str = "JUMPSEAT_CONFINE_DIR";

/// Who is confined, and how.
fn confinement(name: &str, dir: &Path) -> Confinement<'static> {
    let write =
        |programs| Files::WriteBeneath { places: vec![dir.join("own"), "/dev/null".into()], programs };
    match name {
        "agent" => Confinement { capabilities: &[], calls: Calls::Agent, files: write(false) },
        "programs" => Confinement { capabilities: &[], calls: Calls::AgentWithPrograms, files: write(true) },
        "helper" => {
            Confinement { capabilities: &[], calls: Calls::Helper, files: Files::Only(vec![dir.join("own")]) }
        }
        "reader" => Confinement {
            capabilities: &[Capability::CAP_DAC_READ_SEARCH],
            calls: Calls::Agent,
            files: write(false),
        },
        other => panic!("nobody is called {other}"),
    }
}

/// One thing to try. `Err` is what the system says.
fn attempt(what: &str, dir: &Path) -> io::Result<()> {
    match what {
        "read another's file" => fs::read("/etc/hostname").map(drop),
        "read a secret" => fs::read(dir.join("secret")).map(drop),
        "write its own file" => {
            fs::write(dir.join("own/new"), "x").and_then(|()| fs::remove_file(dir.join("own/new")))
        }
        "write another's file" => fs::write(dir.join("others"), "x"),
        "make a file" => File::create(dir.join("new")).map(drop),
        "remove a file" => fs::remove_file(dir.join("others")),
        "rename its file away" => fs::rename(dir.join("own/file"), dir.join("file")),
        "run a program" => Command::new("/bin/true").status().map(drop),
        "start a thread" => {
            std::thread::Builder::new().spawn(|| ()).map(|thread| thread.join().expect("it ends"))
        }
        "listen over TCP" => TcpListener::bind("127.0.0.1:0").map(drop),
        "make a socket" => UnixListener::bind(dir.join("own/socket")).map(drop),
        "make a socket elsewhere" => UnixListener::bind(dir.join("socket")).map(drop),
        "mount" => {
            nix::mount::mount(Some("x"), dir, Some("tmpfs"), nix::mount::MsFlags::empty(), None::<&str>)
                .map_err(io::Error::from)
        }
        "open packets" => nix::sys::socket::socket(
            nix::sys::socket::AddressFamily::Packet,
            nix::sys::socket::SockType::Raw,
            nix::sys::socket::SockFlag::empty(),
            None,
        )
        .map(drop)
        .map_err(io::Error::from),
        "become root by a file" => {
            // What `true` is with the set-user-id bit, it is not here: who calls it stays who he is.
            let output = Command::new(dir.join("whoami")).arg("-u").output()?;
            match String::from_utf8_lossy(&output.stdout).trim() {
                "0" => Ok(()),
                other => Err(io::Error::other(format!("still {other}"))),
            }
        }
        other => panic!("nobody knows how to {other}"),
    }
}

/// What the process says that this one starts.
#[test]
fn attempts() {
    let (Some(attempts), Some(dir)) = (std::env::var_os(TRY), std::env::var_os(DIR)) else { return };
    let attempts = attempts.into_string().expect("words");
    let (name, attempts) = attempts.split_once('/').expect("who, and what");
    for measure in confine(&confinement(name, Path::new(&dir))) {
        println!("{}: {}", measure.name, measure.state.unwrap_or_else(|reason| format!("NOT: {reason}")));
    }
    for what in attempts.split(',') {
        match attempt(what, Path::new(&dir)) {
            Ok(()) => println!("could {what}"),
            Err(error) => println!("could not {what}: {error}"),
        }
    }
}

struct Tried {
    _dir: tempfile::TempDir,
    text: String,
}

impl Tried {
    #[track_caller]
    fn by(name: &str, uid: Option<u32>, attempts: &[&str]) -> Tried {
        use std::os::unix::fs::{PermissionsExt, chown};
        use std::os::unix::process::CommandExt;
        let dir = tempfile::tempdir().expect("a directory");
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("own")).expect("it is new");
        for name in ["own/file", "others", "secret"] {
            fs::write(at(name), "x").expect("it is new");
        }
        fs::set_permissions(at("secret"), fs::Permissions::from_mode(0o000)).expect("ours");
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).expect("ours");
        let program = std::env::current_exe().expect("this one");
        // Where another user can get at it.
        let (program, copied) = (at("program"), fs::copy(program, at("program")));
        copied.expect("it can be read");
        fs::copy("/usr/bin/id", at("whoami")).expect("it can be read");
        fs::set_permissions(at("whoami"), fs::Permissions::from_mode(0o4755)).expect("ours");
        let mut command = Command::new(program);
        command.args(["--exact", "attempts", "--nocapture"]);
        command.env(TRY, format!("{name}/{}", attempts.join(","))).env(DIR, dir.path());
        if let Some(uid) = uid {
            for name in ["own", "own/file", "others"] {
                chown(at(name), Some(uid), None).expect("root may");
            }
            command.uid(uid).gid(uid);
        }
        let output = command.output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
        Tried { _dir: dir, text }
    }

    #[track_caller]
    fn could(&self, what: &str) {
        assert!(self.text.contains(&format!("could {what}\n")), "{what}:\n{}", self.text);
    }

    #[track_caller]
    fn could_not(&self, what: &str) {
        assert!(self.text.contains(&format!("could not {what}: ")), "{what}:\n{}", self.text);
    }
}

const NOBODY: u32 = 65534;

#[test]
fn an_agent_serves_and_keeps_to_its_files() {
    let can =
        ["read another's file", "write its own file", "start a thread", "listen over TCP", "make a socket"];
    let cannot = [
        "write another's file",
        "make a file",
        "remove a file",
        "rename its file away",
        "make a socket elsewhere",
        "run a program",
        "mount",
        "open packets",
    ];
    let all: Vec<&str> = can.into_iter().chain(cannot).collect();
    // As root it has the rights, but not the means.
    for uid in [None, Some(NOBODY)] {
        let tried = Tried::by("agent", uid, &all);
        can.iter().for_each(|what| tried.could(what));
        cannot.iter().for_each(|what| tried.could_not(what));
        assert!(!tried.text.contains("NOT: "), "this kernel has all of it: {}", tried.text);
    }
}

#[test]
fn root_without_capabilities_does_not_read_what_is_closed_to_everybody() {
    Tried::by("agent", None, &["read a secret"]).could_not("read a secret");
    // A file of mode 000 is a matter of this capability even for its owner.
    Tried::by("reader", None, &["read a secret"]).could("read a secret");
}

#[test]
fn programs_run_and_are_held_to_the_same() {
    let tried = Tried::by(
        "programs",
        Some(NOBODY),
        &["run a program", "write its own file", "write another's file", "mount", "become root by a file"],
    );
    tried.could("run a program");
    tried.could("write its own file");
    for what in ["write another's file", "mount", "become root by a file"] {
        tried.could_not(what);
    }
}

#[test]
fn a_helper_knows_its_directory_only() {
    let tried = Tried::by(
        "helper",
        None,
        &["write its own file", "read another's file", "run a program", "listen over TCP", "start a thread"],
    );
    tried.could("write its own file");
    for what in ["read another's file", "run a program", "listen over TCP", "start a thread"] {
        tried.could_not(what);
    }
}
