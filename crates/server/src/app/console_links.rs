//! Links to the console that nobody has opened yet.
//!
//! A link is kept in memory as the hash of its secret, with what its token will be. A restart ends links, and no session
//! that one has opened.

use super::access::{Access, NewAccessToken};
use super::error::{Error, Reason, Result};
use crate::limits;
use crate::model::time::Timestamp;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The links that nobody has opened yet, by the hashes of their secrets.
#[derive(Default)]
pub(super) struct ConsoleLinks {
    pending: Mutex<HashMap<[u8; 32], PendingLink>>,
}

/// A link that nobody has opened yet.
pub(super) struct PendingLink {
    /// Whose link it is.
    pub(super) access: Arc<Access>,
    /// The token that it becomes, whose end is counted from the moment of opening.
    pub(super) new: NewAccessToken,
    pub(super) session_micros: i64,
    pub(super) expire_time: Timestamp,
}

impl PendingLink {
    /// True while it opens something. A link from the future was made by a clock that was wrong.
    fn is_open(&self, now: Timestamp) -> bool {
        let made = self.expire_time.plus_millis(-limits::CONSOLE_LINK_SECONDS * 1_000);
        (made..self.expire_time).contains(&now)
    }

    /// The access of the session that it opens, as far as the access log tells it.
    pub(super) fn session(&self) -> Access {
        let own = &*self.access;
        let tenant = self.new.tenant.as_deref().map_or_else(|| own.tenant.clone(), Into::into);
        Access { principal: self.new.principal.as_str().into(), tenant, scopes: self.new.scopes, ..own.clone() }
    }
}

impl ConsoleLinks {
    fn links(&self) -> MutexGuard<'_, HashMap<[u8; 32], PendingLink>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a link, by the hash of its secret.
    pub(super) fn add(&self, hash: [u8; 32], link: PendingLink, now: Timestamp) -> Result<()> {
        let mut pending = self.links();
        pending.retain(|_, link| link.is_open(now));
        // No tenant keeps the others from making links.
        let of_tenant = pending.values().filter(|other| other.access.tenant == link.access.tenant).count();
        require_room("console links", of_tenant, limits::CONSOLE_LINKS_MAX)?;
        require_room("console links of all tenants", pending.len(), limits::CONSOLE_LINKS_TOTAL_MAX)?;
        pending.insert(hash, link);
        Ok(())
    }

    /// Takes a link: it opens one session only. None if it is unknown, used or over.
    pub(super) fn take(&self, hash: &[u8; 32], now: Timestamp) -> Option<PendingLink> {
        self.links().remove(hash).filter(|link| link.is_open(now) && !link.access.revoked.is_cancelled())
    }
}

/// Refuses a link that is one too many.
fn require_room(what: &str, count: usize, limit: usize) -> Result<()> {
    if count < limit {
        return Ok(());
    }
    let message = format!("{limit} {what} wait to be opened; each ends by itself");
    Err(Error::new(Reason::LimitExceeded, message).with("what", what).with("limit", limit).with("actual", limit + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(expire_time: i64) -> PendingLink {
        link_of("", expire_time)
    }

    fn link_of(tenant: &str, expire_time: i64) -> PendingLink {
        let access = Arc::new(Access { tenant: tenant.into(), ..Access::owner() });
        let new = NewAccessToken::default();
        PendingLink { access, new, session_micros: 1, expire_time: Timestamp(expire_time) }
    }

    #[test]
    fn a_link_opens_once_and_before_its_end() {
        let links = ConsoleLinks::default();
        links.add([1; 32], link(10), Timestamp(0)).expect("room");
        links.add([2; 32], link(10), Timestamp(0)).expect("room");
        links.add([3; 32], link(10), Timestamp(0)).expect("room");
        assert!(links.take(&[9; 32], Timestamp(0)).is_none());
        assert!(links.take(&[1; 32], Timestamp(9)).is_some() && links.take(&[1; 32], Timestamp(9)).is_none());
        assert!(links.take(&[2; 32], Timestamp(10)).is_none());
        links.links()[&[3; 32]].access.revoked.cancel();
        assert!(links.take(&[3; 32], Timestamp(0)).is_none(), "its maker's access was revoked");
    }

    #[test]
    fn links_are_bounded_and_old_ones_make_room() {
        let links = ConsoleLinks::default();
        for number in 0..limits::CONSOLE_LINKS_MAX {
            links.add(hash(number), link(10), Timestamp(0)).expect("room");
        }
        let refused = links.add([0; 32], link(10), Timestamp(9)).expect_err("one too many");
        assert_eq!((refused.reason, refused.metadata["what"].as_str()), (Reason::LimitExceeded, "console links"));
        links.add([1; 32], link_of("other", 10), Timestamp(9)).expect("another tenant has room of its own");
        links.add([0; 32], link(20), Timestamp(10)).expect("the others are over");
    }

    #[test]
    fn the_links_of_all_tenants_are_bounded() {
        let links = ConsoleLinks::default();
        for number in 0..limits::CONSOLE_LINKS_TOTAL_MAX {
            let tenant = format!("t{}", number / limits::CONSOLE_LINKS_MAX);
            let link = link_of(&tenant, 10);
            links.links().insert(hash(number), link);
        }
        let refused = links.add([0; 32], link_of("other", 10), Timestamp(9)).expect_err("one too many");
        assert_eq!(refused.metadata["what"], "console links of all tenants");
        links.add([0; 32], link_of("other", 20), Timestamp(10)).expect("the others are over");
    }

    fn hash(number: usize) -> [u8; 32] {
        *blake3::hash(&number.to_be_bytes()).as_bytes()
    }
}
