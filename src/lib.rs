//! jumpseat: an agent (PMDA) for Performance Co-Pilot that turns tracing sources into event metrics, and the
//! library it is made of.
//!
//! This crate has the two programs; as a library it only puts the parts under one name. Each is a package that can
//! be taken by itself (`ARCHITECTURE.md` in the repository has the map and the data flow). Lowest first:
//!
//! * [`model`]: PCP's data model, and [`time`] as PCP's tools take and print it.
//! * [`pdu`]: the PCP protocol, sans-I/O.
//! * [`event`]: packed event arrays and the event log.
//! * [`mod@derive`]: derived metrics, the whole language of `pmRegisterDerived(3)`.
//! * [`archive`]: PCP archives.
//! * [`client`]: contexts on hosts and archives, fetch groups, and the [`recorder`].
//! * [`pmda`]: the PMDA framework, with [`ids`] that keep their meaning.
//! * [`wire`] and [`mod@layer`]: a program's own spans and events, sent by `tracing`.
//! * [`source`]: where event records come from.
//! * [`agent`]: the jumpseat agent itself.
//!
//! # Features
//!
//! | feature | by default | brings |
//! | --- | --- | --- |
//! | `cli` | yes | the two programs, and what they alone need. A library does without: `default-features = false` |
//! | `web-inside` | yes | `jumpseat web` within the program `jumpseat` |
//! | `web` | by `web-inside` | the program `jumpseat-web`, which `jumpseat web` starts where it is not within `jumpseat` |
//! | `export` | no | the program `jumpseat-export`, which `jumpseat export` starts, with what knows columns, object stores and HTTP clients |
//!
//! All parts are always there. Who wants few dependencies takes the packages by themselves: `pcp-client` without its feature
//! `archive`, or `jumpseat-layer`, which knows nothing of PCP.
#![cfg_attr(docsrs, feature(doc_cfg))]

pub use jumpseat_agent as agent;
pub use jumpseat_layer as layer;
pub use jumpseat_layer::layer;
pub use jumpseat_source as source;
pub use jumpseat_wire as wire;
pub use pcp_archive as archive;
pub use pcp_client as client;
pub use pcp_client::recorder;
pub use pcp_derive as derive;
pub use pcp_event as event;
pub use pcp_ids as ids;
pub use pcp_model as model;
pub use pcp_model::time;
pub use pcp_pdu as pdu;
pub use pcp_pmda as pmda;

/// The Rust in the guide is tested.
#[cfg(doctest)]
mod guide {
    #[doc = include_str!("../docs/archives.md")]
    struct Archives;
    #[doc = include_str!("../docs/fetch-groups.md")]
    struct FetchGroups;
    #[doc = include_str!("../docs/receivers.md")]
    struct Receivers;
    #[doc = include_str!("../docs/style.md")]
    struct Style;
    #[doc = include_str!("../docs/writing-a-pmda.md")]
    struct WritingAPmda;
    #[doc = include_str!("../docs/writing-a-source.md")]
    struct WritingASource;
}
