//! One life: what is said in it, and our side of it.

use super::lives::lines;
use super::session::{self, message_tokens};
use crate::generate::{Conversation, Profile, Results, text};
use longhand::cli::simulate::engine::{Session, Writer, input_of};
use longhand::model::Revision;
use longhand::model::message::{Finish, FinishReason, MessageKind, NewMessage, Role};
use longhand::model::part::{NewPart, PartBody};
use longhand::model::usage::{ModelWindow, Usage};
use longhand::model::view::{SourceMessage, View};
use longhand::policy::plan::SummaryPlan;
use longhand::policy::prompt::{self, Detail, GAP, MARGIN, NO_HISTORY, ends_line};
use longhand::policy::{Policy, files};
use longhand::summarizer::{SummaryInput, SummaryOutput};
use rand::Rng;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::ops::Range;

const PROFILE: Profile = Profile {
    turns: 6..=20,
    text_max: 2_000,
    output_max: 9_000,
    system: false,
    results: Results::MessageEach,
    tools: &["read", "write", "edit", "bash", "grep"],
    ..Profile::FULL
};

/// The same with tools that pi has not, some of them pi's in other letters.
const OTHER_TOOLS: Profile =
    Profile { tools: &["read", "write", "edit", "bash", "grep", "Read", "WRITE", "read_file", "Edit"], ..PROFILE };

/// One life in so many has them.
const OTHER_TOOLS_IN: u64 = 4;

/// One in so many parts of the window is what a compaction frees at least.
const WINDOW_PARTS: i64 = 20;

/// A life before it is lived.
pub(super) struct Life {
    pub(super) index: u64,
    messages: Vec<SourceMessage>,
    /// What the replies report beside the view and what they say.
    unseen: Vec<Option<i64>>,
    /// Messages whose content is a text, not a list of blocks.
    plain: Vec<bool>,
    words: Vec<[String; 2]>,
    pub(super) window: ModelWindow,
    reserve_tokens: i64,
    pub(super) keep_tokens: i64,
    policy: Policy,
    is_early: bool,
}

/// When pi looks whether a compaction is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    None,
    /// Between the requests of a run.
    Between,
    /// At the end of a run.
    End,
    /// Before a request of the user.
    Prompt,
}

impl Moment {
    pub(super) fn name(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Between => Some("between"),
            Self::End => Some("end"),
            Self::Prompt => Some("prompt"),
        }
    }
}

