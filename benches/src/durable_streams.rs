//! The server of `durable-streams`, a log of bytes over HTTP with group commit: an append is answered once its record is
//! in a log behind `fdatasync`.

use crate::fleet::OwnedProcess;
use crate::http1::Http1;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};

/// The server's process, killed when it is dropped.
pub(crate) struct Server {
    process: OwnedProcess,
    pub(crate) url: String,
}

impl Server {
    /// Starts the server that was installed in a folder, with its store in another one.
    pub(crate) fn start(installed: &Path, folder: &Path) -> Self {
        // It takes a number, and says no other.
        let free = TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr()).expect("a free port");
        let mut child = Command::new(installed.join("bin/durable-streams-server"))
            .args(["--durability", "wal", "--port", &free.port().to_string(), "--data-dir"])
            .arg(folder)
            .stdout(Stdio::piped())
            .spawn()
            .expect("`benches/peers` installs it");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("standard output is piped");
        BufReader::new(stdout).read_line(&mut line).expect("it says that it listens");
        Self { process: child.into(), url: format!("http://{free}") }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }
}

/// The path of a stream.
pub(crate) fn path(stream: &str) -> String {
    format!("/v1/stream/{stream}")
}

/// Creates a stream, and returns its name.
pub(crate) async fn create(connection: &mut Http1) -> String {
    let stream = uuid::Uuid::now_v7().simple().to_string();
    let request = connection.request("PUT", &path(&stream), MEDIA_TYPE, "");
    connection.call(&request).await;
    stream
}

/// The media type of the streams: their bytes are taken as they are.
pub(crate) const MEDIA_TYPE: &str = "application/octet-stream";
