//! From one agent to the next: listeners that stay open meanwhile, so that nobody who connects is refused.
//!
//! ```text
//! agent A --- holds, gives up ---> keeper A      the same program, started before the agent is confined
//!   ends        listeners stay open: who connects waits
//! agent B --- begin -------------> keeper B      asks keeper A, at its door in the state directory, for all it has;
//!                                                keeper A ends; B passes the listeners on to its agent
//! ```
//!
//! A keeper is always of the same version as its agent; only `wire::VERSION` is between two of them. Its end comes when it
//! has given all away, when no agent has come for as long as `handover.keep` says, or when it is told to ([`end`]): then the
//! files of the sockets go, too.
//!
//! Where systemd starts the agent, its store of descriptors does the same.
//!
//! * `store`: the way to that;
//!   `link`: the agent's side; `keeper`: the process; `wire`: what they say; `door`: what others may ask.

pub(crate) mod door;
mod keeper;
mod link;
mod store;
mod wire;

pub use door::{Waiting, end, waiting};
pub use keeper::{KEEPER_ARGUMENT, serve};
pub(crate) use link::{Handover, Plan};
