//! `longhand console`: a link that opens the console in a browser, once.

use super::{Globals, consent, failure, start};
use crate::config::Config;
use crate::daemon;
use crate::grpc::scopes;
use crate::model::access::Scope;
use crate::pb;
use anyhow::Context as _;
use longhand_client::{Address, Client, Error};
use std::fs::File;
use std::io::{self, IsTerminal as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::{ExitCode, Stdio};
use std::time::Duration;

/// Programs that open a link in the user's browser.
const OPENERS: [&str; 2] = ["xdg-open", "open"];
/// Mode of a file that its owner alone reads.
const PRIVATE: u32 = 0o600;
/// Time in which a browser reads the page that leads to the link.
const BROWSER_TIME: Duration = Duration::from_secs(5);

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Open the link in the browser of this machine, too
    #[arg(long)]
    open: bool,
    /// The principal whose session it opens: the author of what is changed in the console; default: console
    #[arg(long, value_name = "NAME")]
    principal: Option<String>,
    /// What the session may do: read, write, compact, erase, admin; default: read, write and compact, as far as you may
    #[arg(long, value_name = "SCOPES", value_delimiter = ',')]
    scopes: Vec<Scope>,
    /// Tenant whose sessions it shows; default: your own
    #[arg(long = "of-tenant", value_name = "NAME")]
    of_tenant: Option<String>,
    /// Binds it to the sessions of this project, by the `project` of their metadata
    #[arg(long, value_name = "NAME")]
    project: Option<String>,
    /// Binds it to this session and those below it
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
    /// Hours after which the browser's session ends, up to 720; default: 12
    #[arg(long, value_name = "HOURS", value_parser = clap::value_parser!(i64).range(1..=720))]
    hours: Option<i64>,
}

pub(super) async fn run(globals: &Globals, arguments: Arguments) -> anyhow::Result<ExitCode> {
    let client = match globals.client().await {
        Err(error @ Error::Unreachable { .. }) if globals.server.is_none() => start_daemon(globals, error).await?,
        client => client?,
    };
    let base = base(&client.target().address)?;
    let request = pb::CreateConsoleLinkRequest {
        principal: arguments.principal.unwrap_or_default(),
        tenant: arguments.of_tenant,
        scopes: arguments.scopes.iter().map(|one| scopes::scope(*one).into()).collect(),
        project: arguments.project,
        root_session_id: arguments.session,
        session_timeout: arguments.hours.map(|hours| prost_types::Duration { seconds: hours * 3_600, nanos: 0 }),
    };
    let created = client.call(request).await?;
    let link = format!("{base}{}", created.path);
    let mut output = globals.output();
    if output.json() {
        output.message(&created)?;
    } else {
        output.line(&link)?;
    }
    output.flush()?;
    if arguments.open && !opened(&link).await {
        eprintln!("No browser could be started: open the link yourself, within two minutes.");
    }
    Ok(ExitCode::SUCCESS)
}

/// Starts the daemon that does not answer, if a person wants it.
async fn start_daemon(globals: &Globals, unreachable: Error) -> anyhow::Result<Client> {
    let can_be_asked = consent::can_be_asked() && io::stderr().is_terminal();
    if !can_be_asked || !consent::is_given("no daemon runs: start one in the background?")? {
        return Err(unreachable.into());
    }
    let data_dir = Config::default().data_dir;
    let daemon = start::daemon(&data_dir, true).await?;
    let (id, log) = (daemon.id().unwrap_or_default(), start::log_path(&data_dir));
    failure::note(&format!(
        "It runs until `kill {id}`, and its log is {}; `longhand up` makes it a service.",
        log.display()
    ));
    Ok(globals.client().await?)
}

/// A link to the console of a daemon of this user.
pub(super) async fn link(client: &Client, address: &Address) -> anyhow::Result<String> {
    let base = base(address)?;
    let created = client.call(pb::CreateConsoleLinkRequest::default()).await?;
    Ok(format!("{base}{}", created.path))
}

/// The URL of a daemon for browsers.
fn base(address: &Address) -> anyhow::Result<String> {
    let socket = match address {
        Address::Http(url) => return Ok(url.clone()),
        Address::Unix(path) => path,
    };
    let file = daemon::url_path(socket.parent().unwrap_or(Path::new(".")));
    let url = std::fs::read_to_string(&file).with_context(|| {
        format!(
            "{} is not there: a browser needs a daemon that runs and listens on TCP (`listen` in its configuration), \
             or its address in --server",
            file.display()
        )
    })?;
    Ok(url.trim().to_owned())
}

/// Opens a link in a browser; false if no program does. The link has a secret, and arguments of programs are seen by
/// everybody on the machine: the browser gets a page of this user's own that leads to it.
async fn opened(link: &str) -> bool {
    let path = std::env::temp_dir().join(format!("longhand-console-{}.html", std::process::id()));
    let page = format!("<!doctype html><meta http-equiv=\"refresh\" content=\"0;url={link}\">");
    let mut options = File::options();
    let written = options.write(true).create_new(true).mode(PRIVATE).open(&path);
    if written.and_then(|mut file| file.write_all(page.as_bytes())).is_err() {
        return false;
    }
    let is_opened = OPENERS.iter().any(|program| {
        let mut command = std::process::Command::new(program);
        command.arg(&path).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().is_ok()
    });
    if is_opened {
        // The browser reads it when it comes to it.
        tokio::time::sleep(BROWSER_TIME).await;
    }
    drop(std::fs::remove_file(&path));
    is_opened
}
