//! Who a caller is proved to be, and what it may do: access tokens, and the owner.
//!
//! A secret is `lh_`, the token's id, `_` and 256 random bits; the store keeps its hash. The owner's secret lies in a
//! file of the data directory and not in the store, so that a copy of the store opens nothing.

use super::error::{Error, Reason, Result};
use super::validate;
use crate::clock::Clock;
use crate::limits;
use crate::model::access::{Binding, Scope, Scopes};
use crate::model::ids::AccessTokenId;
use crate::model::time::Timestamp;
use crate::store::StoredToken;
use crate::turns::Share;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Begin of every secret: a scanner of texts finds it by this.
const PREFIX: &str = "lh_";
/// In the place of an id, in the owner's secret.
const OWNER: &str = "owner";
/// Bytes of a secret's random part.
const SECRET_BYTES: usize = 32;
/// Microseconds of the interval in which failed attempts are counted.
const MINUTE_MICROS: i64 = 60_000_000;

/// Who a caller is proved to be, and what it may do.
#[derive(Debug, Clone)]
pub struct Access {
    /// The principal's name; empty for the owner.
    pub principal: Arc<str>,
    /// The tenant whose sessions it opens; empty for the default tenant.
    pub tenant: Arc<str>,
    /// What it may do.
    pub scopes: Scopes,
    /// The sessions that it is bound to.
    pub binding: Arc<Binding>,
    /// The end of its validity; none if it does not end by itself.
    pub expire_time: Option<Timestamp>,
    /// Cancelled when it is revoked.
    pub revoked: CancellationToken,
    /// True for an operator that acts in a tenant that is not its own.
    pub is_acting: bool,
    /// The access token; none for the owner.
    pub token: Option<AccessTokenId>,
    /// On whose behalf the daemon works: the token's own tenant, wherever its holder acts.
    pub share: Share,
}

impl Access {
    /// The owner of the store: everything, for ever.
    pub fn owner() -> Self {
        Self {
            principal: Arc::from(""),
            tenant: Arc::from(""),
            scopes: Scopes::all(),
            binding: Arc::default(),
            expire_time: None,
            revoked: CancellationToken::new(),
            is_acting: false,
            token: None,
            share: Share::new(Arc::from(""), Arc::from("")),
        }
    }

    /// True for callers of the default tenant that are bound to no sessions. What concerns the store as a whole is
    /// theirs, and they may act in any tenant. In the default tenant they see its sessions, and no others.
    pub fn is_operator(&self) -> bool {
        self.is_acting || (self.tenant.is_empty() && self.binding.is_empty())
    }

    /// The access with which an operator acts in a tenant, as if it was its own.
    ///
    /// # Errors
    ///
    /// `SCOPE_MISSING` for everybody else, whichever tenant it names; `INVALID_FIELD` or `LIMIT_EXCEEDED` for a name
    /// that no tenant has.
    pub fn acting_in(self, tenant: &str) -> Result<Self> {
        if !self.is_operator() {
            let message = "only an operator, who is of the default tenant and bound to no sessions, names a tenant";
            return Err(Error::new(Reason::ScopeMissing, message).with("scope", Scope::Admin));
        }
        validate::access_name("longhand-tenant", tenant)?;
        Ok(Self { tenant: tenant.into(), is_acting: true, ..self })
    }

    /// True for an access that ends only with the daemon.
    pub fn is_owners(&self) -> bool {
        self.principal.is_empty()
    }

    /// The id of the access token as text; empty for the owner.
    pub(super) fn token_text(&self) -> String {
        self.token.as_ref().map(ToString::to_string).unwrap_or_default()
    }

    /// Refuses a caller without the scope.
    pub fn require(&self, scope: Scope) -> Result<()> {
        if self.scopes.contains(scope) {
            return Ok(());
        }
        let message = format!("the access token has not the scope {scope}");
        Err(Error::new(Reason::ScopeMissing, message).with("scope", scope))
    }

