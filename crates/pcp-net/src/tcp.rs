//! TCP at all addresses of a host.

use std::io::{self, ErrorKind};
use std::net::{TcpListener, ToSocketAddrs};

/// Listens at all addresses of `address` (host and port); one of them is enough, as a machine may lack IPv6. The
/// listeners are non-blocking. Port 0 is a port of the system's choice, the same for all addresses.
///
/// # Errors
/// The host has no address, none of them can be listened on, or somebody else listens on one.
pub fn listen_tcp(address: &str) -> io::Result<Vec<TcpListener>> {
    let mut listeners: Vec<TcpListener> = Vec::new();
    let mut problem = io::Error::new(ErrorKind::NotFound, "the host has no address");
    for mut socket in address.to_socket_addrs()? {
        // Clients are told one port: whichever address they take, it has to be there.
        if let (0, Some(Ok(first))) = (socket.port(), listeners.first().map(TcpListener::local_addr)) {
            socket.set_port(first.port());
        }
        let bound = TcpListener::bind(socket).and_then(|listener| {
            listener.set_nonblocking(true)?;
            Ok(listener)
        });
        match bound {
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
        let listeners = listen_tcp("localhost:0").expect("there is a loopback");
        let ports: Vec<u16> = listeners.iter().map(|l| l.local_addr().expect("bound").port()).collect();
        assert!(ports.iter().all(|port| *port == ports[0] && *port != 0), "{ports:?}");
        let taken = listen_tcp(&format!("localhost:{}", ports[0])).expect_err("somebody listens there");
        assert_eq!(taken.kind(), ErrorKind::AddrInUse);
        assert!(listen_tcp("192.0.2.1:0").is_err(), "an address that nobody has");
    }
}
