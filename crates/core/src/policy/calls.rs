//! The assignment of results to calls, used by views, boundaries, prunes and summaries.
//!
//! Call ids need not be unique: two agents may use the same ones, and some providers restart their numbering with every
//! reply. So a result answers
//!
//! 1. the call in the message that it names, or none;
//! 2. else the nearest earlier call with its id by its own writer that has no result yet; of several in one message the
//!    first;
//! 3. else, if its writer made no call with its id, the nearest one of any writer: a tool runner answers for others.
//!
//! A call without a result runs until its writer replies after a later result of its own calls, or until any writer
//! replies after a later request. So an agent that is gone does not block the session for ever.

use crate::model::ids::{MessageId, PartId};
use crate::model::message::Role;
use crate::model::part::{Answers, Part, PartBody, ToolCall, ToolResult};
use crate::model::view::SourceMessage;
use foldhash::{HashMap, HashMapExt as _};

use super::turns::only_brings_results;

/// A call, with its result if it has one.
#[derive(Debug, Clone, Copy)]
pub struct CallWithResult<'a> {
    /// Index of the message of the call.
    pub index: usize,
    /// The message of the call.
    pub source: &'a SourceMessage,
    /// The part of the call.
    pub part: &'a Part,
    /// The call.
    pub call: &'a ToolCall,
    /// The result; none without one.
    pub answer: Option<CallResult<'a>>,
}

/// A result that answers a call.
#[derive(Debug, Clone, Copy)]
pub struct CallResult<'a> {
    /// Index of the message of the result.
    pub index: usize,
    /// The message of the result.
    pub source: &'a SourceMessage,
    /// The part of the result.
    pub part: &'a Part,
    /// The result.
    pub result: &'a ToolResult,
}

/// The calls of messages, in reading order, with their results.
#[derive(Debug, Default)]
pub struct Calls<'a> {
    calls: Vec<CallWithResult<'a>>,
    /// The calls by id. Most results answer a call of the newest message with calls, which is searched without this
    /// index, so it is extended on demand.
    waiting: WaitingCalls<'a>,
    /// The first call of each message that has calls, by the id of the message and the id of the message that it
    /// replaces. Only results that name a message need this map, so it is filled on demand.
    of_message: HashMap<MessageId, usize>,
    /// Number of calls that are in `of_message`.
    indexed: usize,
    /// Results that answer no call.
    orphans: Vec<Orphan<'a>>,
    /// The index of each writer's last reply.
    last_reply: ByWriter<'a>,
}

/// An index of calls by id and writer.
#[derive(Debug, Default)]
struct WaitingCalls<'a> {
    /// The numbers of ids and writers.
    ids: Numbers<'a>,
    writers: Numbers<'a>,
    /// Newest call that may wait, by id and writer.
    of_writer: HashMap<(usize, usize), WaitingCall>,
    /// Newest call that may wait, by id, of any writer.
    of_anybody: Vec<WaitingCall>,
    /// For each call in the index, the links to the previous calls with its id.
    links: Vec<Links>,
}

/// The newest of the calls with one id that may wait for their results; links lead to the earlier ones. Answered calls
/// stay in the chain until a search reaches them.
type WaitingCall = Option<usize>;

/// Maximum number of calls in the newest message with calls that are searched for each result.
const SEARCHED_MAX: usize = 16;

/// Numbers of texts, in the order of their first occurrence.
#[derive(Debug, Clone, Default)]
struct Numbers<'a> {
    numbers: HashMap<&'a str, usize>,
    /// The text of the newest request, which is often requested again.
    newest: Option<(&'a str, usize)>,
}

impl<'a> Numbers<'a> {
    fn number_of(&mut self, text: &'a str) -> usize {
        if let Some((_, number)) = self.newest.filter(|(newest, _)| are_equal(newest, text)) {
            return number;
        }
        let count = self.numbers.len();
        let number = *self.numbers.entry(text).or_insert(count);
        self.newest = Some((text, number));
        number
    }
}

/// True if two texts are equal. Most sessions have no names of writers, and a comparison of the memory of empty texts
/// is slow on some processors: there is no memory at their addresses.
fn are_equal(one: &str, other: &str) -> bool {
    one.len() == other.len() && (one.is_empty() || one == other)
}

