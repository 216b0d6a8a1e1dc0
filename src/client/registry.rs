//! The definitions of derived metrics that hold in every context of a process.

use std::sync::{Arc, LazyLock, RwLock, RwLockReadGuard};

use crate::derive::{Dialect, Registry};

/// Definitions that several contexts share. A context takes new ones over with its next request.
pub type SharedRegistry = Arc<RwLock<Registry>>;

static GLOBAL: LazyLock<SharedRegistry> =
    LazyLock::new(|| Arc::new(RwLock::new(Registry::new(Dialect::default()))));

/// The definitions of this process (`pmRegisterDerived(3)`). Nothing is loaded into it of itself.
pub fn global_registry() -> SharedRegistry {
    GLOBAL.clone()
}

/// A panic of somebody who held the lock leaves whole definitions: they are made and added in one step.
pub(super) fn read(registry: &SharedRegistry) -> RwLockReadGuard<'_, Registry> {
    registry.read().unwrap_or_else(|poisoned| poisoned.into_inner())
}
