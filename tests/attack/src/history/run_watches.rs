//! Agents that follow their runs: everything that concerns a run arrives once and in the order of the log, however often
//! the connection is lost and resumed from its last cursor.

use super::client::Client;
use super::reasons;
use super::record::{Session, count, lock};
use longhand::pb;
use pb::event::Body;
use pb::run_service_client::RunServiceClient;
use pb::watch_run_response::Frame;
use prost::Message as _;
use rand::Rng as _;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tonic::{Request, Status};

/// Maximum time for which an agent follows a run that does not end, once all clients finish.
const STOPPING_TIME_MAX: Duration = Duration::from_secs(3);

/// What an agent learns of its run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Signal {
    /// A prompt came.
    Prompt(String),
    /// The run is to stop, or has ended.
    Run(String),
    /// A question has ended.
    Approval(String),
}

/// A run's stream, joined from all its connections.
#[derive(Debug, Clone, Default)]
pub(super) struct Followed {
    /// The session.
    pub(super) session: String,
    /// The run's number.
    pub(super) epoch: i64,
    /// What arrived, in order.
    pub(super) signals: Vec<Signal>,
    /// True if the stream ended with the run.
    pub(super) is_over: bool,
    /// Number of connections.
    pub(super) connections: u64,
}

/// What must arrive at the agent of a run by the events of its session.
pub(super) fn expected<'a>(events: impl Iterator<Item = &'a pb::Event>, epoch: i64) -> Vec<Signal> {
    let mut asked: HashMap<&str, Option<i64>> = HashMap::new();
    let mut signals = Vec::new();
    let mut is_active = false;
    for event in events {
        match &event.body {
            Some(Body::ApprovalRequested(body)) => drop(asked.insert(&body.approval_id, body.epoch)),
            Some(Body::RunStarted(body)) if body.epoch == epoch => is_active = true,
            Some(Body::PromptSubmitted(body)) if is_active => signals.push(Signal::Prompt(body.prompt_id.clone())),
            Some(Body::RunCancelRequested(body)) if body.epoch == epoch => {
                signals.push(Signal::Run(body.run_id.clone()));
            }
            // Those of lost runs before it may be asked again.
            Some(Body::ApprovalEnded(body)) if is_active => {
                let of = asked.get(body.approval_id.as_str()).copied().flatten();
                if of.is_some_and(|of| of <= epoch) {
                    signals.push(Signal::Approval(body.approval_id.clone()));
                }
            }
            Some(Body::RunEnded(body)) if body.epoch == epoch => {
                signals.push(Signal::Run(body.run_id.clone()));
                return signals;
            }
            _ => {}
        }
    }
    signals
}

/// What is wrong with a stream: one that is over has everything once and in order, and another one the beginning of it.
pub(super) fn fault(followed: &Followed, expected: &[Signal], has_ended: bool) -> Option<String> {
    let there = &followed.signals;
    let fits = match followed.is_over {
        true => has_ended && there == expected,
        false => expected.starts_with(there),
    };
    let Followed { session, epoch, is_over, connections, .. } = followed;
    (!fits).then(|| {
        format!(
            "run: the agent of run {epoch} of {session} learnt {there:?} over {connections} connections, over: \
             {is_over}; by the log {expected:?}, ended: {has_ended}"
        )
    })
}

/// Follows a run until its end, or a while after the clients have to finish.
pub(super) async fn follow(mut client: Client, session: Arc<Session>, epoch: i64) {
    let mut followed = Followed { session: session.id.clone(), epoch, ..Followed::default() };
    let mut cursor = String::new();
    let mut stopping = None;
    while !followed.is_over {
        if client.shared.is_stopping() {
            let since = *stopping.get_or_insert_with(std::time::Instant::now);
            if since.elapsed() > STOPPING_TIME_MAX {
                break;
            }
        }
        client.shared.service.wait_until_up().await;
        followed.connections += 1;
        count(&client.shared.record.counts.run_connections);
        let deaths = client.shared.service.deaths();
        let timeout = Duration::from_millis(client.rng.random_range(50..1_500));
        let read = tokio::time::timeout(timeout, connect(&mut client, &mut followed, &mut cursor));
        if let Ok(Err(status)) = read.await {
            ended(&client, deaths, &status);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    lock(&client.shared.record.followed).push(followed);
}

/// Makes one connection, and reads frames until it is lost, or for a random number of them.
async fn connect(client: &mut Client, followed: &mut Followed, cursor: &mut String) -> Result<(), Status> {
    let mut request = Request::new(pb::WatchRunRequest {
        session_id: followed.session.clone(),
        epoch: followed.epoch,
        after_cursor: cursor.clone(),
    });
    if let Ok(name) = client.name.parse() {
        request.metadata_mut().insert("longhand-actor", name);
    }
    let asked = client.shared.record.now();
    let many = client.rng.random_range(1..12);
    let channel = client.connection();
    let mut frames = RunServiceClient::new(channel).watch_run(request).await?.into_inner();
    for _ in 0..many {
        let Some(response) = frames.message().await? else {
            followed.is_over = true;
            return Ok(());
        };
        client.shared.record.check_erased("WatchRun", &response.encode_to_vec(), asked);
        // A stream that is resumed behind the end of its run says once more how it ended, at the same position.
        if response.cursor != *cursor {
            followed.signals.extend(response.frame.and_then(signal));
            *cursor = response.cursor;
        }
    }
    Ok(())
}

/// Checks the end of a stream: the daemon stops or died, or there is a fault.
fn ended(client: &Client, deaths: u64, status: &Status) {
    if let Some((refusal, wrong)) = reasons::refusal("WatchRun", status) {
        wrong.into_iter().for_each(|text| client.finding(text));
        if !reasons::is_passing(&refusal.reason) {
            client.finding(format!("P14: the stream of a run ended with {refusal:?}"));
        }
        return;
    }
    let is_local = std::error::Error::source(status).is_some();
    if !is_local && client.shared.service.deaths() == deaths {
        client.finding(format!("P14: the stream of a run ended without a reason: {status:?}"));
    }
}

fn signal(frame: Frame) -> Option<Signal> {
    match frame {
        Frame::Prompt(prompt) => Some(Signal::Prompt(prompt.prompt_id)),
        Frame::Run(run) => Some(Signal::Run(run.run_id)),
        Frame::Approval(approval) => Some(Signal::Approval(approval.approval_id)),
        Frame::Progress(_) => None,
    }
}
