//! Which daemon is asked, and what proves who asks: found as the command line finds it.

use crate::address::Address;
use crate::error::{Error, Result};
use std::env;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// The variable with an access token. A secret on a command line would be seen by every process.
const TOKEN_VARIABLE: &str = "LONGHAND_TOKEN";

/// What reaches a daemon, and proves who asks.
#[derive(Clone, PartialEq, Eq)]
pub struct Target {
    /// The address.
    pub address: Address,
    /// The access token; none on a Unix socket.
    pub token: Option<String>,
    /// Certificates in PEM of which the daemon's must be one; none for those that the system trusts.
    pub authorities: Option<String>,
    /// The tenant in which to act; none for the caller's own.
    pub tenant: Option<String>,
    /// The number of the run on whose behalf changes are made: they are refused with `RUN_LOST` once it is not the
    /// session's active one.
    pub run_epoch: Option<i64>,
}

/// What the caller names of a target; the rest is found.
#[derive(Debug, Clone, Default)]
pub struct NamedTarget {
    /// The address; the socket in the default data directory if it is not given.
    pub address: Option<String>,
    /// The file with the access token.
    pub token_file: Option<PathBuf>,
    /// The file with certificates in PEM of which the daemon's must be one.
    pub ca_file: Option<PathBuf>,
    /// The tenant.
    pub tenant: Option<String>,
    /// The run.
    pub run_epoch: Option<i64>,
}

impl Target {
    /// A daemon whose socket this program's user owns.
    pub fn local(address: Address) -> Self {
        Self { address, token: None, authorities: None, tenant: None, run_epoch: None }
    }

    /// The daemon that the environment names: `LONGHAND_SERVER`, `LONGHAND_TOKEN_FILE`, `LONGHAND_TOKEN`,
    /// `LONGHAND_CA_FILE`, `LONGHAND_TENANT` and `LONGHAND_RUN`.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] and [`Error::Unreadable`].
    pub fn from_environment() -> Result<Self> {
        let text = |name: &str| env::var(name).ok().filter(|text| !text.is_empty());
        let number = |text: String| {
            text.parse().map_err(|_| Error::Invalid(format!("LONGHAND_RUN: {text:?} is no number of a run")))
        };
        Self::find(NamedTarget {
            address: text("LONGHAND_SERVER"),
            token_file: text("LONGHAND_TOKEN_FILE").map(PathBuf::from),
            ca_file: text("LONGHAND_CA_FILE").map(PathBuf::from),
            tenant: text("LONGHAND_TENANT"),
            run_epoch: text("LONGHAND_RUN").map(number).transpose()?,
        })
    }

    /// The daemon that the caller names. The access token, for TCP alone, is that of the file, else `LONGHAND_TOKEN`, else
    /// the owner's in the default data directory for an address of this machine.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] and [`Error::Unreadable`].
    pub fn find(named: NamedTarget) -> Result<Self> {
        let NamedTarget { address, token_file, ca_file, tenant, run_epoch } = named;
        let data_dir = default_data_dir();
        let address = match address.filter(|text| !text.is_empty()) {
            Some(text) => text.parse()?,
            None => Address::of_data_dir(&data_dir),
        };
        let token = match (&address, token_file, env::var(TOKEN_VARIABLE)) {
            (Address::Unix(_), ..) => None,
            (_, Some(path), _) => Some(read_text(&path)?),
            (_, None, Ok(token)) if !token.is_empty() => Some(token),
            // The owner's own daemon on this machine.
            _ if address.is_local() => read_text(&data_dir.join("access-token")).ok(),
            _ => None,
        };
        let authorities = ca_file.as_deref().map(read_text).transpose()?;
        let token = token.map(|token| token.trim().to_owned());
        Ok(Self { address, token, authorities, tenant, run_epoch })
    }
}

/// The token is not printed.
impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target").field("address", &self.address).field("tenant", &self.tenant).finish_non_exhaustive()
    }
}

/// The data directory of a daemon without arguments: `$XDG_DATA_HOME/longhand`, or the platform's equivalent.
pub fn default_data_dir() -> PathBuf {
    let from = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(data) = from("XDG_DATA_HOME") {
        return data.join("longhand");
    }
    let home = from("HOME").unwrap_or_else(|| PathBuf::from("."));
    let data = if cfg!(target_os = "macos") { "Library/Application Support" } else { ".local/share" };
    home.join(data).join("longhand")
}

fn read_text(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(|error| Error::Unreadable { path: path.to_owned(), message: error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_named_means_the_default_socket() {
        for address in [None, Some(String::new())] {
            let target = Target::find(NamedTarget { address, ..NamedTarget::default() }).expect("a default");
            assert!(target.address.to_string().ends_with("/longhand.sock"), "{target:?}");
            assert_eq!(target.token, None);
        }
    }

    #[test]
    fn what_is_named_and_cannot_be_read_is_an_error() {
        let address = Some("https://box.lan:7070".to_owned());
        let named = NamedTarget { address, token_file: Some("/nowhere/token".into()), ..NamedTarget::default() };
        let error = Target::find(named.clone()).expect_err("no such file");
        assert!(matches!(&error, Error::Unreadable { path, .. } if path.ends_with("token")), "{error}");
        let named = NamedTarget { token_file: None, ca_file: Some("/nowhere/ca".into()), ..named };
        assert!(Target::find(named).is_err());
    }
}
