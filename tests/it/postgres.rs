//! Servers of PostgreSQL for tests, most of which share one: the system's own programs, in a temporary folder, on a Unix
//! socket, without syncing.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::OnceLock;

/// Makes a cluster, or a standby of the one whose sockets are in the folder `$2`, and runs it until the standard input
/// ends, on the TCP port `$3` as well if there is one; it stops then without a checkpoint and is removed. Each line of the input restarts it. It prints its folder once
/// it is ready. The folder's name is short, because that of a socket has to be. A connection on which a client says nothing, as
/// a frozen one, keeps it from stopping until its time for that is over.
const SCRIPT: &str = r#"
set -e
folder=$(mktemp -d /tmp/longhand-postgres.XXXXXX)
trap 'rm -rf "$folder"' EXIT
if [ -z "$2" ]; then
    "$1/initdb" --no-sync --auth=trust --locale=C.UTF-8 --username=longhand -D "$folder/data" >"$folder/log" 2>&1
    printf '%s\n' 'fsync = off' 'full_page_writes = off' 'autovacuum = off' 'max_connections = 400' \
        'authentication_timeout = 5s' \
        >>"$folder/data/postgresql.conf"
else
    "$1/pg_basebackup" --no-sync -h "$2" -U longhand -D "$folder/data" -R --checkpoint=fast >"$folder/log" 2>&1
fi
while
    "$1/postgres" -D "$folder/data" -k "$folder" -p "${3:-5432}" -c listen_addresses="${3:+127.0.0.1}" \
        >>"$folder/log" 2>&1 </dev/null &
    server=$!
    while ! "$1/pg_isready" -q -h "$folder" -p "${3:-5432}" -U longhand; do
        kill -0 $server
        sleep 0.05
    done
    echo "$folder"
    read -r _
do
    kill -INT $server
    wait $server || true
done
kill -QUIT $server
wait $server || true
"#;

/// The folder of PostgreSQL's programs.
fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let programs = versions.filter_map(|version| Some(version.ok()?.path().join("bin")));
    programs.filter(|programs| programs.join("initdb").is_file()).max()
}

/// A command by somebody else than root: PostgreSQL refuses to run as root.
fn unprivileged(program: &str) -> Command {
    if !rustix::process::geteuid().is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=nobody", "--regid=nogroup", "--clear-groups", program]);
    command
}

/// A server, which ends as by a crash when it is dropped, and with its process.
pub(crate) struct Server {
    /// The folder of its sockets.
    pub(crate) folder: PathBuf,
    /// Its port, if it has TCP.
    port: Option<u16>,
    running: Child,
    /// A line comes whenever it is ready.
    ready: BufReader<ChildStdout>,
}

impl Server {
    /// The server that the tests of this process share; none, with a line that says so, if the machine has no PostgreSQL.
    pub(crate) fn shared() -> Option<&'static Self> {
        static SERVER: OnceLock<Option<Server>> = OnceLock::new();
        SERVER.get_or_init(|| Self::start(None)).as_ref()
    }

    /// Starts a server, as a standby of another one if there is one; none if the machine has no PostgreSQL.
    pub(crate) fn start(primary: Option<&Self>) -> Option<Self> {
        Self::start_as(primary, None)
    }

    /// Starts a server that has a port of TCP as well.
    pub(crate) fn start_on_tcp(port: u16) -> Option<Self> {
        Self::start_as(None, Some(port))
    }

    fn start_as(primary: Option<&Self>, port: Option<u16>) -> Option<Self> {
        let Some(programs) = programs() else {
            println!("skipped: this machine has no PostgreSQL");
            return None;
        };
        let mut command = unprivileged("sh");
        command.args(["-c", SCRIPT, "sh"]).arg(programs).current_dir("/tmp");
        command.arg(primary.map_or(Path::new(""), |primary| &primary.folder));
        command.args(port.map(|port| port.to_string()));
        let mut running = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a shell");
        let ready = BufReader::new(running.stdout.take().expect("a pipe"));
        let mut server = Self { folder: PathBuf::new(), port, running, ready };
        server.folder = server.is_ready().into();
        Some(server)
    }

    fn is_ready(&mut self) -> String {
        let mut folder = String::new();
        self.ready.read_line(&mut folder).expect("a line");
        assert!(!folder.trim().is_empty(), "PostgreSQL does not start");
        folder.trim().to_owned()
    }

    /// Restarts it as an operator does: connections end, and nothing is lost.
    pub(crate) fn restart(&mut self) {
        self.running.stdin.as_mut().expect("a pipe").write_all(b"\n").expect("a line");
        self.is_ready();
    }

    /// The address of its database.
    pub(crate) fn url(&self) -> String {
        url(&self.folder)
    }

    /// The rows of a statement on one of its databases, as text; else the error.
    pub(crate) fn sql(&self, database: &str, sql: &str) -> Result<String, String> {
        let programs = programs().ok_or("no PostgreSQL")?;
        let mut command = Command::new(programs.join("psql"));
        command.args(["-X", "-A", "-t", "-U", "longhand", "-d", database, "-c", sql, "-h"]).arg(&self.folder);
        command.args(self.port.map(|port| format!("--port={port}")));
        let output = command.output().map_err(|error| error.to_string())?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
    }

    /// The address of another database of it, which is made if it is not there.
    pub(crate) fn database(&self, name: &str) -> String {
        let programs = programs().expect("the server's own programs");
        let mut command = Command::new(programs.join("createdb"));
        let made = command.arg("-h").arg(&self.folder).args(["-U", "longhand", name]).output().expect("createdb");
        let error = String::from_utf8_lossy(&made.stderr).into_owned();
        assert!(made.status.success() || error.contains("already exists"), "{error}");
        self.url().replace("/postgres?", &format!("/{name}?"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.running.stdin.take());
        drop(self.running.wait());
    }
}

/// The address of the database of the server whose sockets are in a folder.
pub(crate) fn url(folder: &Path) -> String {
    format!("postgres://longhand@localhost/postgres?host={}", folder.display())
}
