//! Random conversations: each is drawn from its seed and its index alone, so that it can be reproduced.
//!
//! They are plain: no marks, no summaries, no compactions. A system's own file draws further data with
//! [`Conversation::dice`].

use longhand::model::Revision;
use longhand::model::ids::{MessageId, PartId, SessionId};
use longhand::model::message::{Finish, FinishReason, Message, MessageKind, Role};
use longhand::model::part::{Answers, Media, MediaSource, Part, PartBody, ResultStatus, ToolCall, ToolResult};
use longhand::model::time::Timestamp;
use longhand::model::usage::Usage;
use longhand::model::view::SourceMessage;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use std::ops::RangeInclusive;
use uuid::Uuid;

/// Time of the first message of every conversation, in milliseconds since the epoch.
const START_MILLIS: i64 = 1_750_000_000_000;
/// Lengths near which originals round, truncate or change their behaviour.
const EDGES: [usize; 10] = [1, 4, 8, 16, 100, 200, 2_000, 8_000, 10_000, 20_000];
/// Number of pieces after which a long text repeats itself.
const PIECES_MAX: usize = 64;

/// The possible content of a system's conversations.
#[derive(Debug, Clone)]
pub(crate) struct Profile {
    /// Number of turns: a request and everything up to the next one. A conversation may also be empty.
    pub(crate) turns: RangeInclusive<usize>,
    /// Maximum number of characters in a text of a user or a model.
    pub(crate) text_max: usize,
    /// Maximum number of characters in a tool's output.
    pub(crate) output_max: usize,
    /// True if some conversations begin with a system message.
    pub(crate) system: bool,
    /// True if some replies have reasoning.
    pub(crate) reasoning: bool,
    /// True if there are images and documents, in requests and as attachments of results.
    pub(crate) media: bool,
    /// True if there are tool calls.
    pub(crate) calls: bool,
    /// Position of the results.
    pub(crate) results: Results,
    /// True if calls may stay without a result and replies may fail.
    pub(crate) interruptions: bool,
    /// True if requests may follow each other without a reply between them.
    pub(crate) repeated_requests: bool,
    /// The tools.
    pub(crate) tools: &'static [&'static str],
}

/// Positions of the results of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Results {
    /// Each in its own tool message.
    MessageEach,
    /// All results of one reply in one tool message.
    MessageForAll,
    /// One of the two, by conversation.
    Either,
    /// In the reply itself, after the call.
    WithCall,
}

impl Profile {
    /// Every kind of content.
    pub(crate) const FULL: Self = Self {
        turns: 0..=8,
        text_max: 4_000,
        output_max: 30_000,
        system: true,
        reasoning: true,
        media: true,
        calls: true,
        results: Results::Either,
        interruptions: true,
        repeated_requests: true,
        tools: &["bash", "read", "write", "edit", "grep", "glob", "list", "task", "skill", "webfetch"],
    };

    /// Whole conversations of an agent in small windows, which its compaction meets several times.
    pub(crate) const SMALL_WINDOWS: Self =
        Self { turns: 4..=14, text_max: 1_500, output_max: 6_000, system: false, media: false, ..Self::FULL };
}

/// A conversation, in the types of `model`. Revisions are 1, 2, 3 …, and ids follow them.
#[derive(Debug, Clone)]
pub(crate) struct Conversation {
    seed: u64,
    /// Its index in the run.
    pub(crate) index: u64,
    /// Its messages, all sealed, none pruned.
    pub(crate) messages: Vec<SourceMessage>,
}

impl Conversation {
    /// The conversation with this index.
    pub(crate) fn generate(seed: u64, index: u64, profile: &Profile) -> Self {
        let dice = dice(seed, index, "conversation");
        let mut author =
            Author { dice, profile, messages: Vec::new(), parts: 0, calls: 0, tokens: 0, millis: START_MILLIS };
        author.write();
        Self { seed, index, messages: author.messages }
    }

