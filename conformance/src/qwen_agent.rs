//! Qwen-Agent, before and after September 2025: counting and truncation of texts, estimates of messages, the content of
//! a request, and the limits of the retrieval that adds to it.
//!
//! Qwen-Agent's lists are flat: a model's text, each of its calls and each result are separate messages. The remaining
//! content is compared piece by piece, so that each differing piece can be classified.

mod retrieval;
pub(crate) mod scenarios;

use crate::generate::{Conversation, Profile};
use crate::harm;
use crate::harness::{Peer, PeerFailure, Run, System};
use crate::report::{Class, Reason, Report};
use longhand::model::ids::{CompactionId, PartId};
use longhand::model::message::Role;
use longhand::model::part::{Media, PartBody};
use longhand::model::usage::ModelWindow;
use longhand::model::view::{SourceMessage, View};
use longhand::policy::bpe::{self, Encoding};
use longhand::policy::tokens::{estimate_parts, estimate_source};
use longhand::policy::{Limit, Policy, PolicyStep, omission, plan};
use longhand::presets;
use longhand::presets::qwen_agent::parameters::TurnsAndSteps;
use rand::Rng;
use retrieval::Limits;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use uuid::Uuid;

/// The releases with one of the two algorithms.
pub(crate) struct QwenAgent {
    name: &'static str,
    preset: &'static str,
    classes: &'static [Class],
}

pub(crate) const OLD: QwenAgent = QwenAgent { name: "qwen-agent-old", preset: "qwen-agent@old", classes: &OLD_CLASSES };
pub(crate) const CURRENT: QwenAgent =
    QwenAgent { name: "qwen-agent", preset: "qwen-agent@0.0.34", classes: &CURRENT_CLASSES };

const PROFILE: Profile = Profile { turns: 1..=7, text_max: 500, output_max: 2_500, ..Profile::FULL };

const ITEMS: &str = "crates/presets/src/qwen_agent/items/tests.rs";

const WHOLE_CHARACTERS: Class = Class {
    name: "a character stays whole",
    reason: Reason::InvalidText,
    explanation: "Qwen-Agent writes a replacement character where it cuts a character; we leave the character out.",
    test: (ITEMS, "a_truncation_never_leaves_half_a_character"),
};

const UNANSWERED: Class = Class {
    name: "what nobody has answered stays",
    reason: Reason::P9,
    explanation: "Qwen-Agent drops requests and results that no reply has read; we put a word in their place, so that \
                  the model answers what it is given and no result loses its call.",
    test: (ITEMS, "only_whole_messages_that_are_answered_are_left_out"),
};

static CURRENT_CLASSES: [Class; 7] = [
    retrieval::QUESTION,
    retrieval::WHOLE,
    WHOLE_CHARACTERS,
    UNANSWERED,
    Class {
        name: "a call stays with its result",
        reason: Reason::P9,
        explanation: "Qwen-Agent loses the call when it cuts the message that makes it; we give it an empty input.",
        test: (ITEMS, "a_call_keeps_an_input_and_one_that_runs_keeps_its_own"),
    },
    Class {
        name: "media stay when words are cut",
        reason: Reason::P8,
        explanation: "Qwen-Agent puts nothing in place of a message with media; we cut its words.",
        test: ("crates/presets/src/qwen_agent/turns_and_steps/tests.rs", "text_is_truncated_and_media_stay"),
    },
    Class {
        name: "requests in a row are reduced",
        reason: Reason::P12,
        explanation: "Qwen-Agent fails when the one it has to cut is not the last; we cut it like any other.",
        test: (
            "crates/presets/src/qwen_agent/turns_and_steps/tests.rs",
            "an_unanswered_request_is_truncated_like_any_other",
        ),
    },
];