/// Indexes of messages, by writer.
#[derive(Debug, Clone, Default)]
struct ByWriter<'a> {
    writers: Numbers<'a>,
    /// The index of each writer's message, by the writer's number.
    indexes: Vec<Option<usize>>,
}

impl<'a> ByWriter<'a> {
    fn index_of(&mut self, writer: &'a str) -> &mut Option<usize> {
        let number = self.writers.number_of(writer);
        if number == self.indexes.len() {
            self.indexes.push(None);
        }
        &mut self.indexes[number]
    }
}

/// The previous calls: with the same id and writer, and with the same id.
#[derive(Debug, Clone, Copy)]
struct Links {
    of_writer: WaitingCall,
    of_anybody: WaitingCall,
}

/// A result that answers no call.
#[derive(Debug, Clone, Copy)]
struct Orphan<'a> {
    /// Index of its message.
    index: usize,
    /// The writer of the result.
    writer: &'a str,
}

/// The writers of calls in earlier messages, by call id: all that is needed of earlier messages if no later result
/// answers their calls.
#[derive(Debug, Clone, Default)]
pub struct Earlier {
    /// For each call id, and for each call id and writer, the index of the first message with such a call.
    first: HashMap<u64, usize>,
    /// Only messages before this index count.
    end: usize,
}

impl Earlier {
    /// Adds a call of the message at an index.
    pub fn add(&mut self, index: usize, call_id: &str, writer: &str) {
        for key in [key(call_id, None), key(call_id, Some(writer))] {
            let first = self.first.entry(key).or_insert(index);
            *first = index.min(*first);
        }
    }

    /// Sets the index of the first message that does not count.
    pub fn end_at(&mut self, end: usize) {
        self.end = end;
    }

    fn has(&self, call_id: &str, writer: &str) -> bool {
        self.has_key(key(call_id, Some(writer)))
    }

    /// True if any writer made a call with this id.
    pub(super) fn has_id(&self, call_id: &str) -> bool {
        self.has_key(key(call_id, None))
    }

    fn has_key(&self, key: u64) -> bool {
        self.first.get(&key).is_some_and(|first| *first < self.end)
    }
}

/// A hash of a call id, and of a writer if there is one.
fn key(call_id: &str, writer: Option<&str>) -> u64 {
    let hash = blake3::Hasher::new()
        .update(&(call_id.len() as u64).to_le_bytes())
        .update(call_id.as_bytes())
        .update(&[u8::from(writer.is_some())])
        .update(writer.unwrap_or_default().as_bytes())
        .finalize();
    let mut first = [0; 8];
    first.copy_from_slice(&hash.as_bytes()[..8]);
    u64::from_le_bytes(first)
}

impl<'a> WaitingCalls<'a> {
    /// Adds the calls that are not in the index yet.
    fn extend(&mut self, calls: &[CallWithResult<'a>]) {
        for (number, called) in calls.iter().enumerate().skip(self.links.len()) {
            let (id, writer) = self.numbers(&called.call.call_id, called.source.message.writer());
            self.links.push(Links {
                of_writer: self.of_writer.insert((id, writer), Some(number)).flatten(),
                of_anybody: self.of_anybody[id].replace(number),
            });
        }
    }

    fn numbers(&mut self, id: &'a str, writer: &'a str) -> (usize, usize) {
        let id = self.ids.number_of(id);
        if id == self.of_anybody.len() {
            self.of_anybody.push(None);
        }
        (id, self.writers.number_of(writer))
    }
}

impl<'a> Calls<'a> {
    /// Reads messages in the order of their layout.
    pub fn from_messages(messages: impl IntoIterator<Item = &'a SourceMessage>) -> Self {
        Self::behind(None, messages)
    }

