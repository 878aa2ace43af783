//! The daemon under attack, in a process of its own.

use anyhow::{Context as _, Result, bail};
use hyper_util::rt::TokioIo;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tonic::transport::{Channel, Endpoint, Uri};

/// The first argument that makes the `attack` program run as the daemon: the rest is the command line of `longhand`,
/// and the code is that of the released program.
pub const AS_LONGHAND: &str = "longhand";

/// A running daemon. It is killed when it is dropped.
pub struct Daemon {
    child: Child,
    socket: PathBuf,
}

impl Daemon {
    /// Starts a daemon over a data directory and waits until it listens. `program` is the `attack` program; `change`
    /// adds arguments and variables.
    pub async fn start(program: &Path, directory: &Path, change: impl FnOnce(&mut Command)) -> Result<Self> {
        // The daemon refuses a data directory that others can enter.
        if directory.exists() {
            std::fs::set_permissions(directory, Permissions::from_mode(0o700))?;
        }
        let mut command = Command::new(program);
        command.args([AS_LONGHAND, "serve", "--data-dir"]).arg(directory);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        change(&mut command);
        let mut child = command.spawn().context("the daemon does not start")?;
        let stdout = child.stdout.take().context("no standard output")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).await?;
        if line.is_empty() {
            bail!("the daemon ended before it listened: {}", child.wait().await?);
        }
        Ok(Self { child, socket: directory.join("longhand.sock") })
    }

    /// The daemon's process id.
    pub fn id(&self) -> Result<Pid> {
        let id = self.child.id().context("the daemon has ended")?;
        Pid::from_raw(i32::try_from(id)?).context("no process has the number 0")
    }

    /// The exit status, if the daemon has ended.
    pub fn try_wait(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// The Unix socket on which it listens.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Kills the daemon without warning, and waits until it is gone.
    pub async fn kill(mut self) -> Result<ExitStatus> {
        kill_process(self.id()?, Signal::KILL)?;
        Ok(self.child.wait().await?)
    }

    /// Asks the daemon to stop, and waits until it has.
    pub async fn stop(mut self) -> Result<ExitStatus> {
        kill_process(self.id()?, Signal::TERM)?;
        Ok(self.child.wait().await?)
    }
}

/// A connection to the daemon at a socket, opened on first use.
pub fn connect(socket: &Path) -> Channel {
    let socket = socket.to_owned();
    Endpoint::from_static("http://localhost").connect_with_connector_lazy(tower::service_fn(move |_: Uri| {
        let socket = socket.clone();
        async move { Ok::<_, std::io::Error>(TokioIo::new(UnixStream::connect(socket).await?)) }
    }))
}