static OLD_CLASSES: [Class; 6] = [
    retrieval::QUESTION,
    retrieval::WHOLE,
    WHOLE_CHARACTERS,
    UNANSWERED,
    Class {
        name: "the last request stays",
        reason: Reason::P9,
        explanation: "Qwen-Agent drops it where a later reply does not fit; we keep what fits.",
        test: (
            "crates/presets/src/qwen_agent/newest_first/tests.rs",
            "the_last_request_stays_in_the_room_that_is_left",
        ),
    },
    Class {
        name: "a result keeps its call",
        reason: Reason::P9,
        explanation: "Qwen-Agent stops at a result with media that does not fit, and keeps later results of the same reply \
                      without their calls; we keep the reply, and a word in place of the result.",
        test: (
            "crates/presets/src/qwen_agent/newest_first/tests.rs",
            "results_of_a_reply_keep_their_calls_where_the_walk_ends",
        ),
    },
];

impl System for QwenAgent {
    fn name(&self) -> &'static str {
        self.name
    }

    fn classes(&self) -> &'static [Class] {
        self.classes
    }

    fn run(&self, peer: &mut Peer, run: Run<'_>, report: &mut Report) -> Result<(), PeerFailure> {
        for batch in run.batches() {
            let cases: Vec<Case> =
                batch.map(|index| Case::draw(presets::policy(self.preset), run.seed, index)).collect();
            for (function, ours) in [
                ("countTokens", Case::count_tokens as fn(&Case) -> Value),
                ("truncateTexts", Case::truncate_texts),
                ("messageTokens", Case::message_tokens),
                ("truncate", Case::truncate),
            ] {
                let calls = cases.iter().map(|case| (function, case.question(function))).collect();
                for (case, theirs) in cases.iter().zip(peer.call_all(calls)?) {
                    let theirs = if function == "truncate" { case.aligned(theirs) } else { theirs };
                    report.compare(
                        function,
                        case.conversation.index,
                        &case.question(function),
                        &ours(case),
                        &theirs,
                        |ours, theirs| explain(self.classes, case, function, ours, theirs),
                    );
                }
            }
            self.retrieval(peer, report, &cases)?;
        }
        Ok(())
    }
}

impl QwenAgent {
    fn retrieval(&self, peer: &mut Peer, report: &mut Report, cases: &[Case]) -> Result<(), PeerFailure> {
        let policy = presets::policy("qwen-agent@dialogue-retrieval");
        let limits: Vec<Limits> = cases.iter().map(|case| Limits::draw(&policy, &case.conversation)).collect();
        for (function, ours) in
            [("query", Limits::query as fn(&Limits) -> Value), ("passages", Limits::passages), ("shown", Limits::shown)]
        {
            let calls = limits.iter().map(|limits| (function, limits.question(function))).collect();
            for ((case, limits), theirs) in cases.iter().zip(&limits).zip(peer.call_all(calls)?) {
                let index = case.conversation.index;
                let theirs = theirs.map(|theirs| limits.read(function, theirs));
                report.compare(function, index, &limits.question(function), &ours(limits), &theirs, |ours, theirs| {
                    let name = limits.explain(function, ours, theirs)?;
                    self.classes.iter().find(|class| class.name == name)
                });
            }
        }
        Ok(())
    }
}

/// The class of a difference, among some classes.
fn explain(
    classes: &'static [Class],
    case: &Case,
    function: &str,
    ours: &Value,
    theirs: &Value,
) -> Option<&'static Class> {
    let class = |name: &str| classes.iter().find(|class| class.name == name);
    if theirs["error"].as_str().is_some_and(|words| words.starts_with("AssertionError")) {
        return class("requests in a row are reduced").filter(|_| case.has_requests_in_a_row());
    }
    let (ours, all) = (ours.as_array()?, theirs.as_array()?);
    if ours.len() != all.len() {
        return None;
    }
    let mut found = None;
    for (index, (ours, theirs)) in ours.iter().zip(all).enumerate().filter(|(_, (ours, theirs))| ours != theirs) {
        let name = match function {
            "truncate" => case.difference(index, ours, theirs, all)?,
            _ => whole_characters(ours.as_str()?, theirs.as_str()?)?,
        };
        found = Some(class(name)?);
    }
    found
}

