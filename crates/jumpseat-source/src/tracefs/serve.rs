//! The helper's own side: a process that does nothing but open the files of one source.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use jumpseat_confine::{Calls, Capability, Confinement, Files, confine};

use super::TracefsError;
use super::config::{KernelConfig, ProbeSpec};
use super::mount::Tracefs;
use super::setup::{Opened, Setup};
use super::wire::{self, Answer, Request};

/// Serves the agent at the other end of standard input, to the agent's end.
///
/// # Errors
/// The system's, and what the agent should not have said.
pub fn serve() -> io::Result<()> {
    let mut stream = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let config: KernelConfig = wire::receive(&mut stream)?;
    // Mounting takes more than being root, and it must be there to be confined to it.
    let tracefs = Tracefs::find();
    give_up(&config, tracefs.as_ref().ok());
    let mut setup: Option<Setup> = None;
    while let Some(request) = Request::read(&mut stream)? {
        match request {
            Request::Open => {
                // One at a time.
                drop(setup.take());
                match open(&tracefs, &config) {
                    Ok((made, Opened { texts, cpus, switch })) => {
                        setup = Some(made);
                        wire::send(&mut stream, &Answer::Opened(texts))?;
                        wire::send_files(&mut stream, &cpus, &switch)?;
                    }
                    Err(error) => wire::send(&mut stream, &Answer::Refused(error))?,
                }
            }
            Request::Search(id) => {
                let found = setup.as_ref().and_then(|setup| setup.search(id));
                wire::send(&mut stream, &Answer::Event(found))?;
            }
            Request::Close => {
                drop(setup.take());
                wire::send(&mut stream, &Answer::Closed)?;
            }
        }
    }
    Ok(())
}

fn open(tracefs: &Result<Tracefs, TracefsError>, config: &KernelConfig) -> Result<(Setup, Opened), String> {
    let tracefs = tracefs.as_ref().map_err(ToString::to_string)?;
    Setup::open_in(tracefs.root(), config).map_err(|error| error.to_string())
}

/// Keeps what opening files in tracefs takes, and nothing else.
fn give_up(config: &KernelConfig, tracefs: Option<&Tracefs>) {
    let mut kept = Vec::new();
    let probes = config.probes.iter().filter_map(|text| ProbeSpec::parse(text).ok());
    if probes.into_iter().any(|probe| probe.user) {
        // The kernel looks the program up with the rights of who asks, and it may be in somebody's directory.
        kept.push(Capability::CAP_DAC_READ_SEARCH);
    }
    if tracefs.is_some_and(Tracefs::is_own) {
        // To unmount it at the end.
        kept.push(Capability::CAP_SYS_ADMIN);
    }
    let root = tracefs.map(|tracefs| tracefs.root().to_owned());
    let confinement = Confinement {
        capabilities: &kept,
        calls: Calls::Helper,
        files: Files::Only(root.into_iter().collect()),
    };
    for measure in confine(&confinement) {
        if let Err(reason) = measure.state {
            tracing::warn!("the helper for the kernel's files: {}: {reason}", measure.name);
        }
    }
}
