//! Cursors and page tokens.

use super::instance::{Copy, Template};
use super::mutate::Shape;
use super::{Decoder, Input, Outcome};
use anyhow::Result;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use longhand::app::append::ListMessages;
use longhand::app::events::{ListEvents, Start, SubscribeRequest};
use longhand::app::session_list::{ListSessions, SessionConditions};
use longhand::app::{Caller, Error, Reason};

/// The readers of opaque tokens. The head names a list; with `=` before it, the body is the token. Otherwise the bytes
/// of the body are combined by exclusive or with a token that the list returned, so that an input has the same meaning
/// in every store.
pub(super) struct Cursors {
    copy: Copy,
    /// Lists, each with a genuine token, decoded.
    tokens: Vec<(&'static str, Vec<u8>)>,
}

const LISTS: [&str; 7] = ["events", "session events", "stream", "messages", "backward", "sessions", "expand"];

/// Lists whose tokens are cursors, in hexadecimal digits; page tokens are in base64.
const CURSOR_LISTS: [&str; 3] = ["events", "session events", "stream"];

fn bytes_of(list: &str, token: &str) -> Result<Vec<u8>> {
    if !CURSOR_LISTS.contains(&list) {
        return Ok(URL_SAFE_NO_PAD.decode(token)?);
    }
    let bytes = (0..token.len()).step_by(2).map(|at| Ok(u8::from_str_radix(&token[at..at + 2], 16)?));
    bytes.collect()
}

fn text_of(list: &str, token: &[u8]) -> String {
    match CURSOR_LISTS.contains(&list) {
        true => token.iter().map(|byte| format!("{byte:02x}")).collect(),
        false => URL_SAFE_NO_PAD.encode(token),
    }
}

impl Cursors {
    pub(super) fn open() -> Result<Self> {
        let copy = Template::new()?.copy()?;
        let app = &copy.instance().map_err(anyhow::Error::msg)?.app;
        let tokens = copy.block_on(async {
            let mut tokens = Vec::new();
            for list in LISTS {
                let token = ask(app, list, "").await?;
                tokens.push((list, bytes_of(list, &token)?));
            }
            Ok::<_, anyhow::Error>(tokens)
        })?;
        Ok(Self { copy, tokens })
    }
}

/// Requests the items after a token; returns the next token.
async fn ask(app: &Caller, list: &str, token: &str) -> Result<String, Error> {
    let token = token.to_owned();
    match list {
        "events" | "session events" => {
            let session = (list == "session events").then(|| "s1".to_owned());
            let wanted = ListEvents { session, after: token, page_size: 3, ..ListEvents::default() };
            Ok(app.events().list(wanted).await?.1)
        }
        "stream" => {
            // A stream begins with a cursor, its own or the given one.
            let start = if token.is_empty() { Start::Now } else { Start::After(token) };
            let mut stream = app.events().subscribe(SubscribeRequest { start, ..SubscribeRequest::default() }).await?;
            match stream.next().await? {
                longhand::app::events::Frame::Ready { cursor, .. } => Ok(cursor),
                other => panic!("a stream begins with {other:?}"),
            }
        }
        "messages" | "backward" => {
            let reverse = list == "backward";
            let wanted =
                ListMessages { page_size: 3, page_token: token, reverse, records: true, ..ListMessages::default() };
            Ok(app.messages().list("s1", wanted).await?.next_page_token)
        }
        "sessions" => {
            let conditions = SessionConditions { archived: true, ..SessionConditions::default() };
            let wanted = ListSessions { page_size: 1, page_token: token, conditions, ..ListSessions::default() };
            Ok(app.sessions().list(&wanted).await?.1)
        }
        _ => {
            let (compactions, _) = app.compactions().list("s1", 10, "").await?;
            let id = compactions.last().map(|compaction| compaction.id.to_string()).unwrap_or_default();
            Ok(app.messages().expand("s1", &id, 1, &token).await?.next_page_token)
        }
    }
}

impl Decoder for Cursors {
    fn seeds(&mut self) -> Result<Vec<Input>> {
        let mut seeds = Vec::new();
        for (list, token) in &self.tokens {
            seeds.push(Input::new(*list, vec![0; token.len()]));
            seeds.push(Input::new(format!("={list}"), text_of(list, token)));
            // The position alone, with which cursors and page tokens begin.
            for byte in 0..8.min(token.len()) {
                let mut over = vec![0; token.len()];
                over[byte] = 0xff;
                seeds.push(Input::new(*list, over));
            }
        }
        Ok(seeds)
    }

    fn shape(&self, _: &str) -> Shape {
        Shape::Bytes
    }

    fn attempt(&mut self, input: &Input) -> Result<Outcome, String> {
        let plain = input.head.strip_prefix('=');
        let list = plain.unwrap_or(&input.head);
        let Some((list, genuine)) = self.tokens.iter().find(|(known, _)| *known == list) else {
            return Ok(Outcome::Refused);
        };
        let token = match plain {
            Some(_) => String::from_utf8_lossy(&input.body).into_owned(),
            None => {
                let mut token = genuine.clone();
                token.resize(input.body.len(), 0);
                token.iter_mut().zip(&input.body).for_each(|(byte, over)| *byte ^= over);
                text_of(list, &token)
            }
        };
        let app = &self.copy.instance()?.app;
        match self.copy.block_on(ask(app, list, &token)) {
            Ok(_) => Ok(Outcome::Taken),
            Err(error) => match error.reason {
                Reason::CursorInvalid
                | Reason::CursorForeign
                | Reason::CursorOutOfRange
                | Reason::PageTokenInvalid
                | Reason::RevisionOutOfRange => Ok(Outcome::Refused),
                other => Err(format!("a token for {list} is answered with {}: {error}", other.as_str())),
            },
        }
    }
}