/// One conversation under one limit.
struct Case {
    conversation: Conversation,
    policy: Policy,
    pieces: Vec<Piece>,
    /// The limit on texts, in tokens.
    text_tokens: i64,
    both: bool,
    max_tokens: i64,
    /// The part of the limit that the instructions leave, in tokens.
    free_tokens: i64,
}

/// A message in Qwen-Agent's sense.
struct Piece {
    /// Index of its message here.
    message: usize,
    kind: Kind,
    /// Indexes of its parts in that message.
    parts: Vec<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    System,
    Request,
    Reply,
    Call,
    Result,
}

impl Kind {
    fn role(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Request => "user",
            Self::Reply | Self::Call => "assistant",
            Self::Result => "function",
        }
    }
}

/// The text that replaces an omitted piece.
const OMITTED_WORDS: &str = "omit";

impl Case {
    fn draw(mut policy: Policy, seed: u64, index: u64) -> Self {
        let mut conversation = Conversation::generate(seed, index, &PROFILE);
        // Files have names in Qwen-Agent.
        conversation.messages.iter_mut().for_each(name_media);
        let pieces = pieces(&conversation.messages);
        let mut dice = conversation.dice("limits");
        let (text_tokens, both) = (dice.random_range(0..200), dice.random());
        let estimate = |source: &SourceMessage| estimate_source(&policy, source);
        let instructions: i64 = conversation.messages.iter().filter(|source| is_system(source)).map(estimate).sum();
        let all: i64 = conversation.messages.iter().map(estimate).sum();
        let rest = (all - instructions).max(1) as f64;
        // Small limits are as likely as large ones; a few leave space for everything.
        let share = (rest * 1.2).ln() * dice.random_range(0.0..=1.0_f64);
        // Sometimes no space is left besides the instructions.
        let free_tokens = if dice.random_ratio(1, 40) { 0 } else { share.exp().round() as i64 };
        let max_tokens = instructions + free_tokens;
        let level_policy = policy.auto.as_mut().expect("the preset has a level");
        level_policy.threshold.limit = Limit::Tokens(max_tokens);
        Self { conversation, policy, pieces, text_tokens, both, max_tokens, free_tokens }
    }

    fn messages(&self) -> &[SourceMessage] {
        &self.conversation.messages
    }

    fn question(&self, function: &str) -> Value {
        match function {
            "countTokens" => json!({ "texts": self.conversation.texts() }),
            "truncateTexts" => {
                json!({ "texts": self.conversation.texts(), "max_tokens": self.text_tokens, "both": self.both })
            }
            _ => {
                let messages: Vec<Value> = (0..self.pieces.len()).map(|index| self.as_theirs(index)).collect();
                json!({ "messages": messages, "max_tokens": self.max_tokens })
            }
        }
    }

    /// A piece as Qwen-Agent's message. The number identifies it until it is truncated.
    fn as_theirs(&self, index: usize) -> Value {
        let piece = &self.pieces[index];
        let mut message = json!({ "role": piece.kind.role(), "extra": { "piece": index } });
        let mut items = Vec::new();
        for body in self.bodies(piece) {
            match body {
                PartBody::Text(text) if text.is_empty() => {}
                PartBody::Text(text) => items.push(json!({ "text": text })),
                PartBody::Media(media) => items.push(item(media)),
                PartBody::ToolCall(call) => {
                    message["function_call"] = json!({ "name": call.tool, "arguments": call.input_json });
                }
                PartBody::ToolResult(result) => {
                    message["name"] = json!("tool");
                    items.push(json!({ "text": result.output }));
                    items.extend(result.attachments.iter().map(item));
                }
                _ => {}
            }
        }
        message["content"] = match items.as_slice() {
            [] => json!(""),
            [only] if only["text"].is_string() => only["text"].clone(),
            _ => json!(items),
        };
        message
    }

