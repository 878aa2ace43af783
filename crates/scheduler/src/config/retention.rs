//! Rules of retention.

use crate::limits;
use serde::Deserialize;

/// A rule by which sessions are erased: which ones it is about, and when they go. One bound that is exceeded is enough.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RetentionRule {
    /// The name, 1 to 64 bytes, which no other rule has: erasures have it with their author.
    pub name: String,
    /// The tenant; absent: every tenant.
    pub tenant: Option<String>,
    /// The label that a session must have; absent: every session.
    pub label: Option<String>,
    /// Days since the creation, 1 to 36500.
    pub max_age_days: Option<u32>,
    /// Days since the last change, 1 to 36500.
    pub max_idle_days: Option<u32>,
    /// Bytes of content, before compression, of all sessions that it is about, for each tenant: those that changed
    /// longest ago go.
    pub max_bytes: Option<u64>,
}

impl RetentionRule {
    pub(super) fn validate(&self) -> Result<(), String> {
        let most = limits::RETENTION_NAME_BYTES_MAX;
        if self.name.is_empty() || self.name.len() > most || self.name.chars().any(char::is_control) {
            return Err(format!("name is {:?}, not a name of up to {most} bytes", self.name));
        }
        for (field, days) in [("max_age_days", self.max_age_days), ("max_idle_days", self.max_idle_days)] {
            if days.is_some_and(|days| !(1..=36_500).contains(&days)) {
                return Err(format!("{field} is {}, not 1 to 36500", days.unwrap_or_default()));
            }
        }
        if self.max_age_days.is_none() && self.max_idle_days.is_none() && self.max_bytes.is_none() {
            return Err("has none of max_age_days, max_idle_days and max_bytes".to_owned());
        }
        Ok(())
    }
}
