//! A Longhand daemon, and the provider that writes its summaries.

pub(crate) mod session;
mod wire;

use crate::harness::PeerFailure;
use serde_json::{Value, json};
use std::fmt;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use tokio::runtime::Runtime;
use tokio::sync::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tonic::transport::{Channel, Endpoint};

/// Text in requests for a summary of the beginning of a turn.
const OF_FRONT: &str = "It is the beginning of one long turn.";

/// The daemon, in a separate folder. It ends when this is dropped, and the folder is removed.
pub(crate) struct Daemon {
    child: Child,
    folder: PathBuf,
    runtime: Runtime,
    channel: Channel,
    /// The requests to the provider, of one session at a time.
    requests: Mutex<UnboundedReceiver<Request>>,
}

/// A request for a summary that waits for its answer.
struct Request {
    prompt: Prompt,
    answer: mpsc::Sender<String>,
}

/// The text of a request for a summary.
struct Prompt {
    /// True if it is about the beginning of a turn.
    front: bool,
    text: String,
}

/// The path of the daemon's binary, beside this program.
pub(crate) fn binary() -> Result<PathBuf, PeerFailure> {
    let own = std::env::current_exe().map_err(|error| PeerFailure::new(&format!("no path of our own: {error}")))?;
    let found = Some(own.with_file_name("longhand")).filter(|path| path.is_file());
    found.ok_or_else(|| PeerFailure::new("there is no daemon: `cargo build --bin longhand` makes it"))
}

impl Daemon {
    /// Starts the daemon and its provider.
    pub(crate) fn start(folder: &Path) -> Result<Self, PeerFailure> {
        let failed = |what: &str, error: &dyn std::fmt::Display| PeerFailure::new(&format!("{what}: {error}"));
        let runtime = Runtime::new().map_err(|error| failed("no runtime", &error))?;
        let (sender, requests) = unbounded_channel();
        let address = serve(sender).map_err(|error| failed("no provider", &error))?;
        let folder = folder.join(format!("daemon-{}", std::process::id()));
        fs::create_dir_all(&folder).map_err(|error| failed("no folder", &error))?;
        let settings = folder.join("longhand.toml");
        let text = format!(
            "[summarizers.conformance]\nkind = \"openai-chat\"\nbase_url = \"http://{address}/v1\"\nmodel = \"m\"\n\
             window = 2000000\nmax_output = 8000\n[summarizer]\nauto = \"conformance\"\ndeep = \"conformance\"\n"
        );
        fs::write(&settings, text).map_err(|error| failed("no settings", &error))?;
        let mut command = Command::new(binary()?);
        command.args(["serve", "--json", "--listen", "off", "--data-dir"]).arg(folder.join("store"));
        command.arg("--config").arg(&settings).stdout(Stdio::piped());
        command.stderr(fs::File::create(folder.join("stderr.log")).map_err(|error| failed("no log", &error))?);
        let mut child = command.spawn().map_err(|error| failed("the daemon does not start", &error))?;
        let mut line = String::new();
        if let Some(output) = child.stdout.take() {
            BufReader::new(output).read_line(&mut line).map_err(|error| failed("the daemon says nothing", &error))?;
        }
        let announced: Value = serde_json::from_str(&line).unwrap_or_default();
        let server = announced["socket"].as_str().unwrap_or_default().to_owned();
        let endpoint = Endpoint::from_shared(server).map_err(|error| failed("no address", &error))?;
        let channel =
            runtime.block_on(endpoint.connect()).map_err(|error| failed("the daemon does not listen", &error))?;
        Ok(Self { child, folder, runtime, channel, requests: Mutex::new(requests) })
    }
}

impl fmt::Debug for Daemon {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Daemon").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl PartialEq for Daemon {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Daemon {}

impl Drop for Daemon {
    fn drop(&mut self) {
        // The process or the folder may be gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Passes on the requests for summaries at a new address, each on a thread of its own.
fn serve(requests: UnboundedSender<Request>) -> std::io::Result<std::net::SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let requests = requests.clone();
            // The daemon repeats an interrupted request.
            std::thread::spawn(move || pass_on(stream, &requests));
        }
    });
    Ok(address)
}

fn pass_on(stream: TcpStream, requests: &UnboundedSender<Request>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let request: Value = serde_json::from_slice(&body)?;
    let messages = request["messages"].as_array().into_iter().flatten();
    let asked = messages.filter(|message| message["role"] == "user").filter_map(|message| message["content"].as_str());
    let text: String = asked.collect();
    let prompt = Prompt { front: text.contains(OF_FRONT), text };
    let (answer, answered) = mpsc::channel();
    // A run that has ended answers nothing.
    let gone = |_| std::io::Error::other("the run has ended");
    requests.send(Request { prompt, answer }).map_err(|_| std::io::Error::other("the run has ended"))?;
    let words = answered.recv().map_err(gone)?;
    let reply = json!({
        "object": "chat.completion", "model": "m",
        "choices": [{ "message": { "role": "assistant", "content": words }, "finish_reason": "stop" }],
    });
    let reply = reply.to_string();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: ";
    let mut stream = reader.into_inner();
    stream.write_all(format!("{head}{}\r\n\r\n{reply}", reply.len()).as_bytes())?;
    stream.flush()
}
