//! A Longhand daemon, and the provider that writes its summaries.

use crate::harness::PeerFailure;
use longhand::pb;
use longhand::pb::context_service_client::ContextServiceClient;
use longhand::pb::message_service_client::MessageServiceClient;
use longhand::pb::session_service_client::SessionServiceClient;
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::runtime::Runtime;
use tonic::transport::{Channel, Endpoint};

/// Maximum wait of a view for the daemon's decision, in seconds.
const WAIT_SECONDS: i64 = 60;

/// Text in requests for a summary of the beginning of a turn.
const OF_FRONT: &str = "It is the beginning of one long turn.";

/// The daemon, in a separate folder. It ends when this is dropped, and the folder is removed.
pub(crate) struct Daemon {
    child: Child,
    folder: PathBuf,
    runtime: Runtime,
    channel: Channel,
    provider: Arc<Mutex<Provider>>,
}

/// The state of the simulated provider.
#[derive(Default)]
pub(crate) struct Provider {
    /// Answers, by the subject of a request: the history, or the beginning of a turn.
    pub(crate) words: [String; 2],
    /// The requests since they were last taken.
    pub(crate) prompts: Vec<Prompt>,
}

/// A request for a summary.
pub(crate) struct Prompt {
    /// True if it is about the beginning of a turn.
    pub(crate) front: bool,
    pub(crate) text: String,
}

/// A view as the daemon serves it.
#[derive(Debug, Default)]
pub(crate) struct View {
    pub(crate) header: pb::ContextHeader,
    pub(crate) messages: Vec<pb::ContextMessage>,
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
        let provider = Arc::new(Mutex::new(Provider::default()));
        let address = serve(&provider).map_err(|error| failed("no provider", &error))?;
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
        Ok(Self { child, folder, runtime, channel, provider })
    }

    /// Calls `work` with the state of the provider.
    pub(crate) fn provider<T>(&self, work: impl FnOnce(&mut Provider) -> T) -> T {
        work(&mut self.provider.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Creates a session; returns its id.
    pub(crate) fn create(&self, request: pb::CreateSessionRequest) -> Result<String, PeerFailure> {
        let mut client = SessionServiceClient::new(self.channel.clone());
        let made = self.runtime.block_on(client.create_session(request)).map_err(refused)?.into_inner();
        Ok(made.session.map(|session| session.session_id).unwrap_or_default())
    }

    /// Appends a message.
    pub(crate) fn append(&self, session_id: &str, message: pb::NewMessage) -> Result<(), PeerFailure> {
        let session_id = session_id.to_owned();
        let request = pb::AppendMessagesRequest { session_id, messages: vec![message], ..Default::default() };
        let mut client = MessageServiceClient::new(self.channel.clone());
        self.runtime.block_on(client.append_messages(request)).map_err(refused)?;
        Ok(())
    }

    /// The view, once the daemon has made its decision about the session and carried it out.
    pub(crate) fn view(&self, session_id: &str) -> Result<View, PeerFailure> {
        // `WAIT` takes effect only if the view exceeds the window, and every view exceeds this one.
        let waits = pb::GetContextRequest {
            window: Some(pb::ModelWindow { max_context_tokens: 1, ..Default::default() }),
            overflow_action: pb::OverflowAction::Wait.into(),
            wait_timeout: Some(prost_types::Duration { seconds: WAIT_SECONDS, nanos: 0 }),
            ..pb::GetContextRequest::default()
        };
        let mut view = View::default();
        for request in [waits, pb::GetContextRequest::default()] {
            let request = pb::GetContextRequest { session_id: session_id.to_owned(), ..request };
            view = self.runtime.block_on(self.context(request))?;
        }
        match view.header.pending_compaction_id {
            Some(_) => Err(PeerFailure::new(&format!("nothing was decided in {WAIT_SECONDS} seconds"))),
            None => Ok(view),
        }
    }

    async fn context(&self, request: pb::GetContextRequest) -> Result<View, PeerFailure> {
        use pb::get_context_response::Frame;
        let mut client = ContextServiceClient::new(self.channel.clone());
        let mut frames = client.get_context(request).await.map_err(refused)?.into_inner();
        let mut view = View::default();
        while let Some(frame) = frames.message().await.map_err(refused)? {
            match frame.frame {
                Some(Frame::Header(header)) => view.header = header,
                Some(Frame::Messages(messages)) => view.messages.extend(messages.messages),
                Some(Frame::End(_)) | None => {}
            }
        }
        Ok(view)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // The process or the folder may be gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn refused(status: tonic::Status) -> PeerFailure {
    PeerFailure::new(&format!("the daemon refuses: {status}"))
}

/// Answers requests for summaries at a new address, one after the other.
fn serve(provider: &Arc<Mutex<Provider>>) -> std::io::Result<std::net::SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let provider = provider.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // The daemon repeats an interrupted request.
            let _ = answer(stream, &provider);
        }
    });
    Ok(address)
}

fn answer(stream: TcpStream, provider: &Mutex<Provider>) -> std::io::Result<()> {
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
    let front = text.contains(OF_FRONT);
    let words = {
        let mut provider = provider.lock().unwrap_or_else(PoisonError::into_inner);
        provider.prompts.push(Prompt { front, text });
        provider.words[usize::from(front)].clone()
    };
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