    /// Reads messages that follow earlier ones, if none of their results answers an earlier call.
    pub fn behind(earlier: Option<&Earlier>, messages: impl IntoIterator<Item = &'a SourceMessage>) -> Self {
        let mut calls = Self::default();
        for (index, source) in messages.into_iter().enumerate() {
            if source.message.role == Role::Assistant {
                *calls.last_reply.index_of(source.message.writer()) = Some(index);
            }
            for part in &source.message.parts {
                match &*part.body {
                    PartBody::ToolCall(call) => {
                        calls.calls.push(CallWithResult { index, source, part, call, answer: None })
                    }
                    PartBody::ToolResult(result) => match calls.answered_by(earlier, source, result) {
                        Some(number) => {
                            calls.calls[number].answer = Some(CallResult { index, source, part, result });
                        }
                        None => calls.orphans.push(Orphan { index, writer: source.message.writer() }),
                    },
                    PartBody::Text(_)
                    | PartBody::Reasoning(_)
                    | PartBody::Media(_)
                    | PartBody::Marker(_)
                    | PartBody::Step(_)
                    | PartBody::Opaque(_)
                    | PartBody::Record(_) => {}
                }
            }
        }
        calls
    }

    /// The number of the call that a result answers.
    fn answered_by(
        &mut self,
        earlier: Option<&Earlier>,
        source: &'a SourceMessage,
        result: &'a ToolResult,
    ) -> Option<usize> {
        let id = result.call_id.as_str();
        if result.answers == Answers::Nothing {
            return None;
        }
        if let Answers::In(name) = &result.answers {
            let first = self.first_of(name.parse().ok()?)?;
            let message = self.calls[first].index;
            let mut there = self.calls[first..].iter().take_while(|called| called.index == message);
            return there.position(|called| called.call.call_id == id && called.answer.is_none()).map(|at| first + at);
        }
        let writer = source.message.writer();
        if let Some(number) = self.newest_by(writer, id) {
            return Some(number);
        }
        self.waiting.extend(&self.calls);
        let numbers = self.waiting.numbers(id, writer);
        let (calls, WaitingCalls { of_writer, of_anybody, links, .. }) = (&self.calls, &mut self.waiting);
        match of_writer.get_mut(&numbers) {
            Some(own) => nearest(calls, own, |number| links[number].of_writer),
            None if earlier.is_some_and(|earlier| earlier.has(id, writer)) => None,
            None => nearest(calls, &mut of_anybody[numbers.0], |number| links[number].of_anybody),
        }
    }

    /// The number of the first waiting call with this id by this writer in the newest message with calls. None if there
    /// is no such call there, or if that message has too many calls to be searched for each result.
    fn newest_by(&self, writer: &str, id: &str) -> Option<usize> {
        let newest = self.calls.last().filter(|newest| are_equal(newest.source.message.writer(), writer))?;
        let first_searched = self.calls.len().saturating_sub(SEARCHED_MAX);
        let searched = &self.calls[first_searched..];
        let before = searched.iter().rposition(|called| called.index != newest.index);
        if before.is_none() && first_searched > 0 {
            return None;
        }
        let first = before.map_or(0, |before| before + 1);
        let is_waiting = |called: &CallWithResult<'_>| called.answer.is_none() && called.call.call_id == id;
        searched[first..].iter().position(is_waiting).map(|at| first_searched + first + at)
    }

    /// The number of the first call in the message with this id, or in its replacement.
    fn first_of(&mut self, message: MessageId) -> Option<usize> {
        for (number, called) in self.calls.iter().enumerate().skip(self.indexed) {
            let replaced = called.source.message.replaces.as_ref().map(|replaced| replaced.message);
            for id in [Some(called.source.message.id), replaced].into_iter().flatten() {
                self.of_message.entry(id).or_insert(number);
            }
        }
        self.indexed = self.calls.len();
        self.of_message.get(&message).copied()
    }

    /// The indices of the messages with results that answer no call, once for each result.
    pub fn orphan_results(&self) -> impl Iterator<Item = usize> {
        self.orphans.iter().map(|orphan| orphan.index)
    }

    /// All calls, in reading order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &CallWithResult<'a>> {
        self.calls.iter()
    }

