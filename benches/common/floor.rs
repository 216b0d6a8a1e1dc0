//! Floors: what the kernel takes of a job alone, when nothing is done with the bytes.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use jumpseat::model::{Pmid, Profile};
use jumpseat::pdu::{CredFlags, Creds, Fetch, Pdu, ProfilePdu, kind};

use super::clock::{children_cpu, thread_cpu};

/// Bytes moved at a time: as many as readers of archives take.
const PIECE: usize = 256 << 10;
/// Bytes of a PDU's header.
const HEADER: usize = 12;

/// Processor time of reading the data of an archive of one volume, in this thread.
pub(crate) fn read_archive(base: &str) -> Duration {
    let (mut file, mut piece) = (volume(base), vec![0; PIECE]);
    let before = thread_cpu();
    while file.read(&mut piece).expect("it can be read") > 0 {}
    thread_cpu() - before
}

/// Of reading them and writing them to another file.
pub(crate) fn copy_archive(base: &str, to: &Path) -> Duration {
    let (mut file, mut piece) = (volume(base), vec![0; PIECE]);
    let mut copy = File::create(to).expect("the directory is ours");
    let before = thread_cpu();
    loop {
        match file.read(&mut piece).expect("it can be read") {
            0 => break,
            len => copy.write_all(&piece[..len]).expect("the disk has room"),
        }
    }
    let took = thread_cpu() - before;
    std::fs::remove_file(to).expect("it is ours");
    took
}

fn volume(base: &str) -> File {
    File::open(format!("{base}.0")).expect("it was written before")
}

/// Processor time of a program that starts, says its version, and ends.
pub(crate) fn start(program: &str, args: &[&str]) -> Duration {
    let before = children_cpu();
    let status = Command::new(program).args(args).stdout(Stdio::null()).status();
    assert!(status.is_ok_and(|status| status.success()), "{program} {args:?}");
    children_cpu() - before
}

/// A client that sends pmcd the bytes of a fetch that are there already, and reads those of the answer.
pub(crate) struct Bytes<S> {
    pmcd: S,
    fetch: Vec<u8>,
    answer: Vec<u8>,
}

impl<S: Read + Write> Bytes<S> {
    /// `pmcd`: newly connected.
    pub(crate) fn fetching(mut pmcd: S, pmids: Vec<Pmid>) -> Bytes<S> {
        let mut answer = vec![0; 1 << 20];
        read_pdu(&mut pmcd, &mut answer);
        let profile = ProfilePdu { ctxid: 0, profile: Profile::default() };
        for pdu in [Pdu::Creds(Creds::version(CredFlags::default())), Pdu::Profile(profile)] {
            pmcd.write_all(&pdu.to_bytes(0).expect("a small PDU")).expect("pmcd reads");
        }
        let fetch = Pdu::Fetch(Fetch { ctxid: 0, pmids }).to_bytes(0).expect("a small PDU").to_vec();
        Bytes { pmcd, fetch, answer }
    }

    /// One fetch: the answer.
    pub(crate) fn fetch(&mut self) -> &[u8] {
        self.pmcd.write_all(&self.fetch).expect("pmcd reads");
        let len = read_pdu(&mut self.pmcd, &mut self.answer);
        let code = i32::from_be_bytes(*self.answer[HEADER..].first_chunk().expect("it is longer"));
        assert_eq!(self.answer[4..8], kind::RESULT.to_be_bytes(), "no values, but error {code}");
        &self.answer[..len]
    }
}

/// Reads as much as there is, until it is a PDU. What pmcd tells in front of an answer, that names or labels have changed, is no answer.
fn read_pdu(pmcd: &mut impl Read, into: &mut [u8]) -> usize {
    let mut have = 0;
    loop {
        let word = |at: usize| into[..have].get(at..)?.first_chunk().map(|word| i32::from_be_bytes(*word));
        match (word(0).map(|len| len as usize), word(4), word(HEADER)) {
            (Some(len), Some(kind), Some(code)) if len <= have => {
                if kind as u32 != kind::ERROR || code <= 0 {
                    return len;
                }
                into.copy_within(len..have, 0);
                have -= len;
            }
            _ => {
                let more = pmcd.read(&mut into[have..]).expect("pmcd answers");
                assert!(more > 0, "pmcd is there, and its answer fits");
                have += more;
            }
        }
    }
}
