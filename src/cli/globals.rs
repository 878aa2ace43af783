//! Options of every command.

use super::address::{self, Address};
use super::client::{Client, Target};
use super::output::Output;
use super::times::Times;
use crate::clock::Clock;
use crate::config::Config;
use crate::daemon;
use anyhow::Context as _;
use std::path::{Path, PathBuf};

/// The variable with an access token. A secret on a command line would be seen by every process.
const TOKEN_VARIABLE: &str = "LONGHAND_TOKEN";

/// Options of every command.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Options of every command")]
pub(super) struct Globals {
    /// Print JSON: the protobuf mapping, one object or one per line
    #[arg(long, global = true)]
    pub(super) json: bool,
    /// Print control characters in texts and names unescaped
    #[arg(long, global = true, conflicts_with = "json")]
    pub(super) raw: bool,
    /// Address of the daemon, http(s)://host:port or unix:/path; default: the socket in the default data directory
    #[arg(long, global = true, env = "LONGHAND_SERVER", value_name = "ADDRESS")]
    pub(super) server: Option<String>,
    /// File with the access token for an address on TCP; default: LONGHAND_TOKEN, or the owner's on this machine
    #[arg(long, global = true, env = "LONGHAND_TOKEN_FILE", value_name = "FILE")]
    pub(super) token_file: Option<PathBuf>,
    /// File with the certificates in PEM that the daemon's must be of; default: those that the system trusts
    #[arg(long, global = true, env = "LONGHAND_CA_FILE", value_name = "FILE")]
    pub(super) ca_file: Option<PathBuf>,
    /// Tenant in which to act, for the owner and access tokens of the default tenant; default: the caller's own
    #[arg(long, global = true, env = "LONGHAND_TENANT", value_name = "NAME")]
    pub(super) tenant: Option<String>,
    /// Number of the run on whose behalf changes are made: they are refused once it is not the session's active one
    #[arg(long, global = true, env = "LONGHAND_RUN", value_name = "EPOCH")]
    pub(super) run: Option<i64>,
    /// Use colours: always, never, or auto, which is on a terminal unless NO_COLOR is set
    #[arg(long, global = true, default_value = "auto", value_name = "WHEN", hide_possible_values = true)]
    pub(super) color: clap::ColorChoice,
    /// Actor that the daemon records with every change of this command
    #[arg(long, global = true, default_value = "cli", value_name = "NAME")]
    pub(super) actor: String,
}

impl Globals {
    pub(super) async fn client(&self) -> anyhow::Result<Client> {
        Client::connect(&self.target()?, &self.actor).await
    }

    /// The daemon to ask, with what proves who asks.
    pub(super) fn target(&self) -> anyhow::Result<Target> {
        let address = address::or_default(self.server.as_deref())?;
        let read = |path: &Path| std::fs::read_to_string(path).with_context(|| path.display().to_string());
        let secret = match (&address, &self.token_file, std::env::var(TOKEN_VARIABLE)) {
            (Address::Unix(_), ..) => None,
            (_, Some(path), _) => Some(read(path)?),
            (_, None, Ok(secret)) if !secret.is_empty() => Some(secret),
            // The owner's own daemon on this machine.
            _ if address.is_local() => read(&daemon::secret_path(&Config::default().data_dir)).ok(),
            _ => None,
        };
        let authorities = self.ca_file.as_deref().map(read).transpose()?;
        let secret = secret.map(|secret| secret.trim().to_owned());
        Ok(Target { address, secret, authorities, tenant: self.tenant.clone(), epoch: self.run })
    }

    /// The time of the command, for tables: relative on a terminal.
    pub(super) fn times(output: &Output) -> Times {
        if output.columns().is_some() { Times::Since(Clock::default().now()) } else { Times::Absolute }
    }

    pub(super) fn output(&self) -> Output {
        Output::new(self.json, self.raw, self.color)
    }
}
