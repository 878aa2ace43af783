//! Options of every command.

use super::address;
use super::client::Client;
use super::output::Output;
use super::times::Times;
use crate::clock::Clock;

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
    /// Address of the daemon, http://host:port or unix:/path; default: the socket in the default data directory
    #[arg(long, global = true, env = "LONGHAND_SERVER", value_name = "ADDRESS")]
    pub(super) server: Option<String>,
    /// Use colours: always, never, or auto, which is on a terminal unless NO_COLOR is set
    #[arg(long, global = true, default_value = "auto", value_name = "WHEN", hide_possible_values = true)]
    pub(super) color: clap::ColorChoice,
    /// Actor that the daemon records with every change of this command
    #[arg(long, global = true, default_value = "cli", value_name = "NAME")]
    pub(super) actor: String,
}

impl Globals {
    pub(super) async fn client(&self) -> anyhow::Result<Client> {
        Client::connect(&address::or_default(self.server.as_deref())?, &self.actor).await
    }

    /// The time of the command, for tables: relative on a terminal.
    pub(super) fn times(output: &Output) -> Times {
        if output.columns().is_some() { Times::Since(Clock::default().now()) } else { Times::Absolute }
    }

    pub(super) fn output(&self) -> Output {
        Output::new(self.json, self.raw, self.color)
    }
}
