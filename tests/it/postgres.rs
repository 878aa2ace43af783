//! A server of PostgreSQL for tests, one for each process: the system's own programs, in a temporary folder, on a Unix
//! socket, without syncing.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

/// Makes a cluster, runs it until the standard input ends, and removes it. It prints the folder once it is ready.
const SCRIPT: &str = r#"
set -e
folder=$(mktemp -d /tmp/longhand-postgres.XXXXXX)
trap 'rm -rf "$folder"' EXIT
"$1/initdb" --no-sync --auth=trust --locale=C.UTF-8 --username=longhand -D "$folder/data" >"$folder/log" 2>&1
"$1/postgres" -D "$folder/data" -k "$folder" -c listen_addresses= -c fsync=off -c full_page_writes=off \
    -c max_connections=400 -c autovacuum=off >>"$folder/log" 2>&1 </dev/null &
server=$!
while ! "$1/pg_isready" -q -h "$folder" -U longhand; do
    kill -0 $server
    sleep 0.05
done
echo "$folder"
read -r _ || true
kill -QUIT $server
wait $server || true
"#;

/// The folder of PostgreSQL's programs.
pub(crate) fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let programs = versions.filter_map(|version| Some(version.ok()?.path().join("bin")));
    programs.filter(|programs| programs.join("initdb").is_file()).max()
}

/// A command by somebody else than root: PostgreSQL refuses to run as root.
pub(crate) fn unprivileged(program: &str) -> Command {
    if !rustix::process::geteuid().is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=nobody", "--regid=nogroup", "--clear-groups", program]);
    command
}

/// A server, which ends with its process.
pub(crate) struct Server {
    folder: String,
    _running: Child,
}

impl Server {
    /// The server of this process; none if the machine has no PostgreSQL.
    pub(crate) fn shared() -> Option<&'static Self> {
        static SERVER: OnceLock<Option<Server>> = OnceLock::new();
        SERVER.get_or_init(Self::start).as_ref()
    }

    fn start() -> Option<Self> {
        let programs = programs()?;
        let mut command = unprivileged("sh");
        command.args(["-c", SCRIPT, "sh"]).arg(programs).current_dir("/tmp");
        let mut running = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a shell");
        let mut folder = String::new();
        BufReader::new(running.stdout.take().expect("a pipe")).read_line(&mut folder).expect("a line");
        let folder = folder.trim().to_owned();
        assert!(!folder.is_empty(), "PostgreSQL does not start");
        Some(Self { folder, _running: running })
    }

    /// The address of its database.
    pub(crate) fn url(&self) -> String {
        format!("postgres://longhand@localhost/postgres?host={}", self.folder)
    }
}