    /// The author of mutations: the proved principal, with the name that the caller gives itself behind it. The owner is
    /// believed.
    pub(super) fn author(&self, name: String) -> String {
        match (&*self.principal, name.is_empty()) {
            ("", _) => name,
            (principal, true) => principal.to_owned(),
            (principal, false) => format!("{principal}/{name}"),
        }
    }
}

/// The owner's access, made once.
fn owner() -> Arc<Access> {
    static OWNER: LazyLock<Arc<Access>> = LazyLock::new(|| Arc::new(Access::owner()));
    OWNER.clone()
}

/// A request for an access token.
#[derive(Debug, Clone, Default)]
pub struct NewAccessToken {
    /// The principal that it proves.
    pub principal: String,
    /// Its tenant; none for the caller's.
    pub tenant: Option<String>,
    /// What its holder may do.
    pub scopes: Scopes,
    /// The project that it is bound to.
    pub project: Option<String>,
    /// The session whose tree it is bound to, by any of its ids.
    pub root: Option<String>,
    /// The end of its validity.
    pub expire_time: Option<Timestamp>,
}

/// What a caller shows to prove who it is.
#[derive(Debug, Clone, Copy)]
pub enum Credentials<'a> {
    /// The connection is one that only the owner can open.
    Owner,
    /// A secret, from an address.
    Secret(&'a str, IpAddr),
    /// Nothing.
    Nothing,
}

/// A new secret, and its hash.
pub(super) fn new_secret(of: &str) -> (String, [u8; 32]) {
    let random: [u8; SECRET_BYTES] = rand::random();
    let secret = format!("{PREFIX}{of}_{}", URL_SAFE_NO_PAD.encode(random));
    let hash = *blake3::hash(secret.as_bytes()).as_bytes();
    (secret, hash)
}

/// The id of the access token that a secret is of, by its form alone.
pub(super) fn token_id(secret: &str) -> Option<AccessTokenId> {
    let (of, _) = secret.strip_prefix(PREFIX)?.split_once('_')?;
    Some(AccessTokenId(Uuid::try_parse(of).ok().filter(|_| of.len() == 32)?))
}

/// A new secret of the owner.
pub fn new_owner_secret() -> String {
    new_secret(OWNER).0
}

/// True for a text in the form of an owner's secret.
pub fn is_owner_secret(text: &str) -> bool {
    let random = text.strip_prefix(PREFIX).and_then(|rest| rest.strip_prefix(OWNER)?.strip_prefix('_'));
    random.and_then(|random| URL_SAFE_NO_PAD.decode(random).ok()).is_some_and(|random| random.len() == SECRET_BYTES)
}

/// The access tokens in memory: all of the store's, and the owner's.
#[derive(Default)]
pub(super) struct AccessTokens {
    known: Mutex<TokenTable>,
}

#[derive(Default)]
struct TokenTable {
    owner_hash: Option<blake3::Hash>,
    tokens: HashMap<AccessTokenId, TokenEntry>,
    /// Failed attempts by address, since a time.
    failed: HashMap<IpAddr, (i64, u32)>,
}

struct TokenEntry {
    access: Arc<Access>,
    hash: blake3::Hash,
}

impl TokenEntry {
    /// True once it proves nothing any more.
    fn is_over(&self, now: Timestamp) -> bool {
        self.access.revoked.is_cancelled() || self.access.expire_time.is_some_and(|end| end <= now)
    }
}

impl From<StoredToken> for TokenEntry {
    fn from(StoredToken { token, secret_hash, .. }: StoredToken) -> Self {
        let revoked = CancellationToken::new();
        if token.revoke_time.is_some() {
            revoked.cancel();
        }
        let tenant: Arc<str> = token.tenant.into();
        let access = Access {
            principal: token.principal.into(),
            share: Share::new(tenant.clone(), token.id.to_string().into()),
            tenant,
            scopes: token.scopes,
            binding: Arc::new(token.binding),
            expire_time: token.expire_time,
            revoked,
            is_acting: false,
            token: Some(token.id),
        };
        Self { access: Arc::new(access), hash: secret_hash.into() }
    }
}