    /// The answered calls, by the parts of their results.
    pub fn by_result(&self) -> HashMap<PartId, &CallWithResult<'a>> {
        let mut calls = HashMap::with_capacity(self.calls.len());
        calls.extend(self.iter().filter_map(|called| Some((called.answer?.part.id, called))));
        calls
    }

    /// The results, by the parts of their calls.
    pub fn by_call(&self) -> HashMap<PartId, CallResult<'a>> {
        let mut answers = HashMap::with_capacity(self.calls.len());
        answers.extend(self.iter().filter_map(|called| Some((called.part.id, called.answer?))));
        answers
    }

    /// True if a selection of messages contains a call without its result, or a result without its call.
    pub fn are_split(&self, is_chosen: impl Fn(&SourceMessage) -> bool) -> bool {
        let splits = |called: &CallWithResult<'_>| {
            called.answer.is_some_and(|answer| is_chosen(called.source) != is_chosen(answer.source))
        };
        self.iter().any(splits)
    }

    /// The calls that no boundary may pass. `messages` are those from which the calls were read.
    pub fn unfinished(&self, messages: &'a [SourceMessage]) -> UnfinishedCalls {
        let mut read_input = ReadInput::from_messages(messages, self);
        let running = self.iter().find(|called| called.answer.is_none() && !read_input.is_over(called));
        let running = running.map(|called| called.index);
        let unread =
            self.iter().find(|called| called.answer.is_some_and(|answer| read_input.is_unread(called, answer)));
        UnfinishedCalls { running, unread: unread.map(|called| called.index) }
    }
}

/// Unfinished calls, by the indexes of their messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnfinishedCalls {
    /// The first call that still runs.
    pub running: Option<usize>,
    /// The first call whose result its writer has not read, although it may still reply.
    pub unread: Option<usize>,
}

/// The nearest waiting call, the first one if a message has several. Answered calls are removed from the chain.
fn nearest(
    calls: &[CallWithResult<'_>],
    waiting: &mut WaitingCall,
    earlier: impl Fn(usize) -> WaitingCall,
) -> Option<usize> {
    while let Some(number) = *waiting
        && calls[number].answer.is_some()
    {
        *waiting = earlier(number);
    }
    let message = calls[(*waiting)?].index;
    let together = std::iter::successors(*waiting, |number| earlier(*number));
    let together = together.take_while(|number| calls[*number].index == message);
    together.filter(|number| calls[*number].answer.is_none()).last()
}

/// The newest input that was available at the models' last replies.
struct ReadInput<'a> {
    /// Index of the last user or system message before a reply.
    requests: Option<usize>,
    /// For each writer, the index of the last result of its own calls before its last reply.
    results: ByWriter<'a>,
    /// For each writer, the index of its last reply.
    last_reply: ByWriter<'a>,
}

impl<'a> ReadInput<'a> {
    fn from_messages(messages: &'a [SourceMessage], calls: &Calls<'a>) -> Self {
        let last_reply = calls.last_reply.clone();
        let replied = last_reply.indexes.iter().copied().flatten().max().unwrap_or(0);
        let is_request = |source: &SourceMessage| {
            matches!(source.message.role, Role::User | Role::System) && !only_brings_results(&source.message)
        };
        let requests = messages[..replied].iter().rposition(is_request);
        let mut read_input = Self { requests, results: ByWriter::default(), last_reply };
        for called in calls.iter() {
            if let Some(answer) = called.answer {
                read_input.note(called.source.message.writer(), answer.index);
            }
        }
        // A result without a call counts for its own writer.
        calls.orphans.iter().for_each(|orphan| read_input.note(orphan.writer, orphan.index));
        read_input
    }

    /// Notes a result for a writer, if it is before the writer's last reply.
    fn note(&mut self, writer: &'a str, index: usize) {
        if self.last_reply.index_of(writer).is_some_and(|replied| index < replied) {
            let last = self.results.index_of(writer);
            *last = (*last).max(Some(index));
        }
    }

    /// True if a call no longer runs.
    fn is_over(&mut self, called: &CallWithResult<'a>) -> bool {
        self.requests.is_some_and(|read_input| called.index <= read_input)
            || self
                .results
                .index_of(called.source.message.writer())
                .is_some_and(|read_input| called.index <= read_input)
    }

    /// True if the writer of a call has not replied since its result, nor any writer since a later request.
    fn is_unread(&mut self, called: &CallWithResult<'a>, answer: CallResult<'_>) -> bool {
        self.requests.is_none_or(|request| request < answer.index)
            && self.last_reply.index_of(called.source.message.writer()).is_some_and(|replied| replied < answer.index)
    }
}

#[cfg(test)]
mod tests;
