//! Safe boundaries of summaries, determined by testing each position: the explanation of boundaries that differ from an
//! original's.
//!
//! It shares no code with `policy::select`, because it would otherwise explain that module's faults. Conversations here
//! have one writer, sealed messages and unique call ids, so that the definitions of the design can be tested directly.

use longhand::model::message::{FinishReason, Role};
use longhand::model::part::PartBody;
use longhand::model::view::SourceMessage;

/// The safe boundary nearest to a proposed one: the last one up to it, else the first one after it, else 0 for none.
pub(crate) fn nearest(messages: &[SourceMessage], proposed: usize) -> usize {
    if proposed == 0 {
        return 0;
    }
    let harmless = |cut: &usize| !harms(messages, *cut);
    let earlier = (1..=proposed.min(messages.len())).rev().find(harmless);
    earlier.or_else(|| (proposed + 1..=messages.len()).find(harmless)).unwrap_or(0)
}

/// True if a summary of the first `cut` messages would do harm.
pub(crate) fn harms(messages: &[SourceMessage], cut: usize) -> bool {
    let speakers: Vec<usize> = (0..messages.len()).filter(|&at| role(messages, at) == Role::Assistant).collect();
    let last_word = speakers.last().copied();
    let last_reply = speakers.iter().rev().find(|&&at| !has_failed(&messages[at]));
    // The summary would cover a request or results that no reply follows.
    if last_reply.is_none_or(|reply| cut > reply + 1) {
        return true;
    }
    calls(messages).any(|(at, id)| {
        let answer = (at..messages.len()).find(|&behind| results(&messages[behind]).any(|result| result == id));
        match answer {
            // The result would lose its call, or no reply has followed it yet.
            Some(answer) => at < cut && (answer >= cut || last_word.is_none_or(|word| word < answer)),
            None => at < cut && runs(messages, at, id),
        }
    })
}

/// True if the call with this id in a message still runs: it has no result, and the model has not continued after any
/// later message.
pub(crate) fn runs(messages: &[SourceMessage], at: usize, id: &str) -> bool {
    let last_word = (at..messages.len()).rev().find(|&word| role(messages, word) == Role::Assistant);
    let is_heard = |event: usize| is_event(messages, event) && last_word.is_some_and(|word| event < word);
    let has_result = messages[at..].iter().flat_map(results).any(|result| result == id);
    !has_result && !(at..messages.len()).any(is_heard)
}

fn role(messages: &[SourceMessage], at: usize) -> Role {
    messages[at].message.role
}

fn has_failed(source: &SourceMessage) -> bool {
    source.message.finish.reason == Some(FinishReason::Error)
}

/// True for a message after which a model continues: a request, an instruction, or results.
fn is_event(messages: &[SourceMessage], at: usize) -> bool {
    matches!(role(messages, at), Role::User | Role::System) || results(&messages[at]).next().is_some()
}

fn calls(messages: &[SourceMessage]) -> impl Iterator<Item = (usize, &str)> {
    messages.iter().enumerate().flat_map(|(at, source)| {
        source.message.parts.iter().filter_map(move |part| match &*part.body {
            PartBody::ToolCall(call) => Some((at, call.call_id.as_str())),
            _ => None,
        })
    })
}

fn results(source: &SourceMessage) -> impl Iterator<Item = &str> {
    source.message.parts.iter().filter_map(|part| match &*part.body {
        PartBody::ToolResult(result) => Some(result.call_id.as_str()),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::{Conversation, Profile};
    use longhand::model::part::{ToolCall, ToolResult};

    /// Messages from the first letters of their roles, `e` for a failed reply; a call or a result follows a colon.
    fn messages(text: &str) -> Vec<SourceMessage> {
        let profile = Profile { turns: 1..=1, ..Profile::FULL };
        let like = Conversation::generate(1, 0, &profile).messages.remove(0);
        let message = |word: &str| {
            let mut source = like.clone();
            let (role, call_id) = word.split_once(':').map_or((word, None), |(role, id)| (role, Some(id.to_owned())));
            source.message.role = match role {
                "u" => Role::User,
                "t" => Role::Tool,
                _ => Role::Assistant,
            };
            let reason = if role == "e" { FinishReason::Error } else { FinishReason::Stop };
            source.message.finish.reason = Some(reason);
            source.message.parts.truncate(1);
            if let Some(call_id) = call_id {
                source.message.parts[0].body = match source.message.role {
                    Role::Tool => PartBody::ToolResult(ToolResult { call_id, ..result() }),
                    _ => PartBody::ToolCall(ToolCall { call_id, ..ToolCall::default() }),
                }
                .into();
            }
            source
        };
        text.split_whitespace().map(message).collect()
    }

    fn result() -> ToolResult {
        let mut all = (0..).map(|index| Conversation::generate(1, index, &Profile::FULL)).flat_map(|it| it.messages);
        let found = all.find_map(|source| {
            source.message.parts.iter().find_map(|part| match &*part.body {
                PartBody::ToolResult(result) => Some(result.clone()),
                _ => None,
            })
        });
        found.expect("some conversation has a result")
    }

    #[test]
    fn harm_follows_its_definition() {
        for (text, harmful) in [
            ("u a:1 t:1 a u a", &[2][..]),
            // Requests without a reply, or with a failed one only.
            ("u a:1 t:1 a u a u", &[2, 7]),
            ("u a u e", &[3, 4]),
            ("u", &[1]),
            // A call that still runs.
            ("u a u a:1", &[4]),
            ("u a u a:1 u", &[4, 5]),
            ("u a u a:1 u a", &[]),
            // A result that no reply has followed.
            ("u a u a:1 t:1", &[4, 5]),
        ] {
            let messages = messages(text);
            let found: Vec<usize> = (1..=messages.len()).filter(|&cut| harms(&messages, cut)).collect();
            assert_eq!(found, harmful, "{text}");
        }
    }

    #[test]
    fn the_nearest_boundary_keeps_more_where_it_can() {
        let of = |text| {
            let messages = messages(text);
            (0..=messages.len()).map(|proposed| nearest(&messages, proposed)).collect::<Vec<_>>()
        };
        assert_eq!(of("u a:1 t:1 a"), [0, 1, 1, 3, 4]);
        assert_eq!(of("a:1 t:1 a"), [0, 2, 2, 3]);
        assert_eq!(of("u u"), [0, 0, 0]);
    }
}
