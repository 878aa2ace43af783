//! `longhand serve`: runs the daemon until a signal stops it.

use super::Globals;
use super::output::Output;
use super::signals::{INTERRUPTED, Signals};
use crate::config::{Config, ListenAddress};
use crate::daemon;
use longhand_client::Address;
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Directory of the database; default: the platform's data directory
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// TCP address to listen on, or off; default: a free port of 127.0.0.1, in longhand.url of the data directory
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<ListenAddress>,
    /// Unix socket to listen on; default: longhand.sock in the data directory
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// PostgreSQL database with the sessions, as postgres://…; default: a file of SQLite in the data directory
    #[arg(long, value_name = "URL", env = "LONGHAND_DATABASE", hide_env_values = true)]
    database: Option<String>,
    /// Number of shards that the database has at least; default: 1
    #[arg(long, value_name = "N", env = "LONGHAND_SHARDS")]
    shards: Option<u32>,
    /// Table of models, as packaging/models writes it; default: the one that is built in
    #[arg(long, value_name = "FILE")]
    models: Option<PathBuf>,
    /// TOML file with further settings; options override it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl Arguments {
    fn config(self) -> Result<Config, crate::config::Error> {
        let mut config = Config::load(self.config.as_deref())?;
        config.data_dir = self.data_dir.unwrap_or(config.data_dir);
        config.socket = self.socket.or(config.socket);
        config.database = self.database.or(config.database);
        config.cluster.shards = self.shards.unwrap_or(config.cluster.shards);
        config.models = self.models.or(config.models);
        config.listen = self.listen.unwrap_or(config.listen);
        config.validate()?;
        Ok(config)
    }
}

/// Addresses on which the daemon listens, as JSON.
#[derive(Serialize)]
struct Announcement {
    socket: String,
    tcp: Option<String>,
}

pub(super) async fn run(globals: &Globals, arguments: Arguments) -> anyhow::Result<ExitCode> {
    let config = arguments.config()?;
    crate::telemetry::start();
    let mut signals = Signals::listen()?;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let (output, store) = (globals.output(), store(&config));
    // A failed write is ignored: the reader may be gone.
    let announced = |listening: &daemon::ListenAddresses| drop(announce(output, listening, &store));
    let serving = daemon::run(config, async { drop(stopped.await) }, announced);
    // The first signal asks for a clean stop; the second one ends the process at once.
    let signalled = async {
        signals.next().await;
        drop(stop);
        signals.next().await;
    };
    tokio::select! {
        result = serving => result.map(|()| ExitCode::SUCCESS).map_err(anyhow::Error::from),
        () = signalled => Ok(ExitCode::from(INTERRUPTED)),
    }
}

/// Where the sessions are. The URL of a database may have a password.
fn store(config: &Config) -> String {
    let folder = config.data_dir.display();
    if config.database.is_some() { "a PostgreSQL database".to_owned() } else { folder.to_string() }
}

/// Prints one line with the addresses on which the daemon listens, and for people how to see it.
fn announce(mut output: Output, listening: &daemon::ListenAddresses, store: &str) -> anyhow::Result<()> {
    // Clients may run in another folder.
    let socket = std::path::absolute(&listening.socket).unwrap_or_else(|_| listening.socket.clone());
    let socket = format!("unix:{}", socket.display());
    let tcp = listening.tcp.clone();
    if output.json() {
        output.value(&Announcement { socket, tcp })?;
        return Ok(output.flush()?);
    }
    let is_default = Address::of_data_dir(&Config::default().data_dir).to_string() == socket;
    let server = if is_default { String::new() } else { format!(" --server {socket}") };
    let addresses: Vec<String> = std::iter::once(socket).chain(tcp).collect();
    let line = format!("longhand {} listens on {}", env!("CARGO_PKG_VERSION"), addresses.join(" and "));
    output.wrapped_line(&line, "")?;
    if output.columns().is_some() {
        let how = format!("In another terminal, `longhand{server} console` shows it in a browser; Ctrl-C stops it.");
        output.wrapped_line(&format!("Its store is {store}. {how}"), "")?;
    }
    Ok(output.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments() -> Arguments {
        Arguments {
            data_dir: None,
            listen: None,
            socket: None,
            database: None,
            shards: None,
            models: None,
            config: None,
        }
    }

    #[test]
    fn the_command_line_wins_over_the_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("longhand.toml");
        std::fs::write(&file, "data_dir = \"/file\"\nsocket = \"/file.sock\"\nworkers = 3\n").expect("a file");
        let given = Arguments { data_dir: Some("/flag".into()), config: Some(file), ..arguments() };
        let config = given.config().expect("a configuration");
        assert_eq!(config.data_dir, PathBuf::from("/flag"));
        assert_eq!(config.socket, Some(PathBuf::from("/file.sock")));
        assert_eq!(config.workers, 3);
    }

    #[test]
    fn an_address_that_others_reach_is_refused() {
        let given = Arguments { listen: Some("0.0.0.0:7070".parse().expect("an address")), ..arguments() };
        assert!(given.config().expect_err("a refusal").to_string().contains("loopback"));
    }
}