    fn bodies<'a>(&'a self, piece: &'a Piece) -> impl Iterator<Item = &'a PartBody> {
        piece.parts.iter().map(|&part| &*self.messages()[piece.message].message.parts[part].body)
    }

    fn count_tokens(&self) -> Value {
        self.conversation.texts().iter().map(|text| bpe::count(Encoding::Qwen, text)).collect()
    }

    fn truncate_texts(&self) -> Value {
        let cut = |text: &&str| {
            let tokens = Encoding::Qwen.tokenize(text);
            if self.both {
                tokens.both_sides(self.text_tokens, "...", 1).into_owned()
            } else {
                tokens.prefix(self.text_tokens).to_owned()
            }
        };
        self.conversation.texts().iter().map(cut).collect()
    }

    fn message_tokens(&self) -> Value {
        let estimate = |piece: &Piece| {
            // Calls count in only one of the two versions, but the peer always returns their tokens.
            let policy =
                if piece.kind == Kind::Call { presets::policy("qwen-agent@0.0.34") } else { self.policy.clone() };
            let tokens = estimate_parts(&policy, &self.messages()[piece.message], &piece.parts);
            match piece.kind {
                Kind::Call => json!({ "text": 0, "call": tokens }),
                Kind::System | Kind::Request | Kind::Reply | Kind::Result => json!({ "text": tokens, "call": null }),
            }
        };
        self.pieces.iter().map(estimate).collect()
    }

    /// The remaining content of each piece; null if it is left out.
    fn truncate(&self) -> Value {
        let level_policy = self.policy.auto.as_ref().expect("the preset has a level");
        let Some(PolicyStep::Omit(rule)) = level_policy.steps.first() else { panic!("the preset fits") };
        let removals = omission::removals(rule, &self.policy, &ModelWindow::default(), self.messages());
        let estimate = |source: &SourceMessage| estimate_source(&self.policy, source);
        // One of both is refused whatever the size of the rest.
        let refuses = rule.parameters::<TurnsAndSteps>().is_none() || self.free_tokens == 0;
        if refuses && removals.is_empty() && self.messages().iter().map(estimate).sum::<i64>() > self.max_tokens {
            return json!({ "error": REFUSED });
        }
        let left = plan::with_removals(self.messages(), &removals, CompactionId(Uuid::nil()));
        let view = plan::view(&self.policy, &left);
        self.states(&view)
    }

    /// The content that a view has of each piece; null if it is left out.
    fn states(&self, view: &View) -> Value {
        let parts = view.messages.iter().flat_map(|message| &message.parts);
        let shown = parts.filter_map(|part| Some((part.source?, part.body.clone()))).collect();
        (0..self.pieces.len()).map(|index| self.flat(index, self.ours(&self.pieces[index], &shown))).collect()
    }

    fn ours(&self, piece: &Piece, shown: &HashMap<PartId, Arc<PartBody>>) -> Value {
        let (mut texts, mut media, mut call) = (Vec::new(), 0, Value::Null);
        let parts = &self.messages()[piece.message].message.parts;
        let mut is_shown = false;
        for body in piece.parts.iter().filter_map(|&part| shown.get(&parts[part].id)).map(|body| &**body) {
            is_shown = true;
            match body {
                PartBody::Text(text) => texts.push(text.as_str()),
                PartBody::Media(_) => media += 1,
                PartBody::ToolCall(made) => call = json!(made.input_json),
                PartBody::ToolResult(result) => {
                    texts.push(&result.output);
                    media += result.attachments.len();
                }
                _ => {}
            }
        }
        if is_shown { state(&texts.join("\n"), media, call, piece.kind) } else { Value::Null }
    }

