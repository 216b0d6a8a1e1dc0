//! TCP at all addresses of a host.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::AsFd as _;

use crate::keep::{Holding, Kept, Spot};

/// A listener at one address, non-blocking.
#[derive(Debug)]
pub struct TcpListening {
    /// The socket.
    pub listener: TcpListener,
    _holding: Holding,
}

impl TcpListening {
    /// Listens. One that was kept from the process before is taken up again, with who is waiting at it.
    ///
    /// # Errors
    /// The system's.
    pub fn bind(address: SocketAddr, kept: &Kept) -> io::Result<TcpListening> {
        if let Some(listener) = kept.take_tcp(address) {
            let _holding = kept.held(Spot::Tcp(address));
            return Ok(TcpListening { listener: listener.into(), _holding });
        }
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let _holding = match address.port() {
            // Nobody would ask for the port that the system has chosen.
            0 => Kept::default().held(Spot::Tcp(address)),
            _ => kept.hold(Spot::Tcp(address), listener.as_fd()),
        };
        Ok(TcpListening { listener, _holding })
    }
}

/// Listens at all addresses of `address` (host and port); one of them is enough, as a machine may lack IPv6. The
/// listeners are non-blocking. Port 0 is a port of the system's choice, the same for all addresses.
///
/// # Errors
/// The host has no address, none of them can be listened on, or somebody else listens on one.
pub fn listen_tcp(address: &str, kept: &Kept) -> io::Result<Vec<TcpListening>> {
    let mut listeners: Vec<TcpListening> = Vec::new();
    let mut problem = io::Error::new(ErrorKind::NotFound, "the host has no address");
    for mut socket in address.to_socket_addrs()? {
        // Clients are told one port: whichever address they take, it has to be there.
        if let (0, Some(Ok(first))) =
            (socket.port(), listeners.first().map(|first| first.listener.local_addr()))
        {
            socket.set_port(first.port());
        }
        match TcpListening::bind(socket, kept) {
            Ok(listener) => listeners.push(listener),
            // Somebody else's: clients would come to either of us.
            Err(error) if error.kind() == ErrorKind::AddrInUse => return Err(error),
            Err(error) => problem = error,
        }
    }
    if listeners.is_empty() { Err(problem) } else { Ok(listeners) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_port_for_all_addresses_and_nobody_elses() {
        let nobody = Kept::default();
        let listeners = listen_tcp("localhost:0", &nobody).expect("there is a loopback");
        let ports: Vec<u16> =
            listeners.iter().map(|l| l.listener.local_addr().expect("bound").port()).collect();
        assert!(ports.iter().all(|port| *port == ports[0] && *port != 0), "{ports:?}");
        let taken =
            listen_tcp(&format!("localhost:{}", ports[0]), &nobody).expect_err("somebody listens there");
        assert_eq!(taken.kind(), ErrorKind::AddrInUse);
        assert!(listen_tcp("192.0.2.1:0", &nobody).is_err(), "an address that nobody has");
    }
}