impl Life {
    /// Draws a life: what is said, and the settings that both sides have.
    pub(super) fn draw(seed: u64, index: u64, policy: Policy, is_early: bool) -> Self {
        let profile = if index.is_multiple_of(OTHER_TOOLS_IN) { &OTHER_TOOLS } else { &PROFILE };
        let mut conversation = Conversation::generate(seed, index, profile);
        let mut dice = conversation.dice("life");
        for part in conversation.messages.iter_mut().flat_map(|source| &mut source.message.parts) {
            let PartBody::ToolCall(call) = &mut part.body else { continue };
            if !["Read", "WRITE", "read_file", "Edit"].contains(&call.tool.as_str()) {
                continue;
            }
            let field = if dice.random_bool(0.5) { "path" } else { "file_path" };
            call.input_json = json!({ field: format!("src/{}.rs", dice.random_range(0..20)) }).to_string();
        }
        // Behind a call that nothing answers, pi would send a request that no provider takes.
        let context = dice.random_range(4_000..16_000);
        let reserve_tokens = dice.random_range(context / 20..context / 4);
        let keep_tokens = dice.random_range(context / 40..context / 3);
        let patch = json!({ "auto": {
            "threshold": { "limit": { "reserve": { "reserve_tokens": reserve_tokens } } },
            "steps": { "0": { "summarize": { "tail": { "recent": { "keep_tokens": keep_tokens } } } } },
        } });
        let policy = policy.with_overrides(&patch.to_string()).unwrap_or_else(|error| panic!("{patch}: {error}"));
        let unseen = dice.random_range(0..context / 20);
        let messages = conversation.messages;
        let reports = |source: &SourceMessage, dice: &mut rand::rngs::StdRng| match source.message.finish.reason {
            Some(FinishReason::Error) => None,
            Some(FinishReason::Aborted) => None,
            _ => Some(unseen + dice.random_range(0..100)),
        };
        let unseen = messages.iter().map(|source| reports(source, &mut dice)).collect();
        let plain = messages.iter().map(|_| dice.random_bool(0.3)).collect();
        let words = (0..messages.len() + 1).map(|number| {
            let mut say = |what: &str| format!("{what} {number}: {} END", text(&mut dice, 600));
            [say("THE HISTORY"), say("THE FRONT")]
        });
        let words = words.collect();
        let window = ModelWindow { context, ..ModelWindow::default() };
        Self { index, messages, unseen, plain, words, window, reserve_tokens, keep_tokens, policy, is_early }
    }

    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }

    pub(super) fn settings(&self) -> Value {
        json!({ "enabled": true, "reserveTokens": self.reserve_tokens, "keepRecentTokens": self.keep_tokens })
    }

    pub(super) fn words(&self, number: usize) -> &[String; 2] {
        &self.words[number.min(self.words.len() - 1)]
    }

    /// The summary with these words, as a client with two answers of its model writes it; `past` stands for the history
    /// where only the front of a turn is summarized.
    fn composed(&self, number: usize, input: &SummaryInput, past: &str) -> String {
        let [history, front] = self.words(number);
        let heading = input.rules.split_turn_heading.as_deref().filter(|_| !input.split_turn.is_empty());
        let past = if spoken(&input.messages).next().is_some() { history } else { past };
        heading.map_or_else(|| history.clone(), |heading| prompt::join(heading, past, front))
    }

    /// The summary as our own code completes it.
    pub(super) fn text(&self, number: usize, input: &SummaryInput) -> String {
        let text = self.composed(number, input, input.previous.as_deref().unwrap_or(NO_HISTORY));
        SummaryOutput { text, summarizer: "conformance".to_owned(), usage: None }.completed(input).text
    }

    pub(super) fn session<'a>(&'a self, writer: Writer<'a>) -> Ours<'a> {
        Ours { life: self, session: Session::new(&self.policy, &self.window, writer), revisions: Vec::new(), seen: 0 }
    }

    /// The moment that a message makes.
    pub(super) fn moment(&self, place: usize) -> Moment {
        let message = &self.messages[place].message;
        let next = self.messages.get(place + 1).map(|next| next.message.role);
        match message.role {
            Role::User => Moment::Prompt,
            Role::Tool if next != Some(Role::Tool) => Moment::Between,
            Role::Assistant if message.finish.reason != Some(FinishReason::ToolCalls) => Moment::End,
            Role::Tool | Role::Assistant | Role::System => Moment::None,
        }
    }

    pub(super) fn is_aborted(&self, place: usize) -> bool {
        self.messages[place].message.finish.reason == Some(FinishReason::Aborted)
    }

    /// What messages weigh in pi's characters, by our own count.
    pub(super) fn tokens(&self, places: Range<usize>) -> i64 {
        self.messages[places].iter().map(|source| message_tokens(&source.message, self.is_early)).sum()
    }

    /// Tokens that a compaction must free.
    pub(super) fn least_gain(&self) -> i64 {
        (self.window.context / WINDOW_PARTS).max(1)
    }

    /// Tokens that a preparation of pi's would free: the least of what it is expected to and what it does.
    pub(super) fn freed(&self, prepared: &Value, number: usize) -> i64 {
        let Some(head) = prepared["headTokens"].as_i64() else { return 0 };
        let style = &self.policy.view;
        let frame = style.summary_prefix.encode_utf16().count() + style.summary_suffix.encode_utf16().count();
        let shown = |text: &str| ((frame + text.encode_utf16().count()) as i64 + 3) / 4;
        let before = prepared["previous"].as_str().map(shown);
        let after = prepared["summary"].as_str().map_or_else(|| shown(&self.words(number)[0]), shown);
        // Calls that nothing answers have a result in a view.
        let interrupted = (style.interrupted_text.len() as i64 + 3) / 4;
        let places = ["summarize", "prefix"].iter().flat_map(|list| prepared[list].as_array().into_iter().flatten());
        let open = places.filter_map(Value::as_u64).map(|place| self.open_calls(place as usize)).sum::<i64>();
        let head = head + open * interrupted;
        let expected = head + before.unwrap_or(0) - before.unwrap_or_else(|| shown(" "));
        expected.min(head + before.unwrap_or(0) - after)
    }

    fn open_calls(&self, place: usize) -> i64 {
        let answered = |id: &str| {
            self.messages
                .iter()
                .flat_map(|source| &source.message.parts)
                .any(|part| matches!(&part.body, PartBody::ToolResult(result) if result.call_id == id))
        };
        let open = |body: &PartBody| matches!(body, PartBody::ToolCall(call) if !answered(&call.call_id));
        self.messages[place].message.parts.iter().filter(|part| open(&part.body)).count() as i64
    }

    /// What a compaction with this cut is; none where it covers nothing.
    pub(super) fn cut_at(&self, inline: &[SourceMessage], cut: usize, previous: Value) -> Option<Value> {
        let (head, tail) = inline.split_at(cut);
        let asks = |source: &SourceMessage| source.message.role == Role::User;
        let split = if tail.first().is_none_or(asks) { None } else { head.iter().rposition(asks) };
        let (summarize, prefix) = head.split_at(split.unwrap_or(cut));
        let first = tail.first().map_or(self.len(), place_of);
        (cut > 0).then(|| cut_json(first, places(summarize), places(prefix), previous))
    }

    /// A message as pi holds it, with what its reply reports.
    fn raw(&self, place: usize, usage: Option<&Usage>) -> Value {
        let mut message = (*self.messages[place].message).clone();
        message.finish.usage = usage.cloned();
        let mut raw = session::raw_message(&message, false);
        if message.role == Role::Assistant {
            (raw["provider"], raw["model"]) = (json!("test"), json!("model"));
            if message.finish.reason == Some(FinishReason::Error) {
                raw["errorMessage"] = json!("overloaded");
            }
        }
        let is_text = |block: &Value| block["type"] == "text";
        let texts: Option<&Vec<Value>> = raw["content"].as_array().filter(|blocks| blocks.iter().all(is_text));
        if let Some(text) =
            texts.filter(|blocks| blocks.len() == 1 && self.plain[place]).map(|it| it[0]["text"].clone())
            && message.role == Role::User
        {
            raw["content"] = text;
        }
        raw
    }
}

