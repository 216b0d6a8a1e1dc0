//! What agents, keepers and those at a keeper's door say to each other: a byte, a length, a text, and perhaps a listener.

use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read as _};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

/// Of what is said at the door.
pub(super) const VERSION: u32 = 1;

/// Most listeners: a configuration has some ten.
pub(super) const MAX_HELD: usize = 256;

/// What a message is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Word {
    /// To a keeper that has just begun: its settings.
    Settings = b's',
    /// Take over from the keeper before.
    Begin = b'b',
    /// Hold this listener.
    Hold = b'h',
    /// Close this one.
    Forget = b'f',
    /// At the door: a version, and what is wanted.
    Visit = b'v',
    /// One of several.
    Listed = b'l',
    /// It is done, or that was all.
    Done = b'd',
    /// It is not, and why.
    Refused = b'r',
}

impl Word {
    const ALL: [Word; 8] = [
        Word::Settings,
        Word::Begin,
        Word::Hold,
        Word::Forget,
        Word::Visit,
        Word::Listed,
        Word::Done,
        Word::Refused,
    ];
}

/// One message.
#[derive(Debug)]
pub(super) struct Message {
    pub word: Word,
    pub text: String,
    pub listener: Option<OwnedFd>,
}

/// Sends a message.
pub(super) fn send(
    mut stream: &UnixStream,
    word: Word,
    text: &str,
    listener: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let length = u16::try_from(text.len()).map_err(|_| ErrorKind::InvalidInput)?.to_le_bytes();
    let mut bytes = vec![word as u8, length[0], length[1]];
    bytes.extend_from_slice(text.as_bytes());
    let files: Vec<BorrowedFd<'_>> = listener.into_iter().collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&files)) {
        return Err(ErrorKind::InvalidInput.into());
    }
    let sent = rustix::io::retry_on_intr(|| {
        sendmsg(stream, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL)
    })?;
    io::Write::write_all(&mut stream, &bytes[sent..])
}

/// Receives one; `None` at the other's end.
///
/// # Errors
/// The system's, and `InvalidData`.
pub(super) fn receive(mut stream: &UnixStream) -> io::Result<Option<Message>> {
    let mut head = [0; 3];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let read = rustix::io::retry_on_intr(|| {
        recvmsg(stream, &mut [IoSliceMut::new(&mut head)], &mut control, RecvFlags::CMSG_CLOEXEC)
    })?;
    if read.bytes == 0 {
        return Ok(None);
    }
    let mut listener = None;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(mut descriptors) = message {
            listener = descriptors.next();
        }
    }
    stream.read_exact(&mut head[read.bytes..])?;
    let [word, low, high] = head;
    let word = Word::ALL.into_iter().find(|known| *known as u8 == word).ok_or(ErrorKind::InvalidData)?;
    let mut text = vec![0; u16::from_le_bytes([low, high]).into()];
    stream.read_exact(&mut text)?;
    let text = String::from_utf8(text).map_err(|_| ErrorKind::InvalidData)?;
    Ok(Some(Message { word, text, listener }))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::TcpListener;
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn messages_arrive_one_by_one_with_what_is_theirs() {
        let (here, there) = UnixStream::pair().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let long = "x".repeat(usize::from(u16::MAX));
        send(&here, Word::Hold, "first", Some(listener.as_fd())).unwrap();
        send(&here, Word::Done, "", None).unwrap();
        let first = receive(&there).unwrap().unwrap();
        assert_eq!((first.word, first.text.as_str()), (Word::Hold, "first"));
        let same = TcpListener::from(first.listener.unwrap());
        assert_eq!(same.local_addr().unwrap(), listener.local_addr().unwrap());
        let second = receive(&there).unwrap().unwrap();
        assert!(second.word == Word::Done && second.text.is_empty() && second.listener.is_none());
        send(&here, Word::Visit, &long, None).unwrap();
        assert_eq!(receive(&there).unwrap().unwrap().text, long);
        assert!(send(&here, Word::Visit, &format!("{long}x"), None).is_err());
        (&here).write_all(b"?\0\0").unwrap();
        assert_eq!(receive(&there).unwrap_err().kind(), ErrorKind::InvalidData);
        (&here).write_all(b"d\x05\0ab").unwrap();
        drop(here);
        assert_eq!(receive(&there).unwrap_err().kind(), ErrorKind::UnexpectedEof);
        assert!(receive(&there).unwrap().is_none());
    }
}
