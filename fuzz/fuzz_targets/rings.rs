//! A file of rings with a table of chunks, and frames before its connection ends, which may have chunks read: the first bytes say how
//! long the frames are.
#![no_main]

use std::cell::RefCell;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::bounded;
use jumpseat::model::Timestamp;
use jumpseat::source::event::Limits;
use jumpseat::source::intake::{Intake, Shared};
use jumpseat::source::lanes::Lanes;
use jumpseat::source::registry::{Registry, RegistryConfig};
use jumpseat::wire::ring::{AREA, Geometry, MAGIC, SITES, TABLE, chunk, head};
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};

thread_local! {
    /// Made once, as for the target `binary`.
    static SHARED: RefCell<Shared> = RefCell::new({
        let (registry, _definitions) = Registry::open(&RegistryConfig::new(400)).expect("nothing is on disk");
        let (out, _deliveries) = bounded(1000);
        let lanes = Lanes::new(registry, out, Arc::new(|| ()), Duration::ZERO);
        Shared::new(lanes, Limits::default(), "fuzz").expect("the name is allowed")
    });
}

/// Two slots of the smallest rings, with these bytes as sites, slots' heads and rings.
fn file(chunks: u8, sites: &[u8], rings: &[u8]) -> OwnedFd {
    let geometry = Geometry { slots: 2, ring: 4096 };
    let file = memfd_create("fuzz", MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING).expect("there is memory");
    let file = File::from(file);
    file.set_len(geometry.file().expect("it is small")).expect("it is new");
    let mut words = [0; head::WORDS];
    (words[head::MAGIC], words[head::SLOTS], words[head::RING]) = (MAGIC, geometry.slots, geometry.ring);
    words[head::SITES] = sites.len() as u64;
    // The table overlaps with the rest of the input: up to four chunks.
    words[head::NEXT] = u64::from(chunks % 5);
    let put = |bytes: &[u8], at| file.write_all_at(bytes, at).expect("there is room");
    put(&words.map(u64::to_ne_bytes).concat(), 0);
    put(&sites[..sites.len().min(SITES as usize)], AREA);
    for (number, bytes) in (0..).zip(rings.chunks(64).take(4)) {
        put(bytes, TABLE + number * 8 * chunk::ENTRY as u64);
    }
    for (slot, bytes) in (1..).zip(rings.chunks(96 + 4096).take(2)) {
        let (head, ring) = bytes.split_at(bytes.len().min(96));
        put(head, geometry.slot(slot));
        put(ring, geometry.slot(slot) + AREA);
    }
    let seals = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW;
    fcntl(&file, FcntlArg::F_ADD_SEALS(seals)).expect("it is allowed");
    file.into()
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((&[frames, chunks, sites], rest)) = data.split_first_chunk() else { return };
    let Some((frames, rest)) = rest.split_at_checked(frames.into()) else { return };
    let Some((sites, rings)) = rest.split_at_checked(sites.into()) else { return };
    SHARED.with_borrow_mut(|shared| {
        let mut intake = Intake::new(1, None, shared);
        let arrived = Timestamp::new(1_800_000_000, 0);
        let (mut replies, mut input) = (Vec::new(), jumpseat::wire::HELLO.to_vec());
        chunk::put_rings(&mut input, 1);
        input.extend_from_slice(frames);
        intake.descriptor(file(chunks, sites, rings), shared);
        let mut rest = &input[..];
        loop {
            rest = &rest[intake.feed(rest, arrived, shared, &mut replies)..];
            if !intake.is_held() {
                break;
            }
        }
        if intake.inherits(shared) {
            while intake.take_over(arrived, shared) {}
        }
        intake.finish(&[], arrived, shared, &mut replies);
    });
});
