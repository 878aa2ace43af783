//! Faults over HTTP/1.1: event streams that nobody reads, bodies that do not end.

use super::Target;
use super::faults::{CLOSED, Committed, Counts, count, newcomer, no_subscribers, soon};
use anyhow::{Context as _, Result};
use std::path::Path;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, Interest};
use tokio::net::UnixStream;
use tokio::task::JoinSet;

/// Sends the beginning of a request.
async fn begin(socket: &Path, head: &str, body: &[u8]) -> Result<UnixStream> {
    let mut stream = UnixStream::connect(socket).await?;
    stream.write_all(format!("{head}\r\nHost: localhost\r\n").as_bytes()).await?;
    stream.write_all(body).await?;
    Ok(stream)
}

/// The reason in an answer, or that the connection was closed.
async fn end(mut stream: UnixStream) -> String {
    let mut heard = Vec::new();
    // A connection that is reset has what came before.
    drop(stream.read_to_end(&mut heard).await);
    let text = String::from_utf8_lossy(&heard);
    let reason = text.rsplit_once("\"reason\":\"").and_then(|(_, rest)| rest.split_once('"'));
    reason.map_or_else(|| CLOSED.to_owned(), |(reason, _)| reason.to_owned())
}

pub(super) async fn unread_streams(target: &Target) -> Result<Committed> {
    let mut unread = Vec::new();
    for _ in 0..target.scale.streams {
        let head = "GET /v1/events?fromBeginning=true&includeContent=true HTTP/1.1\r\nAccept: text/event-stream";
        unread.push(begin(target.daemon.socket(), head, b"\r\n").await?);
    }
    let mut broken = Vec::new();
    newcomer(target, &mut broken).await?;
    tokio::time::sleep(target.scale.hold).await;
    // Streams beyond the limit are refused, and the others end when nobody takes anything. Each is read only after its
    // end: a stream that is read has none.
    let ended = async {
        for stream in &unread {
            while !stream.ready(Interest::READABLE).await?.is_read_closed() {
                tokio::time::sleep(target.scale.hold).await;
            }
        }
        Ok::<_, anyhow::Error>(())
    };
    soon("the streams to end", ended).await??;
    no_subscribers(target, &mut broken).await?;
    let (mut answers, mut ending) = (Counts::new(), JoinSet::new());
    for stream in unread {
        ending.spawn(end(stream));
    }
    while let Some(ended) = soon("a connection to end", ending.join_next()).await? {
        count(&mut answers, ended?);
    }
    broken.extend(answers.keys().filter(|what| ![CLOSED, "TOO_MANY_STREAMS"].contains(&what.as_str())).cloned());
    Ok((target.scale.streams, answers, broken))
}

pub(super) async fn half_requests(target: &Target, session: &str) -> Result<Committed> {
    let (number, bytes) = target.scale.requests;
    let head = format!(
        "POST /v1/sessions/{session}/messages HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: {bytes}"
    );
    let body = vec![b' '; bytes - 1_024];
    let mut calls = JoinSet::new();
    for _ in 0..number {
        let (head, body, socket) = (head.clone(), body.clone(), target.daemon.socket().to_owned());
        calls.spawn(async move {
            let mut stream = begin(&socket, &head, b"\r\n").await?;
            // A daemon that refuses the request does not take the rest of it.
            drop(stream.write_all(&body).await);
            Ok::<_, anyhow::Error>(end(stream).await)
        });
    }
    tokio::time::sleep(target.scale.hold).await;
    let (mut answers, mut broken) = (Counts::new(), Vec::new());
    newcomer(target, &mut broken).await?;
    while let Some(ended) = soon("a request to be refused", calls.join_next()).await? {
        count(&mut answers, ended?.context("a connection")?);
        // Requests that fit in the memory may take longer.
        if target.scale.is_short() && calls.len() * bytes <= longhand::limits::REQUESTS_BYTES_MAX {
            break;
        }
    }
    let known = [CLOSED, "TOO_MANY_REQUESTS", "REQUEST_TIMED_OUT"];
    broken.extend(answers.keys().filter(|what| !known.contains(&what.as_str())).cloned());
    Ok((number, answers, broken))
}
