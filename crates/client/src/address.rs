//! Addresses of daemons.

use crate::error::Error;
use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Address of a daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A Unix socket.
    Unix(PathBuf),
    /// `http://host:port` or `https://host:port`.
    Http(String),
}

impl Address {
    /// The socket of a daemon with this data directory.
    pub fn of_data_dir(data_dir: &Path) -> Self {
        Self::Unix(data_dir.join("longhand.sock"))
    }

    /// True for an address of this machine.
    pub fn is_local(&self) -> bool {
        let Self::Http(url) = self else { return true };
        let host = url.split_once("://").and_then(|(_, rest)| rest.rsplit_once(':')).map_or("", |(host, _)| host);
        let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
        host == "localhost" || address.is_ok_and(|address| address.is_loopback())
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
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        if let Some(path) = text.strip_prefix("unix://").or_else(|| text.strip_prefix("unix:")) {
            if path.is_empty() {
                return Err(Error::Invalid(format!("{text:?} names no socket: unix:/path")));
            }
            return Ok(Self::Unix(PathBuf::from(path)));
        }
        let parts = text.split_once("://").filter(|(scheme, _)| ["http", "https"].contains(scheme));
        let parts = parts.and_then(|(scheme, rest)| Some((scheme, rest.trim_end_matches('/').rsplit_once(':')?)));
        match parts {
            Some((scheme, (host, port))) if !host.is_empty() && !host.contains('/') && port.parse::<u16>().is_ok() => {
                Ok(Self::Http(format!("{scheme}://{host}:{port}")))
            }
            _ => Err(Error::Invalid(format!(
                "{text:?} is no server address: http://host:port, https://host:port or unix:/path"
            ))),
        }
    }
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
}
