//! Shared room: nobody can take more than is left to others.

use super::share::{Share, Tenant};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Room for what waits. A tenant holds at most as much as is free, so that nobody finds it full because of another: one
/// alone takes half of it, and its only access token a third.
pub struct Room {
    size: usize,
    held: Mutex<RoomUse>,
}

#[derive(Default)]
struct RoomUse {
    all: usize,
    tenants: HashMap<Tenant, TenantRoom>,
}

#[derive(Default)]
struct TenantRoom {
    all: usize,
    tokens: HashMap<Arc<str>, usize>,
}

/// A part of the room, until it is dropped.
pub struct TakenRoom {
    room: Arc<Room>,
    share: Share,
    size: usize,
}

impl Room {
    /// Room of this size.
    pub fn new(size: usize) -> Arc<Self> {
        Arc::new(Self { size, held: Mutex::default() })
    }

    /// Takes a part of the room; none if that is more than the share's.
    pub fn take(self: &Arc<Self>, share: &Share, size: usize) -> Option<TakenRoom> {
        let mut used = self.used();
        let free = self.size.saturating_sub(used.all);
        let of_tenant = used.tenants.get(&share.tenant);
        let by_tenant = of_tenant.map_or(0, |tenant| tenant.all);
        let by_token = of_tenant.and_then(|tenant| tenant.tokens.get(&share.token)).copied().unwrap_or_default();
        if by_token.saturating_add(size) > free.saturating_sub(by_tenant) {
            return None;
        }
        used.all += size;
        let tenant = used.tenants.entry(share.tenant.clone()).or_default();
        tenant.all += size;
        *tenant.tokens.entry(share.token.clone()).or_default() += size;
        Some(TakenRoom { room: self.clone(), share: share.clone(), size })
    }

    /// The sums are consistent at any time, so a poisoned lock does no harm.
    fn used(&self) -> MutexGuard<'_, RoomUse> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for TakenRoom {
    fn drop(&mut self) {
        let Self { room, share, size } = self;
        let mut used = room.used();
        used.all -= *size;
        let Some(tenant) = used.tenants.get_mut(&share.tenant) else { return };
        tenant.all -= *size;
        if let Some(of_token) = tenant.tokens.get_mut(&share.token) {
            *of_token -= *size;
            if *of_token == 0 {
                tenant.tokens.remove(&share.token);
            }
        }
        if tenant.tokens.is_empty() {
            used.tenants.remove(&share.tenant);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(room: &Arc<Room>, tenant: &str, token: &str) -> Vec<TakenRoom> {
        let share = Share::new(tenant.into(), token.into());
        std::iter::from_fn(|| room.take(&share, 1)).collect()
    }

    #[test]
    fn who_fills_the_room_leaves_room_for_others() {
        let room = Room::new(1_200);
        let one = fill(&room, "loud", "one");
        assert_eq!(one.len(), 400, "a token alone has a third");
        let other = fill(&room, "loud", "other");
        assert!(other.len() > 100 && one.len() + other.len() <= 600, "its tenant has half: {}", other.len());
        let quiet = fill(&room, "quiet", "one");
        assert!(quiet.len() > 200, "another tenant has a third of the rest: {}", quiet.len());
        let late: Vec<TakenRoom> = (0..100).flat_map(|tenant| fill(&room, &tenant.to_string(), "one").pop()).collect();
        assert_eq!(late.len(), 100, "nobody finds it full");
        drop((one, other, quiet, late));
        let used = room.used();
        assert!(used.all == 0 && used.tenants.is_empty());
    }
}
