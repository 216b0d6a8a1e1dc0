//! The definitions of derived metrics that hold in every context of a process.

use std::sync::{Arc, LazyLock, RwLock};

use pcp_derive::{Dialect, Registry};

/// Definitions that several contexts share. A context takes new ones over with its next request.
pub type SharedRegistry = Arc<RwLock<Registry>>;

static GLOBAL: LazyLock<SharedRegistry> =
    LazyLock::new(|| Arc::new(RwLock::new(Registry::new(Dialect::default()))));

/// The definitions of this process (`pmRegisterDerived(3)`). Nothing is loaded into it of itself.
pub fn global_registry() -> SharedRegistry {
    GLOBAL.clone()
}

/// The definitions as they stand. The lock is let go at once: what binds them asks sources, which takes as long as
/// it takes. A panic of somebody who held it leaves whole definitions: they are made and added in one step.
pub(super) fn snapshot(registry: &SharedRegistry) -> Registry {
    registry.read().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
}
