//! How a daemon is one of several with a PostgreSQL database.

use crate::limits;
use serde::Deserialize;
use std::path::PathBuf;

/// A daemon as one of several.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ClusterSettings {
    /// Number of shards that the database has at least, 1 to 64. Shards are made, and never removed.
    pub shards: u32,
    /// The address at which other daemons reach this one, as `https://host:port`, `http://host:port` or `unix:/path`;
    /// absent: the one on which it listens.
    pub advertise: Option<String>,
    /// File with the certificates, in PEM, of the authorities of the other daemons; absent: those that the system trusts.
    pub authorities: Option<PathBuf>,
}

impl Default for ClusterSettings {
    fn default() -> Self {
        Self { shards: 1, advertise: None, authorities: None }
    }
}

impl ClusterSettings {
    pub(super) fn validate(&self) -> Result<(), String> {
        let (shards, most) = (self.shards, limits::SHARDS_MAX);
        if !(1..=most).contains(&shards) {
            return Err(format!("shards is {shards}, not 1 to {most}"));
        }
        let is_address =
            |address: &str| ["https://", "http://", "unix:/"].iter().any(|begin| address.starts_with(begin));
        match &self.advertise {
            Some(address) if !is_address(address) => {
                Err(format!("advertise is {address:?}, not https://…, http://… or unix:/…"))
            }
            _ => Ok(()),
        }
    }
}