impl TokenTable {
    /// The access that a secret proves; none if it proves nothing.
    fn find(&self, secret: &str, now: Timestamp) -> Option<Arc<Access>> {
        let (of, _) = secret.strip_prefix(PREFIX)?.split_once('_')?;
        // Hashes compare in constant time.
        let hash = blake3::hash(secret.as_bytes());
        if of == OWNER {
            return self.owner_hash.is_some_and(|owner| owner == hash).then(owner);
        }
        let id = token_id(secret)?;
        let entry = self.tokens.get(&id)?;
        let TokenEntry { access, hash: known } = entry;
        (*known == hash && !entry.is_over(now)).then(|| Arc::clone(access))
    }

    /// Counts a failed attempt; false if the address had too many.
    fn may_fail(&mut self, address: IpAddr, now: Timestamp) -> bool {
        if self.failed.len() >= limits::FAILING_ADDRESSES_MAX && !self.failed.contains_key(&address) {
            self.failed.retain(|_, (since, _)| (0..MINUTE_MICROS).contains(&(now.0 - *since)));
            if self.failed.len() >= limits::FAILING_ADDRESSES_MAX {
                return false;
            }
        }
        let (since, count) = self.failed.entry(address).or_insert((now.0, 0));
        if !(0..MINUTE_MICROS).contains(&(now.0 - *since)) {
            (*since, *count) = (now.0, 0);
        }
        *count = count.saturating_add(1);
        *count <= limits::FAILED_ATTEMPTS_A_MINUTE
    }
}

impl TokenTable {
    fn count_failure(&mut self, address: IpAddr, now: Timestamp, invalid: Error) -> Error {
        if self.may_fail(address, now) {
            return invalid;
        }
        Error::new(Reason::TooManyAttempts, "too many calls of this address had no valid access token")
    }
}

impl AccessTokens {
    /// Keeps a token that was added to the store, and no longer those that ended.
    pub(super) fn add(&self, stored: StoredToken, now: Timestamp) {
        let mut table = self.table();
        table.tokens.retain(|_, entry| !entry.is_over(now));
        table.tokens.insert(stored.token.id, stored.into());
    }

    /// Ends what a token opened, which is revoked in the store.
    pub(super) fn revoke(&self, id: AccessTokenId) {
        if let Some(entry) = self.table().tokens.get(&id) {
            entry.access.revoked.cancel();
        }
    }

    fn table(&self) -> MutexGuard<'_, TokenTable> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True for the secret of the owner.
    pub(super) fn is_owners(&self, secret: &str) -> bool {
        let hash = blake3::hash(secret.as_bytes());
        self.table().owner_hash.is_some_and(|owner| owner == hash)
    }

    /// Trusts a secret of the owner.
    pub(super) fn trust_owner(&self, secret: &str) {
        self.table().owner_hash = Some(blake3::hash(secret.as_bytes()));
    }

    /// Keeps these tokens, and no others. Of those that were known already, what they opened goes on, unless they are
    /// revoked now.
    pub(super) fn keep(&self, stored: Vec<StoredToken>) {
        let mut table = self.table();
        let mut before = std::mem::take(&mut table.tokens);
        for stored in stored {
            let (id, is_revoked) = (stored.token.id, stored.token.revoke_time.is_some());
            let entry = before.remove(&id).unwrap_or_else(|| stored.into());
            if is_revoked {
                entry.access.revoked.cancel();
            }
            table.tokens.insert(id, entry);
        }
        // A restored database may lack some.
        before.values().for_each(|gone| gone.access.revoked.cancel());
    }

