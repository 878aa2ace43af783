//! Options of every command.

use super::output::Output;
use super::times::Times;
use crate::clock::Clock;
use longhand_client::target::NamedTarget;
use longhand_client::{Client, Error, Target};
use std::path::PathBuf;
use std::time::Duration;

/// Entries asked for per page.
pub(super) const PAGE_SIZE: i32 = 200;
/// The seconds in which a command tries a call again while the daemon does not answer: its restart takes moments.
const RETRY_SECONDS: u64 = 10;

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
    /// Seconds in which a call is tried again while the daemon does not answer or cannot serve it
    #[arg(long, global = true, env = "LONGHAND_RETRY", default_value_t = RETRY_SECONDS, value_name = "SECONDS")]
    pub(super) retry: u64,
    /// Use colours: always, never, or auto, which is on a terminal unless NO_COLOR is set
    #[arg(long, global = true, default_value = "auto", value_name = "WHEN", hide_possible_values = true)]
    pub(super) color: clap::ColorChoice,
    /// Actor that the daemon records with every change of this command
    #[arg(long, global = true, default_value = "cli", value_name = "NAME")]
    pub(super) actor: String,
}

impl Globals {
    pub(super) async fn client(&self) -> Result<Client, Error> {
        Ok(connect(self.target()?, &self.actor).await?.with_retry(Duration::from_secs(self.retry)))
    }

    /// The daemon to ask, with what proves who asks.
    pub(super) fn target(&self) -> Result<Target, Error> {
        Target::find(NamedTarget {
            address: self.server.clone(),
            token_file: self.token_file.clone(),
            ca_file: self.ca_file.clone(),
            tenant: self.tenant.clone(),
            run_epoch: self.run,
        })
    }

    /// The time of the command, for tables: relative on a terminal.
    pub(super) fn times(output: &Output) -> Times {
        if output.columns().is_some() { Times::Since(Clock::default().now()) } else { Times::Absolute }
    }

    pub(super) fn output(&self) -> Output {
        Output::new(self.json, self.raw, self.color)
    }
}

/// Connects a command to a daemon. A command waits for its answers as long as a person does.
pub(super) async fn connect(target: Target, actor: &str) -> Result<Client, Error> {
    Ok(Client::connect_to(target, actor).await?.with_retry(Duration::from_secs(RETRY_SECONDS)).with_timeout(None))
}
