//! What an operator can set: defaults, then the file, then the command line.

use serde::Deserialize;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Why the configuration cannot be used. The process exits with code 64 before it touches anything.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file is not what it should be.
    #[error("{path}: {message}")]
    Parse {
        /// The file.
        path: PathBuf,
        /// What is wrong, with the line.
        message: String,
    },
    /// The values do not go together.
    #[error("{0}")]
    Invalid(String),
}

/// What a committed write survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Durability {
    /// A crash of the machine: every commit is fsynced.
    #[default]
    Full,
    /// A crash of the daemon: commits reach the disk when the system writes them back.
    ProcessCrash,
}

/// Everything an operator can set.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Where the database, its lock and the default socket are.
    pub data_dir: PathBuf,
    /// The Unix socket to listen on; absent: `longhand.sock` in the data directory.
    pub socket: Option<PathBuf>,
    /// The TCP address to listen on; absent: none. Only loopback addresses are taken.
    pub listen: Option<SocketAddr>,
    /// What an acknowledged write survives.
    pub durability: Durability,
    /// The preset of sessions that name none.
    pub default_preset: String,
    /// Reductions that run at the same time.
    pub workers: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            data_dir: default_data_dir(),
            socket: None,
            listen: None,
            durability: Durability::Full,
            default_preset: "opencode@seed".to_owned(),
            workers: 2,
        }
    }
}

impl Config {
    /// Reads the file, if one is named, over the defaults.
    pub fn load(file: Option<&Path>) -> Result<Self, Error> {
        let Some(path) = file else { return Ok(Self::default()) };
        let text = std::fs::read_to_string(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
        toml::from_str(&text).map_err(|error| Error::Parse { path: path.to_owned(), message: error.to_string() })
    }

    /// Refuses values that do not go together, before anything is opened.
    pub fn validate(&self) -> Result<(), Error> {
        if let Some(listen) = self.listen.filter(|address| !address.ip().is_loopback()) {
            return Err(Error::Invalid(format!(
                "{listen} is not a loopback address: without TLS and authentication the daemon listens on loopback only"
            )));
        }
        if self.workers == 0 || self.workers > 64 {
            return Err(Error::Invalid(format!("workers is {}, not 1 to 64", self.workers)));
        }
        if crate::policy::presets::find(&self.default_preset).is_none() {
            return Err(Error::Invalid(format!("default_preset {:?} is not a preset", self.default_preset)));
        }
        Ok(())
    }

    /// The Unix socket in force.
    pub fn socket_path(&self) -> PathBuf {
        self.socket.clone().unwrap_or_else(|| self.data_dir.join("longhand.sock"))
    }
}

/// The platform's data directory for Longhand: `$XDG_DATA_HOME/longhand`, or what stands for it.
pub fn default_data_dir() -> PathBuf {
    let from = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(data) = from("XDG_DATA_HOME") {
        return data.join("longhand");
    }
    let home = from("HOME").unwrap_or_else(|| PathBuf::from("."));
    if cfg!(target_os = "macos") {
        home.join("Library/Application Support/longhand")
    } else {
        home.join(".local/share/longhand")
    }
}