    pub(super) fn authenticate(&self, credentials: Credentials<'_>, clock: &Clock) -> Result<Arc<Access>> {
        let (secret, address) = match credentials {
            Credentials::Owner => return Ok(owner()),
            Credentials::Nothing => {
                let message = "the call needs an access token: `authorization: Bearer …`";
                return Err(Error::new(Reason::AccessTokenMissing, message));
            }
            Credentials::Secret(secret, address) => (secret, address),
        };
        let now = clock.present();
        let mut table = self.table();
        if let Some(access) = table.find(secret, now) {
            return Ok(access);
        }
        let invalid = Error::new(Reason::AccessTokenInvalid, "the access token is unknown, revoked or over");
        Err(table.count_failure(address, now, invalid))
    }

    /// Counts a failed attempt of an address, and returns the error for it.
    pub(super) fn count_failure(&self, address: IpAddr, now: Timestamp, invalid: Error) -> Error {
        self.table().count_failure(address, now, invalid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;
    use crate::model::access::AccessToken;

    fn at(seconds: i64) -> Timestamp {
        Timestamp(seconds * 1_000_000)
    }

    #[test]
    fn failed_attempts_of_an_address_are_counted_by_the_minute() {
        let mut table = TokenTable::default();
        let (one, other) = (IpAddr::from([127, 0, 0, 1]), IpAddr::from([127, 0, 0, 2]));
        let allowed = (0..100).filter(|_| table.may_fail(one, at(0))).count();
        assert_eq!(allowed, limits::FAILED_ATTEMPTS_A_MINUTE as usize);
        assert!(table.may_fail(other, at(0)) && !table.may_fail(one, at(59)) && table.may_fail(one, at(60)));
        // A clock that was set back counts anew.
        assert!(table.may_fail(one, at(-100)));
    }

    #[test]
    fn the_table_of_failing_addresses_is_bounded() {
        let mut table = TokenTable::default();
        for number in 0..u32::try_from(limits::FAILING_ADDRESSES_MAX).expect("a number") {
            assert!(table.may_fail(IpAddr::from(number.to_be_bytes()), at(0)));
        }
        let one_more = IpAddr::from([255, 0, 0, 1]);
        assert!(!table.may_fail(one_more, at(1)));
        assert!(table.may_fail(one_more, at(61)));
        assert_eq!(table.failed.len(), 1);
    }

    #[test]
    fn a_secret_proves_its_own_token_alone_while_it_is_valid() {
        let entry = |expire_time| {
            let id = AccessTokenId(clock::fresh_id());
            let (secret, secret_hash) = new_secret(&id.0.simple().to_string());
            let token = AccessToken {
                id,
                principal: "agent".to_owned(),
                tenant: String::new(),
                scopes: Scopes::all(),
                binding: Binding::default(),
                create_time: at(0),
                expire_time,
                revoke_time: None,
            };
            (id, secret, StoredToken { token, secret_hash, is_console: false })
        };
        let (id, secret, stored) = entry(Some(at(10)));
        let (other_id, other_secret, other) = entry(None);
        let mut table = TokenTable::default();
        table.tokens.insert(id, stored.into());
        table.tokens.insert(other_id, other.into());
        assert!(table.find(&secret, at(9)).is_some() && table.find(&secret, at(10)).is_none());
        let (_, random) = other_secret.rsplit_once('_').expect("a random part");
        let mixed = format!("{PREFIX}{}_{random}", id.0.simple());
        for wrong in [mixed.as_str(), "", "lh_", "lh_owner_", "lh_owner_x", &secret[..secret.len() - 1], random] {
            assert!(table.find(wrong, at(0)).is_none(), "{wrong}");
        }
        table.tokens[&other_id].access.revoked.cancel();
        assert!(table.find(&other_secret, at(0)).is_none());
        let owner = new_owner_secret();
        table.owner_hash = Some(blake3::hash(owner.as_bytes()));
        assert!(table.find(&owner, at(0)).is_some_and(|access| access.is_owners()));
    }
}