    /// The remaining content of each piece on their side; null for omitted pieces, and an error text for a failure.
    ///
    /// A truncated message has lost its number. It is the last one with its role before the following message, or, if
    /// nothing is left of it, the last one with media.
    fn aligned(&self, theirs: Result<Value, String>) -> Result<Value, String> {
        let theirs =
            theirs.map_err(|words| if words.starts_with("ModelServiceError") { REFUSED.to_owned() } else { words })?;
        let mut states = vec![Value::Null; self.pieces.len()];
        let mut end = self.pieces.len();
        let messages: Vec<&Value> = theirs.as_array().into_iter().flatten().collect();
        let first = messages.iter().position(|message| message["role"] != "system");
        for (index, message) in messages.into_iter().enumerate().rev() {
            let numbered = message["extra"]["piece"].as_u64().and_then(|number| usize::try_from(number).ok());
            let index = numbered.or_else(|| {
                self.pieces[..end].iter().rposition(|piece| match message {
                    // Their first message is a request.
                    Value::Null if first == Some(index) => piece.kind == Kind::Request,
                    Value::Null => piece.kind == Kind::Result && self.has_media(piece),
                    _ => piece.kind.role() == message["role"],
                })
            });
            let Some(index) = index.filter(|index| *index < end) else {
                return Err(format!("their messages are in no order that is known: {theirs}"));
            };
            // An empty piece is not in a view, whatever they replace it with.
            let says_nothing = self.original(index).is_null();
            states[index] = match message {
                _ if says_nothing => Value::Null,
                Value::Null => json!({ "nothing": true }),
                _ => self.flat(index, theirs_state(message, self.pieces[index].kind)),
            };
            end = index;
        }
        Ok(json!(states))
    }

    /// A piece before any truncation.
    fn original(&self, index: usize) -> Value {
        self.flat(index, theirs_state(&self.as_theirs(index), self.pieces[index].kind))
    }

    /// The remains of several texts, without line breaks: they truncate texts joined by a line break, and we single
    /// texts.
    fn flat(&self, index: usize, mut state: Value) -> Value {
        if self.pieces[index].parts.len() > 1
            && let Some(text) = state["text"].as_str()
        {
            state["text"] = json!(text.replace('\n', ""));
        }
        state
    }

    fn has_media(&self, piece: &Piece) -> bool {
        self.bodies(piece).any(|body| match body {
            PartBody::Media(_) => true,
            PartBody::ToolResult(result) => !result.attachments.is_empty(),
            _ => false,
        })
    }

    /// Indexes of the running calls.
    fn running(&self) -> impl Iterator<Item = usize> {
        let runs = |piece: &Piece| {
            self.bodies(piece).any(|body| match body {
                PartBody::ToolCall(call) => harm::runs(self.messages(), piece.message, &call.call_id),
                _ => false,
            })
        };
        (0..self.pieces.len()).filter(move |&index| runs(&self.pieces[index]))
    }

    fn has_requests_in_a_row(&self) -> bool {
        self.pieces.windows(2).any(|pair| pair.iter().all(|piece| piece.kind == Kind::Request))
    }

