//! Duration of reads over the protocol: whole views, views of which the caller holds all or nearly all messages, and
//! the newest messages. Several builds are measured in turn, so that their figures are of one run.

use crate::fleet::Daemon;
use crate::process::Process;
use crate::report::{Bound, Latencies, Report};
use crate::target;
use longhand::pb;
use longhand::pb::message_service_client::MessageServiceClient;
use longhand::pb::session_service_client::SessionServiceClient;
use longhand::pb::view_service_client::ViewServiceClient;
use std::ops::Range;
use std::time::{Duration, Instant};
use tonic::transport::Channel;

const BODY_BYTES: usize = 1_024;
/// Reads of each kind, and a tenth of them in sessions of more than 1 000 messages; the builds take turns at each.
const READS: usize = 200;

/// A daemon with sessions of several lengths.
pub(crate) struct Build {
    name: String,
    pub(crate) daemon: Daemon,
    _folder: tempfile::TempDir,
    views: ViewServiceClient<Channel>,
    messages: MessageServiceClient<Channel>,
    sessions: SessionServiceClient<Channel>,
}

/// Kind of read.
#[derive(Clone, Copy)]
pub(crate) enum Read {
    Whole,
    Known,
    Appended,
    Newest,
}

const KINDS: [(Read, &str); 4] = [
    (Read::Whole, "view, whole"),
    (Read::Known, "view, all of it known"),
    (Read::Appended, "view behind an append, the rest known"),
    (Read::Newest, "the newest 50 messages"),
];

impl Read {
    /// Target of the median, in milliseconds.
    fn target(self, length: usize) -> Option<Bound> {
        match self {
            Self::Whole => (length == 1_000).then_some(Bound::AtMost(3.0)),
            Self::Known => Some(Bound::AtMost(0.4)),
            Self::Appended => None,
            Self::Newest => Some(Bound::AtMost(0.5)),
        }
    }
}

impl Build {
    pub(crate) async fn start(binary: &str, settings: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let daemon = Daemon::start(binary, folder.path(), settings);
        let channel = target::connect(&daemon.socket).await;
        Self {
            name: target::name(binary),
            daemon,
            _folder: folder,
            views: ViewServiceClient::new(channel.clone()).max_decoding_message_size(1 << 30),
            messages: MessageServiceClient::new(channel.clone()).max_decoding_message_size(1 << 30),
            sessions: SessionServiceClient::new(channel),
        }
    }

    /// Creates a session of `count` messages of `bytes` bytes each. Returns its id.
    pub(crate) async fn session(&mut self, count: usize, bytes: usize) -> String {
        let request = pb::CreateSessionRequest::default();
        let created = self.sessions.create_session(request).await.expect("a session").into_inner();
        let id = created.session.expect("a session").session_id;
        for from in (0..count).step_by(100) {
            self.append(&id, from..count.min(from + 100), bytes).await;
        }
        id
    }

    /// Waits until the daemon needs no processor.
    pub(crate) async fn rest(&self) {
        Process::new(self.daemon.pid()).rest().await;
    }

    /// Appends messages of these numbers.
    pub(crate) async fn append(&mut self, session: &str, range: Range<usize>, bytes: usize) {
        let message = |index: usize| {
            let words = format!("message {index}: the quick brown fox looks at src/module_{index}.rs and says ");
            let text = words.chars().cycle().take(bytes).collect();
            pb::NewMessage {
                role: if index.is_multiple_of(2) { pb::Role::User } else { pb::Role::Assistant }.into(),
                kind: pb::MessageKind::Normal.into(),
                parts: vec![pb::Part {
                    body: Some(pb::part::Body::Text(pb::TextPart { text })),
                    ..pb::Part::default()
                }],
                finish: Some(pb::Finish::default()),
                ..pb::NewMessage::default()
            }
        };
        let request = pb::AppendMessagesRequest {
            session_id: session.to_owned(),
            messages: range.map(message).collect(),
            ..pb::AppendMessagesRequest::default()
        };
        self.messages.append_messages(request).await.expect("appended");
    }

    /// Hash of a view, and the number of messages received.
    pub(crate) async fn view(&mut self, session: &str, known: Option<Vec<u8>>) -> (Vec<u8>, usize) {
        let request = pb::GetViewRequest {
            session_id: session.to_owned(),
            known_view_hash: known,
            ..pb::GetViewRequest::default()
        };
        let mut stream = self.views.get_view(request).await.expect("a view").into_inner();
        let (mut hash, mut count) = (Vec::new(), 0);
        while let Some(response) = stream.message().await.expect("a frame") {
            match response.frame {
                Some(pb::get_view_response::Frame::Header(header)) => hash = header.view_hash,
                Some(pb::get_view_response::Frame::Messages(messages)) => count += messages.messages.len(),
                _ => {}
            }
        }
        (hash, count)
    }

    /// The duration of one read.
    pub(crate) async fn read(&mut self, session: &str, read: Read, length: usize, at: usize) -> Duration {
        let known = match read {
            Read::Whole | Read::Newest => None,
            Read::Known | Read::Appended => Some(self.view(session, None).await.0),
        };
        if matches!(read, Read::Appended) {
            self.append(session, length + at..length + at + 1, BODY_BYTES).await;
        }
        let began = Instant::now();
        match read {
            Read::Newest => {
                let request = pb::ListMessagesRequest {
                    session_id: session.to_owned(),
                    page_size: 50,
                    reverse: true,
                    ..pb::ListMessagesRequest::default()
                };
                self.messages.list_messages(request).await.expect("a page");
            }
            Read::Whole | Read::Known | Read::Appended => {
                let (_, count) = self.view(session, known).await;
                let expected = match read {
                    Read::Known => 0,
                    Read::Appended => 1,
                    Read::Whole | Read::Newest => length,
                };
                assert!(count == expected || matches!(read, Read::Whole), "{count} messages came, not {expected}");
            }
        }
        began.elapsed()
    }
}

/// Measures the builds in turn.
pub(crate) async fn run(binaries: &[String], short: bool, report: &mut Report) {
    let mut builds = Vec::new();
    for binary in binaries {
        builds.push(Build::start(binary, "").await);
    }
    let lengths: &[usize] = if short { &[100, 1_000] } else { &[100, 1_000, 10_000] };
    for &length in lengths {
        let mut ids = Vec::new();
        for build in &mut builds {
            ids.push(build.session(length, BODY_BYTES).await);
        }
        for build in &builds {
            build.rest().await;
        }
        println!("a session of {length} messages of {BODY_BYTES} bytes");
        for (read, what) in KINDS {
            let mut latencies: Vec<Latencies> = builds.iter().map(|_| Latencies::default()).collect();
            let reads = if length > 1_000 { READS / 10 } else { READS };
            for at in 0..reads {
                for (index, build) in builds.iter_mut().enumerate() {
                    latencies[index].record(build.read(&ids[index], read, length, at).await);
                }
            }
            for (build, latencies) in builds.iter().zip(latencies) {
                let what = format!("{length}: {what}");
                report.row(&what, &build.name, None, &latencies, &[]);
                if let Some(bound) = read.target(length) {
                    report.target(&what, &build.name, ("p50_ms", latencies.millis(0.5)), bound);
                }
            }
        }
    }
}
