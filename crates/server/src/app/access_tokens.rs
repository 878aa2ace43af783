//! Access tokens for callers: who proves what, and the making, listing and revoking of tokens.

pub use super::access::NewAccessToken;

use super::access::{self, Access, new_secret};
use super::error::{Error, Reason, Result};
use super::nouns::Tokens;
use super::{Caller, Longhand, validate};
use crate::clock;
use crate::model::access::{AccessToken, Binding, Scope, Scopes};
use crate::model::ids::AccessTokenId;
use crate::store::{StoredToken, Visibility};

impl Longhand {
    /// Keeps the store's access tokens in memory, and trusts a secret of the owner. Before that, only the owner's
    /// connection proves anything.
    pub async fn load_access_tokens(&self, owner_secret: &str) -> Result<()> {
        let stored = self.store().access_tokens().all().await?;
        self.shared.entrance.trust_owner(owner_secret);
        self.shared.entrance.keep_access_tokens(stored);
        Ok(())
    }
}

impl Caller {
    /// Who asks.
    pub fn access(&self) -> &Access {
        &self.access
    }
}

impl Tokens<'_> {
    /// Refuses a caller that may not manage access tokens: one that is bound to sessions would escape by another token.
    fn require_unbound(self) -> Result<()> {
        self.caller.access.require(Scope::Admin)?;
        if self.caller.access.binding.is_empty() {
            return Ok(());
        }
        Err(Error::new(Reason::ScopeMissing, "an access token that is bound to sessions manages no access tokens"))
    }

    /// Creates an access token, which has no more scopes than the caller and, unless the caller is of the default
    /// tenant, the caller's tenant. Returns its secret, which is kept nowhere.
    ///
    /// # Errors
    ///
    /// `SCOPE_MISSING`, `INVALID_FIELD`, `LIMIT_EXCEEDED`, `SESSION_NOT_FOUND`.
    pub async fn create(self, new: NewAccessToken) -> Result<(AccessToken, String)> {
        self.add(new, false).await
    }

    /// The same for a session of the console, which counts apart.
    pub(super) async fn create_console_session(self, new: NewAccessToken) -> Result<(AccessToken, String)> {
        self.add(new, true).await
    }

    async fn add(self, new: NewAccessToken, is_console: bool) -> Result<(AccessToken, String)> {
        let token = self.describe(new).await?;
        let (secret, secret_hash) = new_secret(&token.id.0.simple().to_string());
        let stored = StoredToken { token: token.clone(), secret_hash, is_console };
        let (shared, by_operator) = (self.caller.shared.clone(), self.caller.access.is_operator());
        // A caller that leaves does not part the store from what is in memory.
        let created = tokio::spawn(async move {
            shared.store.access_tokens().create(stored.clone(), by_operator).await?;
            shared.entrance.access_tokens.add(stored, shared.clock.now());
            Ok::<_, Error>(())
        });
        created.await.map_err(Error::internal)??;
        Ok((token, secret))
    }

    /// The access token that a request describes, which is nowhere yet.
    pub(super) async fn describe(self, new: NewAccessToken) -> Result<AccessToken> {
        self.require_unbound()?;
        let tenant = new.tenant.unwrap_or_else(|| self.caller.access.tenant.to_string());
        if !self.caller.access.tenant.is_empty() && *tenant != *self.caller.access.tenant {
            return Err(Error::field("tenant", "is not the caller's own"));
        }
        if new.principal.is_empty() {
            return Err(Error::field("principal", "is empty"));
        }
        validate::access_name("principal", &new.principal)?;
        validate::access_name("tenant", &tenant)?;
        if let Some(project) = &new.project {
            validate::access_name("project", project)?;
        }
        if new.scopes == Scopes::default() {
            return Err(Error::field("scopes", "has none"));
        }
        if let Some(scope) = new.scopes.iter().find(|scope| !self.caller.access.scopes.contains(*scope)) {
            return Err(Error::new(Reason::ScopeMissing, format!("the caller has not the scope {scope} itself"))
                .with("scope", scope));
        }
        let now = self.caller.shared.clock.present();
        if new.expire_time.is_some_and(|end| end <= now) {
            return Err(Error::field("expire_time", "is over"));
        }
        if let Some(end) = self.caller.access.expire_time
            && new.expire_time.is_none_or(|wanted| wanted > end)
        {
            return Err(Error::field("expire_time", "is later than the end of the caller's own access"));
        }
        let root = match &new.root {
            Some(id) => {
                let visibility = Visibility { tenant: tenant.as_str().into(), ..Visibility::default() };
                let key = self.caller.store().sessions().find(&visibility, id).await?;
                Some(self.caller.store().sessions().id(key).await?)
            }
            None => None,
        };
        Ok(AccessToken {
            id: AccessTokenId(clock::fresh_id()),
            principal: new.principal,
            tenant,
            scopes: new.scopes,
            binding: Binding { project: new.project, root },
            create_time: now,
            expire_time: new.expire_time,
            revoke_time: None,
        })
    }

    /// The access tokens of the caller's tenant, oldest first; of all tenants for a caller of the default tenant.
    ///
    /// # Errors
    ///
    /// `SCOPE_MISSING`.
    pub async fn list(self) -> Result<Vec<AccessToken>> {
        self.require_unbound()?;
        let stored = self.caller.store().access_tokens().all().await?;
        Ok(stored.into_iter().map(|stored| stored.token).filter(|token| self.manages(token)).collect())
    }

    /// Revokes an access token: calls with it are refused from now on, and streams end. One that is revoked already
    /// stays as it is.
    ///
    /// # Errors
    ///
    /// `SCOPE_MISSING`, `ACCESS_TOKEN_NOT_FOUND`.
    pub async fn revoke(self, id: &str) -> Result<AccessToken> {
        let missing = || {
            Error::new(Reason::AccessTokenNotFound, format!("there is no access token {id}"))
                .with("access_token_id", id)
        };
        let listed = self.list().await?;
        let wanted: AccessTokenId = id.parse().map_err(|_| missing())?;
        listed.iter().find(|token| token.id == wanted).ok_or_else(missing)?;
        let shared = self.caller.shared.clone();
        let revoked = tokio::spawn(async move {
            let stored = shared.store.access_tokens().revoke(wanted).await?;
            shared.entrance.access_tokens.revoke(wanted);
            Ok::<_, Error>(stored)
        });
        let stored = revoked.await.map_err(Error::internal)??;
        Ok(stored.token)
    }

    /// Revokes the access token that the caller proves itself with, whatever its scopes: the end of a session that it
    /// opened.
    ///
    /// # Errors
    ///
    /// `ACCESS_TOKEN_INVALID` for the owner, who has none.
    pub async fn revoke_own(self, secret: &str) -> Result<()> {
        let id = access::token_id(secret).filter(|_| !self.caller.access.is_owners());
        let id = id.ok_or_else(|| Error::new(Reason::AccessTokenInvalid, "the owner's access ends with no session"))?;
        let shared = self.caller.shared.clone();
        let revoked = tokio::spawn(async move {
            shared.store.access_tokens().revoke(id).await?;
            shared.entrance.access_tokens.revoke(id);
            Ok::<_, Error>(())
        });
        revoked.await.map_err(Error::internal)?
    }

    fn manages(self, token: &AccessToken) -> bool {
        self.caller.access.tenant.is_empty() || token.tenant == *self.caller.access.tenant
    }
}