    /// The same conversation without any time between its messages: a daemon goes by its own clock.
    pub(crate) fn without_pauses(mut self) -> Self {
        let start = Timestamp::from_millis(START_MILLIS);
        for source in &mut self.messages {
            (source.message.create_time, source.message.origin_time) = (start, Some(start));
        }
        self
    }

    /// Random numbers for a system's own settings: limits, fractions, flags. Each purpose (its first 16 bytes count)
    /// has its own sequence, so that one use does not change another.
    pub(crate) fn dice(&self, purpose: &str) -> StdRng {
        dice(self.seed, self.index, purpose)
    }

    /// All texts of the conversation.
    pub(crate) fn texts(&self) -> Vec<&str> {
        let parts = self.messages.iter().flat_map(|source| &source.message.parts);
        parts
            .filter_map(|part| match &*part.body {
                PartBody::Text(text) | PartBody::Reasoning(text) => Some(text.as_str()),
                PartBody::ToolCall(call) => Some(&call.input_json),
                PartBody::ToolResult(result) => Some(&result.output),
                PartBody::Media(media) => Some(&media.name),
                PartBody::Marker(_) | PartBody::Step(_) | PartBody::Opaque(_) | PartBody::Record(_) => None,
            })
            .collect()
    }
}

fn dice(seed: u64, index: u64, purpose: &str) -> StdRng {
    let mut bytes = [0; 32];
    let purpose = purpose.bytes().chain(std::iter::repeat(0)).take(16);
    let all = seed.to_le_bytes().into_iter().chain(index.to_le_bytes()).chain(purpose);
    bytes.iter_mut().zip(all).for_each(|(target, byte)| *target = byte);
    StdRng::from_seed(bytes)
}

struct Author<'a> {
    dice: StdRng,
    profile: &'a Profile,
    messages: Vec<SourceMessage>,
    parts: u128,
    calls: u64,
    /// Approximate token count of the conversation so far; reported usage follows it.
    tokens: i64,
    millis: i64,
}

