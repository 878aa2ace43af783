//! Requests that are short as they are sent and grow when they are decoded, and requests in many small frames.

use super::Target;
use super::faults::{Committed, Counts, count, newcomer, soon};
use crate::raw::{RawClient, Windows, framed};
use anyhow::{Context as _, Result};
use bytes::{BufMut as _, Bytes, BytesMut};
use flate2::Compression;
use flate2::write::GzEncoder;
use longhand::pb;
use longhand::pb::write_message_request::Frame;
use longhand::pb::write_target::Message;
use rustix::process::{Signal, kill_process};
use std::io::Write as _;
use tokio::task::JoinSet;

/// Streams with such a request at the same time.
const STREAMS: usize = 23;
/// Elements of the list in each.
const ELEMENTS: usize = 15_000_000;
/// Small frames behind a writer that waits.
const FRAMES: usize = 4_500;
/// Writers.
const WRITERS: usize = 10;

/// A compressed message of gRPC with one packed field of elements of one byte each.
fn bomb(field: u8) -> Result<Bytes> {
    let mut message = vec![field << 3 | 2];
    prost::encoding::encode_varint(ELEMENTS as u64, &mut message);
    message.resize(message.len() + ELEMENTS, 1);
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&message)?;
    let message = encoder.finish()?;
    let mut frame = BytesMut::new();
    frame.put_u8(1);
    frame.put_u32(u32::try_from(message.len())?);
    frame.extend_from_slice(&message);
    Ok(frame.freeze())
}

/// Lists of numbers that are a thousand times as long as what is sent: `SubscribeEvents.kinds` and
/// `LeaseSummaryTask.levels`, both field 2.
pub(super) async fn lists(target: &Target) -> Result<Committed> {
    let bomb = bomb(2)?;
    let (mut clients, mut calls) = (Vec::new(), JoinSet::new());
    for number in 0..STREAMS {
        let mut client = RawClient::connect(target.daemon.socket(), Windows::SMALL).await?;
        let method = ["EventService/SubscribeEvents", "SummaryTaskService/LeaseSummaryTask"][number % 2];
        let mut call = client.begin(method, &[("grpc-encoding", "gzip")]).await?;
        call.request.send_data(bomb.clone(), true)?;
        clients.push(client);
        calls.spawn(async move {
            let mut answer = call.answer().await?;
            answer.rest::<pb::SubscribeEventsResponse>().await.map(|(_, end)| end.reason)
        });
    }
    let (mut answers, mut broken) = (Counts::new(), Vec::new());
    newcomer(target, &mut broken).await?;
    tokio::time::sleep(target.scale.hold).await;
    while let Ok(Some(ended)) = soon("an answer", calls.join_next()).await {
        count(&mut answers, ended?.unwrap_or_else(|error| error.to_string()));
    }
    broken.extend(answers.keys().filter(|what| *what != "LIMIT_EXCEEDED").cloned());
    if answers.values().sum::<usize>() < STREAMS {
        broken.push("some requests were not answered".to_owned());
    }
    Ok((STREAMS, answers, broken))
}

/// The frames of a writer: its message, and its text in small pieces.
fn frames_of(session: &str, writer: usize) -> Result<Vec<Bytes>> {
    let message = pb::NewMessage {
        client_id: Some(format!("writer {writer}")),
        role: pb::Role::Assistant.into(),
        open: true,
        ..Default::default()
    };
    let target = pb::WriteTarget {
        session_id: session.to_owned(),
        message: Some(Message::NewMessage(message)),
        ..Default::default()
    };
    let frame = |frame| framed(&pb::WriteMessageRequest { frame: Some(frame) });
    let words =
        |_| Frame::DraftText(pb::DraftText { client_id: "t".into(), delta: "word ".into(), ..Default::default() });
    let finish = pb::Finish { reason: pb::FinishReason::Stop.into(), ..Default::default() };
    let end = Frame::MessageEnd(pb::MessageEnd { finish: Some(finish), ..Default::default() });
    let frames = std::iter::once(Frame::Target(target)).chain((0..FRAMES).map(words)).chain([end]);
    Ok(frames.map(frame).collect())
}

/// Writers that go on while the daemon stands still: their words wait, and none of them is lost.
pub(super) async fn small_frames(target: &Target, session: &str) -> Result<Committed> {
    let process = target.daemon.id()?;
    let (mut clients, mut begun) = (Vec::new(), Vec::new());
    for writer in 0..WRITERS {
        let mut client = RawClient::connect(target.daemon.socket(), Windows::SMALL).await?;
        begun.push((client.begin("MessageService/WriteMessage", &[]).await?, frames_of(session, writer)?));
        clients.push(client);
    }
    kill_process(process, Signal::STOP)?;
    let mut calls = JoinSet::new();
    for (mut call, frames) in begun {
        let count = frames.len();
        for (number, frame) in frames.into_iter().enumerate() {
            call.request.send_data(frame, number + 1 == count)?;
        }
        calls.spawn(async move {
            let mut answer = call.answer().await?;
            let (answers, end) = answer.rest::<pb::WriteMessageResponse>().await?;
            Ok::<_, anyhow::Error>((answers.len(), end.reason))
        });
    }
    tokio::time::sleep(target.scale.hold).await;
    kill_process(process, Signal::CONT)?;
    let (mut answers, mut broken) = (Counts::new(), Vec::new());
    while let Some(ended) = soon("a writer to be answered", calls.join_next()).await? {
        match ended.context("no panic")? {
            Ok((1, reason)) if reason.is_empty() => count(&mut answers, "written"),
            Ok((_, reason)) => count(&mut answers, reason),
            Err(error) => count(&mut answers, error.to_string()),
        }
    }
    broken.extend(answers.keys().filter(|what| *what != "written").cloned());
    Ok((WRITERS, answers, broken))
}
