//! archives
