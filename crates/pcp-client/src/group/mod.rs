//! Fetch groups: register metrics once, fetch many times, read converted values (`pmFetchGroup(3)`).
//!
//! ```no_run
//! use pcp_client::group::{FetchGroup, Scale};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut group = FetchGroup::host("local:")?;
//! let load = group.item::<f32>("kernel.all.load", Some("1 minute"), Scale::None)?;
//! let reads = group.indom::<f64>("disk.dev.read_bytes", "Mbyte / sec", 100)?;
//! loop {
//!     group.fetch()?;
//!     match group.value(load) {
//!         Ok(load) => println!("load {load}"),
//!         Err(why) => println!("no load: {why}"),
//!     }
//!     for disk in group.rows(reads)? {
//!         println!("{:?} {:?}", disk.name, disk.value);
//!     }
//!     # break;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! A group owns a context and the results of its last two fetches, in the bytes they came in: values are read in
//! place, rates need no copy of what was. What a handle stands for (place of the metric, instance, conversion) is
//! settled at registration; a fetch is one pass over the registrations, with a guess where each value is that is
//! mostly right. Cost: some steps a value; no allocation once the buffers have grown, as long as no new instance
//! has to be asked for its name.

mod cell;
mod error;
mod event;
mod fetch_group;
mod handle;
mod indom;
mod item;
mod names;
mod options;
mod register;
mod results;
mod samples;
mod scalar;
mod scale;
mod set;

pub use cell::Atom;
pub use error::{Reason, RegisterError};
pub use event::{EventRow, EventRows};
pub use fetch_group::FetchGroup;
pub use handle::{AnyType, EventHandle, IndomHandle, ItemHandle, Output};
pub use indom::{Row, Rows};
pub use options::{Falling, GroupOptions};
pub use scale::{IntoScale, Scale};
pub use set::{GroupSet, Outcome};
