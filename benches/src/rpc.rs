//! Baseline of the appends over gRPC: a tonic server in a process of its own that takes the daemon's requests over a Unix
//! socket. It answers at once, or when raw SQLite has committed the texts. What it costs is what gRPC on this machine
//! costs, and no daemon can be faster.

use crate::fleet::OwnedProcess;
use crate::floor::Floor;
use clap::Args;
use longhand::pb;
use longhand::pb::part::Body as PartBody;
use std::convert::Infallible;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::{Command, Stdio};
use std::task::{Context, Poll};
use tokio::net::UnixListener;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::body::Body;
use tonic::server::NamedService;
use tonic::{Request, Response, Status};
use tower::Service;

/// The server's options.
#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    /// The Unix socket to listen on.
    socket: PathBuf,
    /// Commit the texts to a database in this folder before the answer.
    #[arg(long)]
    folder: Option<PathBuf>,
}

/// The server's process, killed when it is dropped.
pub(crate) struct Server {
    process: OwnedProcess,
    /// The address of its Unix socket.
    pub(crate) address: String,
}

impl Server {
    /// Starts the server, with its socket in a folder.
    pub(crate) fn start(folder: &Path, commits: bool) -> Self {
        let socket = folder.join("rpc.sock");
        let mut command = Command::new(std::env::current_exe().expect("this program's path"));
        command.arg("serve-floor").arg(&socket);
        if commits {
            command.arg("--folder").arg(folder);
        }
        let mut child = command.stdout(Stdio::piped()).spawn().expect("this program starts");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("standard output is piped");
        std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).expect("it says that it listens");
        Self { process: child.into(), address: format!("unix:{}", socket.display()) }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }
}

/// Answers appends, and nothing else.
#[derive(Clone)]
struct Appends(Option<Floor>);

impl NamedService for Appends {
    const NAME: &'static str = pb::message_service_server::SERVICE_NAME;
}

impl Service<http::Request<Body>> for Appends {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let floor = self.0.clone();
        let append = tower::service_fn(move |request: Request<pb::AppendMessagesRequest>| {
            let floor = floor.clone();
            async move { Ok::<_, Status>(Response::new(append(floor, request.into_inner()).await)) }
        });
        Box::pin(async move {
            let mut grpc = tonic::server::Grpc::new(tonic_prost::ProstCodec::default());
            Ok(grpc.unary(append, request).await)
        })
    }
}

/// An answer as long as the daemon's.
async fn append(floor: Option<Floor>, request: pb::AppendMessagesRequest) -> pb::AppendMessagesResponse {
    let message_ids = request.messages.iter().map(|_| format!("msg_{}", uuid::Uuid::now_v7().simple())).collect();
    if let Some(floor) = floor {
        let parts = request.messages.into_iter().flat_map(|message| message.parts);
        let texts = parts.filter_map(|part| match part.body {
            Some(PartBody::Text(text)) => Some(text.text),
            _ => None,
        });
        floor.append(1, texts.collect()).await;
    }
    let context_usage = pb::ContextUsage { context_tokens: Some(1), ..pb::ContextUsage::default() };
    pb::AppendMessagesResponse {
        message_ids,
        revision: 1,
        seq: 1,
        context_usage: Some(context_usage),
        durability: pb::Durability::Full.into(),
        ..pb::AppendMessagesResponse::default()
    }
}

/// Serves until it is killed.
pub(crate) async fn serve(options: &Options) {
    let floor = options.folder.as_deref().map(Floor::start);
    let listener = UnixListener::bind(&options.socket).expect("the socket is free");
    println!("listening");
    let server = tonic::transport::Server::builder().add_service(Appends(floor));
    server.serve_with_incoming(UnixListenerStream::new(listener)).await.expect("it serves");
}