    /// The name of the class of a piece's difference.
    fn difference(&self, index: usize, ours: &Value, theirs: &Value, all: &[Value]) -> Option<&'static str> {
        let piece = &self.pieces[index];
        let words = ours["text"].as_str();
        if theirs["nothing"] == true {
            return words.filter(|_| self.has_media(piece)).map(|_| "media stay when words are cut");
        }
        if let (Some(words), Some(theirs)) = (words, theirs["text"].as_str()) {
            return whole_characters(words, theirs);
        }
        if !theirs.is_null() || ours.is_null() {
            return None;
        }
        let original = self.original(index);
        let answered = harm::nearest(self.messages(), self.messages().len());
        let last_request = self.pieces.iter().rposition(|piece| piece.kind == Kind::Request);
        match piece.kind {
            Kind::Call if ours["call"] == "{}" && original != *ours => Some("a call stays with its result"),
            Kind::Call if original == *ours && self.is_truncated_to_nothing(index, all) => {
                Some("a call stays with its result")
            }
            Kind::Request if last_request == Some(index) => {
                let is_start = original["text"].as_str()?.starts_with(words?);
                (is_start || words == Some(OMITTED_WORDS)).then_some("the last request stays")
            }
            kind => {
                let is_kept = if kind == Kind::Call { original == *ours } else { words == Some(OMITTED_WORDS) };
                let is_joined = self.joined(piece.message).any(|other| !all[other].is_null());
                match (is_kept, piece.message >= answered) {
                    (false, _) => None,
                    (true, true) => Some("what nobody has answered stays"),
                    (true, false) => is_joined.then_some("a result keeps its call"),
                }
            }
        }
    }

    /// True if they truncate a call after text that is omitted whole: no more had to go, and yet it is truncated.
    fn is_truncated_to_nothing(&self, index: usize, all: &[Value]) -> bool {
        let before = self.pieces[..index].iter().zip(all).rposition(|(_, state)| !state.is_null());
        before.is_some_and(|before| all[before]["text"] == OMITTED_WORDS)
    }

    /// The pieces of one message with calls and of their results.
    fn joined(&self, message: usize) -> impl Iterator<Item = usize> {
        let ids = |message: usize| -> Vec<&str> {
            let parts = self.messages()[message].message.parts.iter();
            let ids = parts.filter_map(|part| match &*part.body {
                PartBody::ToolCall(call) => Some(call.call_id.as_str()),
                PartBody::ToolResult(result) => Some(result.call_id.as_str()),
                _ => None,
            });
            ids.collect()
        };
        let own = ids(message);
        let caller = (0..self.messages().len()).find(|&other| ids(other).iter().any(|id| own.contains(id)));
        let all = caller.map(ids).unwrap_or_default();
        (0..self.pieces.len()).filter(move |&other| ids(self.pieces[other].message).iter().any(|id| all.contains(id)))
    }
}

/// The outcome for messages that cannot be shortened enough, on both sides.
const REFUSED: &str = "refused";

/// The class of texts that are equal except for truncated characters in theirs.
fn whole_characters(ours: &str, theirs: &str) -> Option<&'static str> {
    let whole = theirs.replace('\u{fffd}', "");
    let is_same = whole == ours || (whole.is_empty() && ours == OMITTED_WORDS);
    (is_same && theirs.contains('\u{fffd}')).then_some("a character stays whole")
}

/// The remaining content of a piece. Empty text of users and models is not in a view.
fn state(text: &str, media: usize, call: Value, kind: Kind) -> Value {
    let says_nothing = text.is_empty() && media == 0 && call.is_null();
    match kind {
        Kind::Result => json!({ "text": text, "media": media, "call": call }),
        Kind::System | Kind::Request | Kind::Reply | Kind::Call if says_nothing => Value::Null,
        Kind::System | Kind::Request | Kind::Reply => json!({ "text": text, "media": media, "call": call }),
        // Content beside an omitted call is not part of the call.
        Kind::Call if call.is_null() => Value::Null,
        Kind::Call => json!({ "call": call }),
    }
}

fn theirs_state(message: &Value, kind: Kind) -> Value {
    let call = message["function_call"]["arguments"].clone();
    match &message["content"] {
        Value::Array(items) => {
            let texts: Vec<&str> = items.iter().filter_map(|item| item["text"].as_str()).collect();
            state(&texts.join("\n"), items.len() - texts.len(), call, kind)
        }
        content => state(content.as_str().unwrap_or_default(), 0, call, kind),
    }
}

fn is_system(source: &SourceMessage) -> bool {
    source.message.role == Role::System
}

