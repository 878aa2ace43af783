//! Calls that are refused before they are carried out, counted for the access log: a stranger may make any number of them,
//! and has a line at an interval.

use super::access::Access;
use super::error::Reason;
use crate::access_log::Entry;
use crate::limits;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// In the place of addresses that are too many.
const OTHERS: &str = "others";

/// The refusals since they were last written.
#[derive(Default)]
pub(super) struct Refusals(Mutex<HashMap<RefusedCall, u64>>);

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct RefusedCall {
    principal: String,
    token: String,
    tenant: String,
    address: String,
    method: String,
    reason: &'static str,
}

impl Refusals {
    fn counts(&self) -> MutexGuard<'_, HashMap<RefusedCall, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a refusal. The method of a caller that proved nothing is what it likes, and is not counted apart.
    pub(super) fn count(&self, access: Option<&Access>, address: Option<IpAddr>, method: &str, reason: Reason) {
        let address = address.map(|address| address.to_string()).unwrap_or_default();
        let mut refused = RefusedCall { address, reason: reason.as_str(), ..RefusedCall::default() };
        if let Some(access) = access {
            refused.principal = access.principal.to_string();
            refused.token = access.token_text();
            refused.tenant = access.tenant.to_string();
            method.trim_start_matches('/').clone_into(&mut refused.method);
        }
        let mut counts = self.counts();
        if counts.len() >= limits::REFUSALS_KEPT && !counts.contains_key(&refused) {
            refused = RefusedCall { address: OTHERS.to_owned(), reason: refused.reason, ..RefusedCall::default() };
        }
        *counts.entry(refused).or_default() += 1;
    }

    /// The lines about them. They begin anew.
    pub(super) fn take(&self) -> Vec<Entry> {
        let counts = std::mem::take(&mut *self.counts());
        let entry = |(RefusedCall { principal, token, tenant, address, method, reason }, count)| Entry {
            principal,
            token,
            tenant,
            address,
            method,
            sessions: Vec::new(),
            outcome: reason.to_owned(),
            count,
        };
        counts.into_iter().map(entry).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_have_a_line_for_each_address_and_a_bounded_number_of_them() {
        let refusals = Refusals::default();
        let many = u32::try_from(limits::REFUSALS_KEPT * 2).expect("a number");
        for number in 0..many {
            for method in ["/a/B", "/a/C"] {
                refusals.count(None, Some(IpAddr::from(number.to_be_bytes())), method, Reason::AccessTokenInvalid);
            }
        }
        let agent = Access { principal: "agent".into(), ..Access::owner() };
        refusals.count(Some(&agent), None, "/a/B", Reason::ScopeMissing);
        let lines = refusals.take();
        assert!(lines.len() <= limits::REFUSALS_KEPT + 2, "{}", lines.len());
        assert_eq!(lines.iter().map(|line| line.count).sum::<u64>(), u64::from(many) * 2 + 1);
        let of =
            |address: &str| lines.iter().filter(|line| line.address == address).map(|line| line.count).sum::<u64>();
        assert_eq!(of("0.0.0.1"), 2);
        assert_eq!(of(OTHERS), u64::from(many) + 1);
        assert!(lines.iter().all(|line| line.method.is_empty()));
        assert_eq!(refusals.take(), []);
        refusals.count(Some(&agent), None, "/a/B", Reason::ScopeMissing);
        let [line] = &refusals.take()[..] else { panic!("one line") };
        assert_eq!((line.principal.as_str(), line.method.as_str(), line.count), ("agent", "a/B", 1));
    }
}
