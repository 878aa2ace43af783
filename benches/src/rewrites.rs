//! Pins and edits in one session: what the first ones cost against the last ones, of messages that each get one mark,
//! and of a few messages that are edited again and again.

use crate::report::{Bound, Latencies, Report};
use crate::target::{BODY_BYTES, Target, Texts, connect, message, request, session};
use clap::Args;
use longhand::pb;
use longhand::pb::message_service_client::MessageServiceClient;
use std::time::Instant;
use tonic::transport::Channel;

/// Messages of the session whose messages are edited again and again.
const FEW: usize = 20;
/// Calls at the beginning and at the end whose latencies are compared.
const COMPARED: usize = 200;
/// Messages of an append.
const BATCH: usize = 200;
/// Rewrites of the short form.
const SHORT_REWRITES: usize = 2_000;

/// Rewrites of one session.
#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    /// Rewrites of each kind.
    #[arg(long, default_value_t = 10_000)]
    rewrites: usize,
    /// Length of a message, in bytes.
    #[arg(long, default_value_t = BODY_BYTES)]
    bytes: usize,
}

/// A kind of rewrite.
#[derive(Clone, Copy)]
enum Kind {
    Pin,
    Edit,
}

/// Measures each build by itself.
pub(crate) async fn run(binaries: &[String], options: &Options, short: bool, report: &mut Report) {
    let rewrites = if short { options.rewrites.min(SHORT_REWRITES) } else { options.rewrites };
    println!("{rewrites} rewrites of a session, the first {COMPARED} against the last {COMPARED}");
    for (what, kind, messages) in [
        ("pins, each of another message", Kind::Pin, rewrites),
        ("edits, each of another message", Kind::Edit, rewrites),
        ("edits of 20 messages", Kind::Edit, FEW),
    ] {
        for binary in binaries {
            let target = Target::daemon(binary, "").await;
            let mut session = Session::new(connect(target.address()).await, messages, options.bytes).await;
            let mut latencies = [Latencies::default(), Latencies::default(), Latencies::default()];
            for index in 0..rewrites {
                let began = Instant::now();
                session.rewrite(kind, index).await;
                let part = usize::from(index >= COMPARED) + usize::from(index + COMPARED >= rewrites);
                latencies[part.min(2)].record(began.elapsed());
            }
            let [first, between, last] = latencies;
            for (part, latencies) in [("first", &first), ("between", &between), ("last", &last)] {
                report.row(&format!("{what}: {part}"), &target.name, None, latencies, &[]);
            }
            let ratio = last.millis(0.5) / first.millis(0.5);
            report.target(what, &target.name, ("ratio", ratio), Bound::AtMost(1.2));
        }
    }
}

/// A session whose messages are rewritten.
struct Session {
    client: MessageServiceClient<Channel>,
    id: String,
    messages: Vec<String>,
    texts: Texts,
}

impl Session {
    async fn new(channel: Channel, count: usize, bytes: usize) -> Self {
        let (mut texts, id) = (Texts::new(1, bytes), session(&channel).await);
        let mut client = MessageServiceClient::new(channel);
        let mut messages = Vec::with_capacity(count);
        while messages.len() < count {
            let batch = BATCH.min(count - messages.len());
            let request = request(&id, (0..batch).map(|_| message(texts.text())).collect());
            messages.extend(client.append_messages(request).await.expect("appended").into_inner().message_ids);
        }
        Self { client, id, messages, texts }
    }

    async fn rewrite(&mut self, kind: Kind, index: usize) {
        let message_id = self.messages[index % self.messages.len()].clone();
        let session_id = self.id.clone();
        match kind {
            Kind::Pin => {
                let request = pb::PinMessageRequest { session_id, message_id, ..pb::PinMessageRequest::default() };
                self.client.pin_message(request).await.expect("pinned");
            }
            Kind::Edit => {
                let parts = message(self.texts.text()).parts;
                let request =
                    pb::EditMessageRequest { session_id, message_id, parts, ..pb::EditMessageRequest::default() };
                self.client.edit_message(request).await.expect("edited");
            }
        }
    }
}