fn item(media: &Media) -> Value {
    let kind = if media.mime_type.starts_with("image/") { "image" } else { "file" };
    json!({ kind: format!("file:///media/{}", media.name) })
}

fn name_media(source: &mut SourceMessage) {
    for part in &mut source.message.parts {
        let media = match Arc::make_mut(&mut part.body) {
            PartBody::Media(media) => std::slice::from_mut(media),
            PartBody::ToolResult(result) => result.attachments.as_mut_slice(),
            _ => &mut [],
        };
        for media in media.iter_mut().filter(|media| media.name.is_empty()) {
            "photo.jpg".clone_into(&mut media.name);
        }
    }
}

/// The messages in pieces: text, each call, each result. A reply with calls alone has no text piece.
fn pieces(messages: &[SourceMessage]) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for (message, source) in messages.iter().enumerate() {
        let parts = &source.message.parts;
        let those = |is: fn(&PartBody) -> bool| -> Vec<usize> {
            (0..parts.len()).filter(|&part| is(&parts[part].body)).collect()
        };
        let kind = match source.message.role {
            Role::System => Kind::System,
            Role::User => Kind::Request,
            Role::Assistant | Role::Tool => Kind::Reply,
        };
        let words = those(|body| {
            matches!(body, PartBody::Text(text) if !text.is_empty()) || matches!(body, PartBody::Media(_))
        });
        let calls = those(|body| matches!(body, PartBody::ToolCall(_)));
        let results = those(|body| matches!(body, PartBody::ToolResult(_)));
        if !words.is_empty() || (calls.is_empty() && results.is_empty()) {
            pieces.push(Piece { message, kind, parts: words });
        }
        pieces.extend(calls.into_iter().map(|part| Piece { message, kind: Kind::Call, parts: vec![part] }));
        pieces.extend(results.into_iter().map(|part| Piece { message, kind: Kind::Result, parts: vec![part] }));
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_broken_characters_make_texts_the_same() {
        for (ours, theirs, same) in [
            ("ab", "a\u{fffd}b", true),
            ("a...b", "a\u{fffd}\u{fffd}...\u{fffd}b", true),
            ("omit", "\u{fffd}", true),
            ("ab", "ab", false),
            ("ab", "a\u{fffd}", false),
            ("omit", "", false),
        ] {
            assert_eq!(whole_characters(ours, theirs).is_some(), same, "{ours} {theirs}");
        }
    }

    #[test]
    fn messages_that_lost_their_number_are_found_again() {
        // An empty piece has no state.
        let speaks =
            |case: &Case| case.pieces.first().is_some_and(|it| it.kind == Kind::Request) && !case.original(0).is_null();
        let mut cases = (0..).map(|index| Case::draw(presets::policy("qwen-agent@0.0.34"), 1, index));
        let mut case = cases.find(speaks).expect("some conversation begins with words");
        case.pieces = [Kind::Request, Kind::Reply, Kind::Result, Kind::Request, Kind::Reply]
            .map(|kind| Piece { message: 0, kind, parts: case.pieces[0].parts.clone() })
            .into();
        let entry = |role: &str| json!({ "role": role, "content": "x" });
        let numbered = |role: &str, piece: usize| json!({ "role": role, "content": "x", "extra": { "piece": piece } });
        let positions = |messages: Value| -> Vec<bool> {
            let states = case.aligned(Ok(messages)).expect("an order");
            states.as_array().expect("states").iter().map(|state| !state.is_null()).collect()
        };
        assert_eq!(positions(json!([entry("function"), numbered("user", 3)])), [false, false, true, true, false]);
        assert_eq!(positions(json!([entry("user"), numbered("assistant", 1)])), [true, true, false, false, false]);
        assert!(case.aligned(Ok(json!([numbered("user", 3), numbered("user", 0)]))).is_err());
        assert_eq!(case.aligned(Err("ModelServiceError: no".into())), Err(REFUSED.into()));
    }
}