/// Our side of a life.
pub(super) struct Ours<'a> {
    life: &'a Life,
    session: Session<'a>,
    /// The revision of each message.
    revisions: Vec<Revision>,
    /// Compactions that were looked at.
    seen: usize,
}

impl Ours<'_> {
    /// Takes in the next message, and gives it as pi holds it.
    pub(super) fn append(&mut self, place: usize) -> Value {
        let life = self.life;
        let message = &life.messages[place].message;
        let is_reply = message.role == Role::Assistant;
        let said = message_tokens(message, life.is_early);
        let input = |unseen: i64| self.session.view().estimated_tokens + unseen;
        let usage = life.unseen[place].filter(|_| is_reply).map(|unseen| {
            let cached = input(unseen) / 2;
            Usage { input: input(unseen) - cached, cache_read: cached, output: said + 1, ..Usage::default() }
        });
        let parts = message
            .parts
            .iter()
            .map(|part| NewPart { metadata_json: Some(place.to_string()), ..NewPart::new(part.body.clone()) });
        let new = NewMessage {
            client_id: None,
            role: message.role,
            kind: MessageKind::Normal,
            parts: parts.collect(),
            finish: Some(Finish { reason: message.finish.reason, usage, ..Finish::default() }),
            open_timeout_ms: None,
            model: String::new(),
            provider: String::new(),
            origin_time: message.origin_time,
            metadata_json: None,
        };
        self.session.append(&new, is_reply);
        self.revisions.extend(self.session.sources().last().map(|source| source.message.revision));
        life.raw(place, usage.as_ref())
    }

    pub(super) fn view(&self) -> &View {
        self.session.view()
    }

    /// The next thing that happens by itself, if anything does: a summary, or something else, refusals included.
    pub(super) fn next(&mut self, number: usize) -> Option<Next> {
        let inline: Vec<SourceMessage> =
            self.session.sources().iter().filter(|source| source.place.is_none()).cloned().collect();
        let goes_on = self.session.reduce_once();
        let is_applied = self.session.firings()[self.seen..].iter().any(|firing| !firing.refused);
        self.seen = self.session.firings().len();
        match self.session.take_summary() {
            Some(plan) => Some(Next::Made(Box::new(Made::new(self, plan, inline, number)))),
            None if is_applied => Some(Next::LastResort),
            None => goes_on.then_some(Next::Refused),
        }
    }
}

/// Something that we do by ourselves.
pub(super) enum Next {
    /// A summary.
    Made(Box<Made>),
    /// Nothing: it would free too little.
    Refused,
    /// Outputs are cut, or messages left out, so that the view fits its window.
    LastResort,
}

/// A compaction of ours.
pub(super) struct Made {
    pub(super) text: String,
    pub(super) transcripts: Value,
    pub(super) view: View,
    /// The messages that it could cover.
    pub(super) inline: Vec<SourceMessage>,
    /// The words of the summary without lists: where it says what the one before said, without that one's lists, with
    /// them, and as pi 0.73 does without either.
    words: [String; 3],
    plan: SummaryPlan,
    first: usize,
}

impl Made {
    fn new(ours: &Ours<'_>, plan: SummaryPlan, inline: Vec<SourceMessage>, number: usize) -> Self {
        let input = input_of(&ours.life.policy, &plan);
        let text = ours.life.text(number, &input);
        let transcript = |messages: &[SourceMessage]| {
            let rules = &plan.rules.transcript;
            let messages: Vec<&SourceMessage> = spoken(messages).collect();
            (!messages.is_empty())
                .then(|| lines(&without_margins(&prompt::entries(rules, Detail::full(rules), &messages).join(GAP))))
        };
        let history = transcript(&plan.head);
        let previous = plan.previous.clone().filter(|_| history.is_some());
        let transcripts = json!({ "history": history, "front": transcript(&plan.split_turn), "previous": previous });
        let first = ours.revisions.iter().position(|revision| *revision >= plan.tail_start);
        let first = first.unwrap_or(ours.revisions.len());
        let past = plan.previous.as_deref().unwrap_or(NO_HISTORY);
        let words = [without_lists(past), past, NO_HISTORY].map(|past| ours.life.composed(number, &input, past));
        Self { words, text, transcripts, view: ours.session.view().clone(), inline, first, plan }
    }

