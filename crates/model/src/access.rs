//! Access tokens: what a secret proves, and what its holder may do.

use super::ids::{AccessTokenId, SessionId};
use super::time::Timestamp;
use std::fmt;
use std::str::FromStr;

/// A kind of operation that a caller may be allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Reads sessions, views, events, compactions and presets.
    Read,
    /// Creates, changes, archives and forks sessions, and appends to and rewrites their history.
    Write,
    /// Requests, writes, cancels, undoes and redoes compactions.
    Compact,
    /// Erases content for good.
    Erase,
    /// Manages access tokens, and checks and copies the store as a whole.
    Admin,
}

impl Scope {
    /// Every scope.
    pub const ALL: [Self; 5] = [Self::Read, Self::Write, Self::Compact, Self::Erase, Self::Admin];

    /// The scope's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Compact => "compact",
            Self::Erase => "erase",
            Self::Admin => "admin",
        }
    }

    fn bit(self) -> u8 {
        1 << (self as u8)
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A name that no scope has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no scope: read, write, compact, erase or admin")]
pub struct UnknownScope(pub String);

impl FromStr for Scope {
    type Err = UnknownScope;

    fn from_str(name: &str) -> Result<Self, UnknownScope> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == name).ok_or_else(|| UnknownScope(name.to_owned()))
    }
}

/// A set of scopes. None contains another: who may write may not read by that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Scopes(u8);

impl Scopes {
    /// All scopes.
    pub fn all() -> Self {
        Scope::ALL.into_iter().collect()
    }

    /// True if the set has the scope.
    pub fn contains(self, scope: Scope) -> bool {
        self.0 & scope.bit() != 0
    }

    /// True if the set has every scope of another one.
    pub fn includes(self, other: Self) -> bool {
        other.0 & !self.0 == 0
    }

    /// The scopes in their order.
    pub fn iter(self) -> impl Iterator<Item = Scope> {
        Scope::ALL.into_iter().filter(move |scope| self.contains(*scope))
    }

    /// The set as a number, for a row.
    pub fn bits(self) -> i64 {
        self.0.into()
    }

    /// The set in a row; bits that no scope has are left out.
    pub fn from_bits(bits: i64) -> Self {
        Scope::ALL.into_iter().filter(|scope| bits & i64::from(scope.bit()) != 0).collect()
    }
}

impl FromIterator<Scope> for Scopes {
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Self {
        Self(scopes.into_iter().fold(0, |bits, scope| bits | scope.bit()))
    }
}

/// The sessions that an access token is bound to; each condition that is given must hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Binding {
    /// The project in a session's metadata.
    pub project: Option<String>,
    /// A session, with the sessions that work for it or were forked from it, at any depth.
    pub root: Option<SessionId>,
}

impl Binding {
    /// True if it leaves every session.
    pub fn is_empty(&self) -> bool {
        self.project.is_none() && self.root.is_none()
    }
}

/// An access token, without its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessToken {
    /// Its id, which is part of the secret's text.
    pub id: AccessTokenId,
    /// The principal that it proves.
    pub principal: String,
    /// The tenant whose sessions it opens; empty for the default tenant.
    pub tenant: String,
    /// What its holder may do.
    pub scopes: Scopes,
    /// The sessions that it is bound to.
    pub binding: Binding,
    /// Its creation.
    pub create_time: Timestamp,
    /// The end of its validity; none if it does not end by itself.
    pub expire_time: Option<Timestamp>,
    /// Its revocation.
    pub revoke_time: Option<Timestamp>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_are_a_set_that_a_row_keeps() {
        let some: Scopes = [Scope::Read, Scope::Admin].into_iter().collect();
        assert_eq!(Scopes::from_bits(some.bits()), some);
        assert_eq!(Scopes::from_bits(-1), Scopes::all());
        assert_eq!(some.iter().map(Scope::as_str).collect::<Vec<_>>(), ["read", "admin"]);
        assert!(Scopes::all().includes(some) && !some.includes(Scopes::all()));
        assert!(some.includes(Scopes::default()) && !some.contains(Scope::Write));
    }

    #[test]
    fn a_scope_is_read_by_its_name() {
        for scope in Scope::ALL {
            assert_eq!(scope.as_str().parse(), Ok(scope));
        }
        assert!("Read".parse::<Scope>().is_err());
    }
}