impl Author<'_> {
    fn write(&mut self) {
        let turns = self.dice.random_range(self.profile.turns.clone());
        let in_one = self.chance(50);
        let results = match self.profile.results {
            Results::Either if in_one => Results::MessageForAll,
            Results::Either => Results::MessageEach,
            settled @ (Results::MessageEach | Results::MessageForAll | Results::WithCall) => settled,
        };
        if self.profile.system && self.chance(30) {
            let text = self.text(self.profile.text_max);
            self.push(Role::System, vec![PartBody::Text(text)], Finish::default());
        }
        for turn in 1..=turns {
            self.request();
            if self.profile.repeated_requests && self.chance(8) {
                continue;
            }
            let steps = if self.profile.calls { self.dice.random_range(0..=4) } else { 0 };
            for _ in 0..steps {
                self.step(results);
            }
            // The last turn may be unfinished.
            if turn < turns || self.chance(60) {
                self.reply();
            }
        }
    }

    /// Adds a request of the user.
    fn request(&mut self) {
        let mut bodies = vec![PartBody::Text(self.text(self.profile.text_max))];
        if self.chance(10) {
            bodies.push(PartBody::Text(self.text(self.profile.text_max)));
        }
        if self.profile.media && self.chance(12) {
            bodies.push(PartBody::Media(self.media()));
        }
        self.push(Role::User, bodies, Finish::default());
    }

    /// Adds the reply that ends a turn.
    fn reply(&mut self) {
        let mut bodies = self.thoughts();
        bodies.push(PartBody::Text(self.text(self.profile.text_max)));
        let reason = match self.dice.random_range(0..100) {
            0..5 if self.profile.interruptions => FinishReason::Aborted,
            5..9 if self.profile.interruptions => FinishReason::Error,
            9..12 => FinishReason::Length,
            _ => FinishReason::Stop,
        };
        self.say_as_model(bodies, reason);
    }

    /// Adds a reply with tool calls, and their results.
    fn step(&mut self, results: Results) {
        let mut bodies = self.thoughts();
        if self.chance(50) {
            bodies.push(PartBody::Text(self.text(self.profile.text_max)));
        }
        let count = if self.chance(70) { 1 } else { self.dice.random_range(2..=4) };
        let mut answers = Vec::new();
        for _ in 0..count {
            let call = self.call();
            let answered = !self.profile.interruptions || !self.chance(5);
            let answer = answered.then(|| PartBody::ToolResult(self.result(&call.call_id)));
            bodies.push(PartBody::ToolCall(call));
            match results {
                Results::WithCall => bodies.extend(answer),
                Results::MessageEach | Results::MessageForAll | Results::Either => answers.extend(answer),
            }
        }
        self.say_as_model(bodies, FinishReason::ToolCalls);
        match results {
            Results::MessageForAll if answers.is_empty() => {}
            Results::MessageForAll => self.push(Role::Tool, answers, Finish::default()),
            Results::MessageEach | Results::Either | Results::WithCall => {
                answers.into_iter().for_each(|answer| self.push(Role::Tool, vec![answer], Finish::default()));
            }
        }
    }

    fn thoughts(&mut self) -> Vec<PartBody> {
        let thinks = self.profile.reasoning && self.chance(25);
        if thinks { vec![PartBody::Reasoning(self.text(self.profile.text_max))] } else { Vec::new() }
    }

    fn call(&mut self) -> ToolCall {
        self.calls += 1;
        let tool = self.profile.tools.choose(&mut self.dice).copied().unwrap_or("tool");
        let input = self.input(tool);
        ToolCall {
            call_id: format!("call_{}", self.calls),
            tool: tool.to_owned(),
            input_json: input.to_string(),
            ..ToolCall::default()
        }
    }

    fn input(&mut self, tool: &str) -> Value {
        let path = format!("src/{}/{}.rs", self.pick(&WORDS), self.pick(&WORDS));
        match tool {
            "read" | "read_file" => json!({ "path": path, "offset": self.dice.random_range(0..500) }),
            "write" | "write_file" => json!({ "path": path, "content": self.text(self.profile.text_max) }),
            "edit" | "replace" => {
                json!({ "path": path, "oldText": self.text(200), "newText": self.text(200), "all": self.chance(50) })
            }
            "bash" | "run_shell_command" => json!({ "command": self.text(200) }),
            _ if self.chance(10) => json!({}),
            _ => json!({ "query": self.text(200), "options": { "limit": 20, "ratio": 0.5, "tags": ["a", null] } }),
        }
    }

    fn result(&mut self, call_id: &str) -> ToolResult {
        let status = match self.dice.random_range(0..100) {
            0..10 => ResultStatus::Error,
            10..13 if self.profile.interruptions => ResultStatus::Interrupted,
            _ => ResultStatus::Completed,
        };
        let attachments = if self.profile.media && self.chance(4) { vec![self.media()] } else { Vec::new() };
        let output = self.text(self.profile.output_max);
        ToolResult {
            call_id: call_id.to_owned(),
            answers: Answers::Nearest,
            status,
            output,
            attachments,
            start_time: None,
            end_time: None,
        }
    }

    fn media(&mut self) -> Media {
        let (mime_type, name) = *[("image/png", "shot.png"), ("image/jpeg", ""), ("application/pdf", "文档.pdf")]
            .choose(&mut self.dice)
            .unwrap_or(&("image/png", ""));
        let source = if self.chance(80) {
            let bytes = self.dice.random_range(0..600);
            MediaSource::Bytes((0..bytes).map(|_| self.dice.random()).collect())
        } else {
            MediaSource::Uri("https://example.org/media".to_owned())
        };
        Media { mime_type: mime_type.to_owned(), name: name.to_owned(), source }
    }

    fn say_as_model(&mut self, bodies: Vec<PartBody>, reason: FinishReason) {
        let usage = self.chance(85).then(|| self.usage());
        self.push(Role::Assistant, bodies, Finish { reason: Some(reason), usage, ..Finish::default() });
    }

    /// Usage as a provider might report it: close to the actual tokens, sometimes empty.
    fn usage(&mut self) -> Usage {
        if self.chance(4) {
            return Usage::default();
        }
        let seen = self.tokens + self.dice.random_range(0..3_000);
        let cached = if self.chance(50) { self.dice.random_range(0..=seen) } else { 0 };
        let mut usage = Usage { input: seen - cached, cache_read: cached, ..Usage::default() };
        usage.output = self.dice.random_range(0..2_000);
        usage.cache_write = if self.chance(20) { self.dice.random_range(0..500) } else { 0 };
        usage.reasoning = if self.chance(20) { self.dice.random_range(0..500) } else { 0 };
        usage.total = self.chance(50).then_some(seen + usage.output + usage.cache_write + usage.reasoning);
        usage
    }

    fn push(&mut self, role: Role, bodies: Vec<PartBody>, finish: Finish) {
        let revision = self.messages.len() as Revision + 1;
        // Mostly seconds, sometimes a night.
        self.millis += if self.chance(4) { 8 * 3_600_000 } else { self.dice.random_range(0..90_000) };
        let parts: Vec<Part> = bodies.into_iter().map(|body| self.part(revision, body)).collect();
        let message = Message {
            id: MessageId(Uuid::from_u128((1 << 64) + revision as u128)),
            session_id: SessionId(Uuid::from_u128(1)),
            client_id: Some(format!("m{revision}")),
            revision,
            role,
            kind: MessageKind::Normal,
            parts,
            sealed_revision: Some(revision),
            finish,
            model: String::new(),
            provider: String::new(),
            create_time: Timestamp::from_millis(self.millis),
            origin_time: Some(Timestamp::from_millis(self.millis)),
            actor: String::new(),
            metadata_json: None,
            replaces: None,
        };
        self.messages.push(SourceMessage {
            message: message.into(),
            placement: None,
            pruned: Vec::new(),
            counts: None,
        });
    }

    fn part(&mut self, revision: Revision, body: PartBody) -> Part {
        self.parts += 1;
        let bytes = match &body {
            PartBody::Text(text) | PartBody::Reasoning(text) => text.len(),
            PartBody::ToolCall(call) => call.input_json.len(),
            PartBody::ToolResult(result) => result.output.len(),
            PartBody::Media(_) => 4_800,
            PartBody::Marker(_) | PartBody::Step(_) | PartBody::Opaque(_) | PartBody::Record(_) => 0,
        };
        self.tokens += bytes as i64 / 4;
        let id = PartId(Uuid::from_u128((2 << 64) + self.parts));
        Part { id, client_id: None, revision, body: body.into(), metadata_json: None }
    }

    fn chance(&mut self, percent: u32) -> bool {
        self.dice.random_range(0..100) < percent
    }

    fn pick(&mut self, words: &[&'static str]) -> &'static str {
        words.choose(&mut self.dice).copied().unwrap_or_default()
    }

    fn text(&mut self, max: usize) -> String {
        text(&mut self.dice, max)
    }
}

const WORDS: [&str; 24] = [
    "the", "session", "fails", "when", "a", "second", "client", "writes", "please", "look", "at", "line", "42", "and",
    "fix", "it", "token", "window", "naïve", "résumé", "don't", "(again)", "first,", "done.",
];
const HAN: [&str; 10] = ["会话", "压缩", "上下文", "请", "修复", "这个", "错误", "，", "。", "文件名是"];
const ASTRAL: [&str; 9] = ["😀", "👩‍💻", "🇩🇪", "👍🏽", "𝒙", "𠮷", "🚀", "é", "ok"];
const CODE: [&str; 12] = [
    "fn main() {",
    "\n    ",
    "let x = \"a\\n\";",
    "}\n",
    "if (a < b && c > d) ",
    "return null;",
    concat!("// TO", "DO\n"),
    "=> ",
    "\t",
    "const key = `v${i}`;",
    "<tag attr='1'/>",
    "\r\n",
];
const LOG: [&str; 7] = [
    "\u{1b}[31merror\u{1b}[0m: cannot find value\n",
    "warning: unused\n",
    "  --> src/lib.rs:10:5\n",
    "   Compiling x v0.1.0\n",
    "test a ... ok\n",
    "\n",
    "100%|##########|\r",
];
const JSON: [&str; 8] = ["{\"a\":", "[1,2.5,null]", ",", "\"\\u00e9\"", "}", ":", "true", "{}"];
const BLANK: [&str; 6] = [" ", "\n", "\t", "\n\n", "\u{a0}", "\u{2028}"];

/// A text of any length up to `max` characters: prose, Chinese, characters outside the basic plane, code, logs, JSON,
/// blanks, or nothing. It never contains U+FFFD, which stands for half a character in an answer of the peer.
pub(crate) fn text(dice: &mut StdRng, max: usize) -> String {
    let length = length(dice, max);
    let pieces: &[&str] = match dice.random_range(0..100) {
        0..40 => &WORDS,
        40..52 => &HAN,
        52..62 => &ASTRAL,
        62..80 => &CODE,
        80..88 => &LOG,
        88..94 => &JSON,
        94..97 => &BLANK,
        _ => &["a"],
    };
    let spaced = std::ptr::eq(pieces.as_ptr(), WORDS.as_ptr());
    let mut phrase = Vec::new();
    while phrase.len() < PIECES_MAX.min(length) {
        // Sometimes a piece of another kind, so that lengths in different units differ within one text.
        let piece = if dice.random_ratio(1, 30) { ASTRAL.choose(dice) } else { pieces.choose(dice) };
        phrase.extend(piece.copied());
        phrase.extend(spaced.then_some(" "));
    }
    phrase.iter().cycle().flat_map(|piece| piece.chars()).take(length).collect()
}

/// A random length: short ones are as likely as long ones, and those near `EDGES` are frequent.
fn length(dice: &mut StdRng, max: usize) -> usize {
    if max == 0 || dice.random_ratio(1, 20) {
        return 0;
    }
    if dice.random_ratio(1, 10) {
        let edge = EDGES.choose(dice).copied().unwrap_or(1);
        return (edge + dice.random_range(0..3)).saturating_sub(1).min(max);
    }
    let exponent = dice.random_range(0.0..=(max as f64).ln());
    (exponent.exp().round() as usize).min(max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bodies(conversation: &Conversation) -> impl Iterator<Item = &PartBody> {
        conversation.messages.iter().flat_map(|source| &source.message.parts).map(|part| &*part.body)
    }

    fn many(profile: &Profile) -> Vec<Conversation> {
        (0..200).map(|index| Conversation::generate(3, index, profile)).collect()
    }

    #[test]
    fn a_conversation_is_made_again_from_its_seed_and_index() {
        for index in [0, 7, 100_000] {
            let [first, again] = [3, 3].map(|seed| Conversation::generate(seed, index, &Profile::FULL).messages);
            assert_eq!(first, again);
        }
        let contents = |seed, index| {
            let conversation = Conversation::generate(seed, index, &Profile::FULL);
            format!("{:?}", conversation.messages)
        };
        assert_ne!(contents(3, 1), contents(3, 2));
        assert_ne!(contents(3, 1), contents(4, 1));
        let conversation = Conversation::generate(3, 1, &Profile::FULL);
        let [mut one, mut other] = ["limit", "window"].map(|purpose| conversation.dice(purpose));
        assert_ne!(one.random::<u64>(), other.random::<u64>());
    }

    #[test]
    fn everything_that_may_come_up_does() {
        let conversations = many(&Profile::FULL);
        let all: Vec<&PartBody> = conversations.iter().flat_map(bodies).collect();
        let texts: Vec<&str> = conversations.iter().flat_map(Conversation::texts).collect();
        let results: Vec<&ToolResult> = all
            .iter()
            .filter_map(|body| if let PartBody::ToolResult(result) = body { Some(result) } else { None })
            .collect();
        let calls = all.iter().filter(|body| matches!(body, PartBody::ToolCall(_))).count();
        let usages: Vec<_> = conversations
            .iter()
            .flat_map(|conversation| &conversation.messages)
            .filter(|source| source.message.role == Role::Assistant)
            .map(|source| source.message.finish.usage)
            .collect();
        for (what, found) in [
            ("an empty conversation", conversations.iter().any(|conversation| conversation.messages.is_empty())),
            ("reasoning", all.iter().any(|body| matches!(body, PartBody::Reasoning(_)))),
            ("media", all.iter().any(|body| matches!(body, PartBody::Media(_)))),
            ("an empty text", texts.contains(&"")),
            ("a long text", texts.iter().any(|text| text.len() > 10_000)),
            ("astral characters", texts.iter().any(|text| text.contains('😀'))),
            ("Chinese", texts.iter().any(|text| text.contains('会'))),
            ("code", texts.iter().any(|text| text.contains("fn main"))),
            ("blanks", texts.iter().any(|text| !text.is_empty() && text.trim().is_empty())),
            ("a failed result", results.iter().any(|result| result.status == ResultStatus::Error)),
            ("an interrupted result", results.iter().any(|result| result.status == ResultStatus::Interrupted)),
            ("an open call", results.len() < calls),
            ("no usage", usages.contains(&None)),
            ("empty usage", usages.contains(&Some(Usage::default()))),
        ] {
            assert!(found, "{what} does not come up");
        }
        assert!(!texts.iter().any(|text| text.contains('\u{fffd}')), "U+FFFD means half a character");
    }

    #[test]
    fn results_follow_their_calls_as_the_profile_places_them() {
        for results in [Results::MessageEach, Results::MessageForAll, Results::WithCall] {
            let mut most = 0;
            for conversation in many(&Profile { results, ..Profile::FULL }) {
                let mut open = Vec::new();
                for source in &conversation.messages {
                    let message = &source.message;
                    let mut here = 0;
                    for part in &message.parts {
                        match &*part.body {
                            PartBody::ToolCall(call) => open.push(call.call_id.clone()),
                            PartBody::ToolResult(result) => {
                                here += 1;
                                assert!(open.contains(&result.call_id), "a result before its call");
                                assert_eq!(message.role == Role::Assistant, results == Results::WithCall);
                            }
                            _ => {}
                        }
                    }
                    assert!(message.role != Role::Tool || here > 0, "a tool message without results");
                    most = most.max(here);
                }
            }
            assert_eq!(most > 1, results != Results::MessageEach, "{results:?}");
        }
    }

    #[test]
    fn a_profile_can_leave_things_out() {
        let plain = Profile {
            turns: 1..=3,
            text_max: 10,
            system: false,
            reasoning: false,
            media: false,
            calls: false,
            interruptions: false,
            repeated_requests: false,
            ..Profile::FULL
        };
        for conversation in many(&plain) {
            let roles: Vec<Role> = conversation.messages.iter().map(|source| source.message.role).collect();
            let alternate = roles.chunks(2).all(|pair| matches!(pair, [Role::User] | [Role::User, Role::Assistant]));
            assert!(alternate && !roles.is_empty(), "{roles:?}");
            assert!(
                bodies(&conversation).all(|body| matches!(body, PartBody::Text(text) if text.chars().count() <= 10))
            );
        }
    }
}