    /// Where it cuts.
    pub(super) fn prepared(&self, _life: &Life) -> Value {
        let previous = self.plan.previous.clone().map_or(Value::Null, Value::from);
        cut_json(self.first, places(&self.plan.head), places(&self.plan.split_turn), previous)
    }

    /// The lists of files, as pi keeps them beside a summary.
    pub(super) fn details(&self) -> Value {
        let (read, modified) = files::parse_tags(&self.text);
        json!({ "readFiles": read, "modifiedFiles": modified })
    }

    /// The summary that follows from what was called, worked out anew: ours, with the files of any agent's tools, or
    /// one of pi's, with those of its own.
    pub(super) fn expected(&self, form: Form) -> String {
        let any = form == Form::Ours;
        let previous = self.plan.previous.as_deref().unwrap_or_default();
        let mut lists = ["read-files", "modified-files"].map(|tag| listed(previous, tag));
        for part in self.plan.head.iter().chain(&self.plan.split_turn).flat_map(|source| &source.message.parts) {
            let PartBody::ToolCall(call) = &part.body else { continue };
            let input: Value = serde_json::from_str(&call.input_json).unwrap_or_default();
            let path = input["path"].as_str().or_else(|| input["file_path"].as_str().filter(|_| any));
            let place = match call.tool.as_str() {
                "read" => 0,
                "write" | "edit" => 1,
                "Read" | "read_file" if any => 0,
                "WRITE" | "Edit" if any => 1,
                _ => continue,
            };
            lists[place].extend(path.map(str::to_owned));
        }
        let [read, modified] = lists;
        let read: Vec<&str> = read.difference(&modified).map(String::as_str).collect();
        let modified: Vec<&str> = modified.iter().map(String::as_str).collect();
        let block = |tag: &str, paths: &[&str]| match paths {
            [] => String::new(),
            paths => format!("\n\n<{tag}>\n{}\n</{tag}>", paths.join("\n")),
        };
        let words = match form {
            Form::Ours | Form::Stripped => &self.words[0],
            Form::Whole => &self.words[1],
            Form::Forgotten => &self.words[2],
        };
        format!("{words}{}{}", block("read-files", &read), block("modified-files", &modified))
    }
}

/// A form of a summary's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// As we write it.
    Ours,
    /// The same with the files of pi's own tools alone.
    Stripped,
    /// With the summary before whole, its lists included.
    Whole,
    /// Without the summary before.
    Forgotten,
}

/// A summary without the lists behind it.
fn without_lists(text: &str) -> &str {
    let end = ["\n\n<read-files>\n", "\n\n<modified-files>\n"].iter().filter_map(|tag| text.rfind(tag)).min();
    end.map_or(text, |end| &text[..end])
}

/// The files in a list behind a summary.
fn listed(text: &str, tag: &str) -> BTreeSet<String> {
    let inside = text.rsplit_once(&format!("<{tag}>\n")).and_then(|(_, rest)| rest.split_once(&format!("\n</{tag}>")));
    inside.map(|(lines, _)| lines.split('\n').map(str::to_owned).collect()).unwrap_or_default()
}

/// The place of a message in its life. What Longhand makes has none.
pub(super) fn place_of(source: &SourceMessage) -> usize {
    let metadata = source.message.parts.first().and_then(|part| part.metadata_json.as_deref());
    metadata.and_then(|place| place.parse().ok()).unwrap_or(usize::MAX)
}

fn places(messages: &[SourceMessage]) -> Vec<usize> {
    messages.iter().map(place_of).collect()
}

fn spoken(messages: &[SourceMessage]) -> impl Iterator<Item = &SourceMessage> {
    messages.iter().filter(|source| source.message.role != Role::System)
}

fn cut_json(first: usize, summarize: Vec<usize>, prefix: Vec<usize>, previous: Value) -> Value {
    json!({ "first": first, "summarize": summarize, "prefix": prefix, "previous": previous })
}

/// A text without the margins behind its line ends.
pub(super) fn without_margins(text: &str) -> String {
    let pieces = text.split_inclusive(ends_line);
    let bare = |(at, piece): (usize, &str)| {
        if at == 0 { piece.to_owned() } else { piece.strip_prefix(MARGIN).unwrap_or(piece).to_owned() }
    };
    pieces.enumerate().map(bare).collect()
}
