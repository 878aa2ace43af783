//! Faults by clients on TCP that have no token: requests that do not end, bytes now and then, frames that nobody asked
//! for. Whoever has a token, and whoever asks for the health, is answered meanwhile.

use super::Target;
use super::faults::{Committed, Counts, count, soon};
use crate::raw::frames;
use anyhow::{Context as _, Result, ensure};
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Clients that connect while the strangers are there, one after the other.
const NEWCOMERS: usize = 20;
/// Acknowledgements of pings in one piece of a flood.
const PINGS: usize = 1_000;
/// Pieces of that flood.
const PIECES: usize = 200;

/// The kinds of requests that do not end.
#[derive(Debug, Clone, Copy)]
enum Half {
    /// A head of HTTP/1.1 without its end.
    Head,
    /// A body of HTTP/1.1 without its end.
    Body,
    /// A message of gRPC whose length is not complete.
    Prefix,
    /// The same for the health, which anybody may ask.
    Health,
}

impl Half {
    const ALL: [Self; 4] = [Self::Head, Self::Body, Self::Prefix, Self::Health];

    fn bytes(self) -> Vec<u8> {
        match self {
            Self::Head => b"GET /v1/sessions HTTP/1.1\r\nHost: localhost\r\nX-Words: ".to_vec(),
            Self::Body => b"POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                Content-Length: 4000\r\n\r\n{"
                .to_vec(),
            Self::Prefix => half_call("/longhand.v1.MessageService/AppendMessages"),
            Self::Health => half_call("/grpc.health.v1.Health/Check"),
        }
    }
}

/// The begin of a call of gRPC: all of its head, and two bytes.
fn half_call(path: &str) -> Vec<u8> {
    [frames::greeting(), frames::head(1, path), frames::frame(frames::DATA, 0, 1, &[0, 0])].concat()
}

/// Where the daemon listens on TCP, and its owner's token.
fn door(target: &Target) -> Result<(SocketAddr, String)> {
    let url = std::fs::read_to_string(target.directory.join("longhand.url"))?;
    let address = url.trim().strip_prefix("http://").context("a URL")?.parse()?;
    let token = std::fs::read_to_string(target.directory.join("access-token"))?;
    Ok((address, token.trim().to_owned()))
}

/// The status line of the answer to a request of HTTP/1.1 over a new connection.
async fn ask(address: SocketAddr, path: &str, token: Option<&str>) -> Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    let bearer = token.map_or(String::new(), |token| format!("Authorization: Bearer {token}\r\n"));
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{bearer}Connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    let line = String::from_utf8_lossy(&answer).lines().next().unwrap_or_default().to_owned();
    ensure!(!line.is_empty(), "no answer");
    Ok(line)
}

/// Clients with a token, and without one for the health, that connect during the fault.
async fn newcomers(target: &Target, answers: &mut Counts, broken: &mut Vec<String>) -> Result<()> {
    let (address, token) = door(target)?;
    for _ in 0..NEWCOMERS {
        for (path, token) in [("/healthz", None), ("/v1/sessions?pageSize=1", Some(token.as_str()))] {
            match soon("an answer to a newcomer", ask(address, path, token)).await {
                Ok(Ok(line)) if line.contains(" 200 ") => count(answers, format!("{path} answered")),
                Ok(Ok(line)) => broken.push(format!("{path}: {line}")),
                Ok(Err(error)) => broken.push(format!("{path}: {error}")),
                Err(error) => broken.push(format!("{path}: {error}")),
            }
            if broken.len() > 5 {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// More requests than there are connections, none of which ends, and then bytes of each now and then.
pub(super) async fn half_requests(target: &Target) -> Result<Committed> {
    let (address, token) = door(target)?;
    // Somebody who has proven themselves and rests: nobody takes their place.
    let mut resting = TcpStream::connect(address).await?;
    let own =
        format!("GET /v1/sessions?pageSize=1 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n");
    resting.write_all(own.as_bytes()).await?;
    let mut heard = [0; 1 << 16];
    ensure!(resting.read(&mut heard).await? > 0, "no answer before the fault");
    let (mut strangers, mut answers, mut broken) = (Vec::new(), Counts::new(), Vec::new());
    for number in 0..target.scale.strangers {
        let Ok(mut stream) = TcpStream::connect(address).await else { continue };
        drop(stream.write_all(&Half::ALL[number % Half::ALL.len()].bytes()).await);
        strangers.push(stream);
    }
    newcomers(target, &mut answers, &mut broken).await?;
    for _ in 0..target.scale.trickles {
        for stream in &strangers {
            // One that made way hears nothing more.
            drop(stream.try_write(b"x"));
        }
        newcomers(target, &mut answers, &mut broken).await?;
    }
    resting.write_all(own.as_bytes()).await?;
    if !matches!(soon("somebody who rested", resting.read(&mut heard)).await, Ok(Ok(1..))) {
        broken.push("somebody with a token lost their connection to strangers".to_owned());
    }
    Ok((strangers.len(), answers, broken))
}

/// Acknowledgements of pings that nobody sent: the log does not grow with them (`overload::run` looks at it).
pub(super) async fn pings(target: &Target) -> Result<Committed> {
    let (address, _) = door(target)?;
    let flood = frames::frame(frames::PING, frames::ACK, 0, &[7; 8]).repeat(PINGS);
    let (mut answers, mut broken) = (Counts::new(), Vec::new());
    for _ in 0..4 {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(&frames::greeting()).await?;
        for _ in 0..PIECES / 4 {
            if stream.write_all(&flood).await.is_err() {
                count(&mut answers, "connection closed");
                break;
            }
        }
    }
    newcomers(target, &mut answers, &mut broken).await?;
    Ok((PINGS * PIECES, answers, broken))
}
