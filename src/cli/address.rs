//! Addresses of daemons.

use super::failure::Usage;
use crate::config;
use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Address of a daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Address {
    /// A Unix socket.
    Unix(PathBuf),
    /// `http://host:port` or `https://host:port`.
    Http(String),
}

impl Address {
    /// The socket that a daemon without arguments listens on.
    pub(super) fn default_socket() -> Self {
        Self::Unix(config::Config::default().socket_path())
    }

    /// True for an address of this machine.
    pub(super) fn is_local(&self) -> bool {
        let Self::Http(url) = self else { return true };
        let host = url.split_once("://").and_then(|(_, rest)| rest.rsplit_once(':')).map_or("", |(host, _)| host);
        let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
        host == "localhost" || address.is_ok_and(|address| address.is_loopback())
    }

    /// The address of a socket.
    pub(super) fn of_socket(path: &Path) -> Self {
        Self::Unix(path.to_owned())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Http(address) => f.write_str(address),
        }
    }
}

impl FromStr for Address {
    type Err = Usage;

    fn from_str(text: &str) -> Result<Self, Usage> {
        if let Some(path) = text.strip_prefix("unix://").or_else(|| text.strip_prefix("unix:")) {
            if path.is_empty() {
                return Err(Usage(format!("{text:?} names no socket: unix:/path")));
            }
            return Ok(Self::Unix(PathBuf::from(path)));
        }
        let parts = text.split_once("://").filter(|(scheme, _)| ["http", "https"].contains(scheme));
        let parts = parts.and_then(|(scheme, rest)| Some((scheme, rest.trim_end_matches('/').rsplit_once(':')?)));
        match parts {
            Some((scheme, (host, port))) if !host.is_empty() && !host.contains('/') && port.parse::<u16>().is_ok() => {
                Ok(Self::Http(format!("{scheme}://{host}:{port}")))
            }
            _ => {
                Err(Usage(format!("{text:?} is no server address: http://host:port, https://host:port or unix:/path")))
            }
        }
    }
}

/// The given address; the default one if none is given.
pub(super) fn or_default(given: Option<&str>) -> Result<Address, Usage> {
    given.filter(|text| !text.is_empty()).map_or_else(|| Ok(Address::default_socket()), str::parse)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_printed() {
        for (text, printed) in [
            ("unix:/run/longhand.sock", "unix:/run/longhand.sock"),
            ("unix:///run/longhand.sock", "unix:/run/longhand.sock"),
            ("unix:relative.sock", "unix:relative.sock"),
            ("http://127.0.0.1:7070", "http://127.0.0.1:7070"),
            ("http://localhost:7070/", "http://localhost:7070"),
            ("http://[::1]:7070", "http://[::1]:7070"),
            ("https://box.lan:7070/", "https://box.lan:7070"),
        ] {
            let address: Address = text.parse().expect(text);
            assert_eq!(address.to_string(), printed);
        }
    }

    #[test]
    fn an_invalid_address_is_refused_with_the_valid_forms() {
        for text in [
            "localhost:7070",
            "http://localhost",
            "http://localhost:port",
            "ftp://localhost:1",
            "unix:",
            "",
            "http://:1",
        ] {
            let error = text.parse::<Address>().expect_err(text);
            assert!(error.to_string().contains("unix:/path"), "{error}");
        }
    }

    #[test]
    fn nothing_given_means_the_default_socket() {
        for given in [None, Some("")] {
            let address = or_default(given).expect("a default");
            assert!(address.to_string().ends_with("/longhand.sock"), "{address}");
        }
    }
}
