//! What the agent and its helper say to each other: a length and JSON; requests are bytes; descriptors go with a byte each.

use std::fs::File;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::setup::{CpuFiles, EventText, Texts};

/// Longest message: the descriptions of all events of a kernel are some 3 MB.
const MAX_MESSAGE: u32 = 64 << 20;
/// Most CPUs.
const MAX_CPUS: u32 = 8192;

/// What the agent may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// A new instance, in place of the one there may be.
    Open,
    /// The description of the event of this number.
    Search(u16),
    /// The instance's end.
    Close,
}

impl Request {
    pub(super) fn bytes(self) -> [u8; 3] {
        match self {
            Request::Open => [b'o', 0, 0],
            Request::Search(id) => {
                let [low, high] = id.to_le_bytes();
                [b's', low, high]
            }
            Request::Close => [b'c', 0, 0],
        }
    }

    /// The next request; `None` at the agent's end.
    ///
    /// # Errors
    /// The system's; `InvalidData` for what is no request.
    pub(super) fn read(stream: &mut UnixStream) -> io::Result<Option<Request>> {
        let mut bytes = [0; 3];
        match stream.read_exact(&mut bytes) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        }
        match bytes {
            [b'o', 0, 0] => Ok(Some(Request::Open)),
            [b's', low, high] => Ok(Some(Request::Search(u16::from_le_bytes([low, high])))),
            [b'c', 0, 0] => Ok(Some(Request::Close)),
            _ => Err(ErrorKind::InvalidData.into()),
        }
    }
}

/// What the helper answers.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Answer {
    /// The instance is there; its descriptors follow.
    Opened(Texts),
    /// It is not, and why.
    Refused(String),
    /// An event, if there is one.
    Event(Option<EventText>),
    /// The instance is gone.
    Closed,
}

/// Sends a message.
pub(super) fn send(stream: &mut UnixStream, message: &impl Serialize) -> io::Result<()> {
    let body = serde_json::to_vec(message)?;
    let length = u32::try_from(body.len()).map_err(|_| ErrorKind::InvalidData)?;
    stream.write_all(&length.to_le_bytes())?;
    stream.write_all(&body)
}

/// Receives a message.
pub(super) fn receive<T: DeserializeOwned>(stream: &mut UnixStream) -> io::Result<T> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length);
    if length > MAX_MESSAGE {
        return Err(ErrorKind::InvalidData.into());
    }
    let mut body = Vec::new();
    stream.take(length.into()).read_to_end(&mut body)?;
    Ok(serde_json::from_slice(&body)?)
}

/// Sends the descriptors of an instance.
pub(super) fn send_files(stream: &mut UnixStream, cpus: &[CpuFiles], switch: &File) -> io::Result<()> {
    let count = u32::try_from(cpus.len()).map_err(|_| ErrorKind::InvalidData)?;
    stream.write_all(&count.to_le_bytes())?;
    for cpu in cpus {
        stream.write_all(&cpu.number.to_le_bytes())?;
        send_two(stream, [cpu.pages.as_fd(), cpu.stats.as_fd()])?;
    }
    // Two, as everywhere: the second one is ignored.
    send_two(stream, [switch.as_fd(), switch.as_fd()])
}

/// Receives them.
pub(super) fn receive_files(mut stream: &UnixStream) -> io::Result<(Vec<CpuFiles>, File)> {
    let mut number = [0; 4];
    stream.read_exact(&mut number)?;
    let count = u32::from_le_bytes(number);
    if count > MAX_CPUS {
        return Err(ErrorKind::InvalidData.into());
    }
    let mut cpus = Vec::new();
    for _ in 0..count {
        stream.read_exact(&mut number)?;
        let [pages, stats] = receive_two(stream)?;
        cpus.push(CpuFiles { number: u32::from_le_bytes(number), pages, stats });
    }
    let [switch, _] = receive_two(stream)?;
    Ok((cpus, switch))
}

fn send_two(stream: &UnixStream, files: [BorrowedFd<'_>; 2]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(&files)) {
        return Err(ErrorKind::InvalidData.into());
    }
    match rustix::io::retry_on_intr(|| {
        sendmsg(stream, &[IoSlice::new(b"f")], &mut control, SendFlags::NOSIGNAL)
    })? {
        1 => Ok(()),
        _ => Err(ErrorKind::WriteZero.into()),
    }
}

fn receive_two(stream: &UnixStream) -> io::Result<[File; 2]> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut parts = [IoSliceMut::new(&mut byte)];
    let message =
        rustix::io::retry_on_intr(|| recvmsg(stream, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC))?;
    if message.bytes == 0 {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    let mut files: Vec<OwnedFd> = Vec::new();
    for part in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = part {
            files.extend(descriptors);
        }
    }
    // Cut short where this process may have no more of them.
    if message.flags.contains(ReturnFlags::CTRUNC) {
        return Err(io::Error::from(rustix::io::Errno::MFILE));
    }
    let files: [OwnedFd; 2] = files.try_into().map_err(|_| ErrorKind::InvalidData)?;
    Ok(files.map(File::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_what_they_were() {
        let (mut agent, mut helper) = UnixStream::pair().unwrap();
        for request in [Request::Open, Request::Search(0x1234), Request::Close] {
            agent.write_all(&request.bytes()).unwrap();
            assert_eq!(Request::read(&mut helper).unwrap(), Some(request));
        }
        agent.write_all(b"xyz").unwrap();
        assert_eq!(Request::read(&mut helper).unwrap_err().kind(), ErrorKind::InvalidData);
        // Half a request is nothing.
        agent.write_all(b"o").unwrap();
        drop(agent);
        assert_eq!(Request::read(&mut helper).unwrap(), None);
    }

    #[test]
    fn descriptors_arrive_as_files() {
        let (mut agent, helper) = UnixStream::pair().unwrap();
        let file = |text: &str| {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(text.as_bytes()).unwrap();
            file
        };
        let cpus = vec![CpuFiles { number: 7, pages: file("pages"), stats: file("stats") }];
        send_files(&mut agent, &cpus, &file("switch")).unwrap();
        let (cpus, switch) = receive_files(&helper).unwrap();
        let text = |file: &File| {
            use std::os::unix::fs::FileExt;
            let mut bytes = [0; 16];
            let read = file.read_at(&mut bytes, 0).unwrap();
            String::from_utf8_lossy(&bytes[..read]).into_owned()
        };
        assert_eq!((cpus.len(), cpus[0].number), (1, 7));
        assert_eq!(
            (text(&cpus[0].pages), text(&cpus[0].stats), text(&switch)),
            ("pages".into(), "stats".into(), "switch".into())
        );
        // A promise of descriptors that none come with.
        agent.write_all(&[1, 0, 0, 0, 0, 0, 0, 0, b'f']).unwrap();
        assert_eq!(receive_files(&helper).unwrap_err().kind(), ErrorKind::InvalidData);
        agent.write_all(&u32::MAX.to_le_bytes()).unwrap();
        assert_eq!(receive_files(&helper).unwrap_err().kind(), ErrorKind::InvalidData);
    }
}
