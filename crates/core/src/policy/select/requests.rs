//! A tail: the newest requests of the user verbatim, without the replies and tool results.

use crate::model::ids::PartId;
use crate::model::part::PartBody;
use crate::model::truncation::{Removals, Truncation};
use crate::model::view::SourceMessage;
use crate::policy::tokens::{estimate_part_of, estimate_source, length_per_token};
use crate::policy::truncate;
use crate::policy::turns::starts_turn;
use crate::policy::{Policy, Requests, Truncate};

impl Requests {
    /// Indexes of the messages before `head_end` that stay, ascending, and the truncation of the crossing one. Requests
    /// from `head_end` on stay anyway, and count.
    pub(super) fn retained(
        &self,
        policy: &Policy,
        messages: &[SourceMessage],
        head_end: usize,
    ) -> (Vec<usize>, Removals) {
        let mut room = self.keep_tokens.unwrap_or(i64::MAX);
        let mut retained = Vec::new();
        let mut removals = Removals::default();
        let requests = messages.iter().enumerate().rev().filter(|(_, source)| self.is_wanted(source));
        for (index, source) in requests.take(self.messages.map_or(usize::MAX, |messages| messages as usize)) {
            if room <= 0 {
                break;
            }
            let tokens = estimate_source(policy, source);
            if index < head_end {
                retained.push(index);
                if tokens > room {
                    removals.parts = self.shortened(policy, source, room);
                }
            }
            room = room.saturating_sub(tokens);
        }
        retained.reverse();
        (retained, removals)
    }

    fn is_wanted(&self, source: &SourceMessage) -> bool {
        let is_text = |body: &PartBody| matches!(body, PartBody::Text(_));
        starts_turn(&source.message)
            && source.message.sealed_revision.is_some()
            && (!self.text_only || source.message.parts.iter().all(|part| is_text(&part.body)))
    }

    /// The truncations of a request that exceeds the room: parts stay as long as they fit, the first text that does not
    /// loses its middle, and the texts behind it are removed. Media that do not fit are, and leave the room to texts.
    fn shortened(&self, policy: &Policy, source: &SourceMessage, mut room: i64) -> Vec<(PartId, Truncation)> {
        let mut truncations = Vec::new();
        for part in &source.message.parts {
            let tokens = estimate_part_of(policy, source, part, None);
            if tokens <= room {
                room -= tokens;
                continue;
            }
            let mut truncation = Truncation::default();
            if let PartBody::Text(text) = &*part.body {
                if room > 0 {
                    truncation = self.truncation(policy, text, room);
                }
                room = 0;
            }
            truncations.push((part.id, truncation));
        }
        truncations
    }

    /// The truncation of a text to its beginning and its end, within about this number of tokens.
    fn truncation(&self, policy: &Policy, text: &str, tokens: i64) -> Truncation {
        let units = tokens.saturating_mul(length_per_token(&policy.counting));
        let rule = Truncate {
            head_ratio: 0.5,
            ..Truncate::head(u32::try_from(units.max(1)).unwrap_or(u32::MAX), &self.marker)
        };
        let truncated = truncate::truncated(&rule, policy.counting.unit, text);
        truncated
            .map_or_else(|| Truncation { head: text.len(), ..Truncation::default() }, |truncated| truncated.truncation)
    }

    pub(super) fn smaller(&self) -> Option<Self> {
        let tokens = self.keep_tokens.filter(|tokens| *tokens >= 2)?;
        Some(Self { keep_tokens: Some(tokens / 2), ..self.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{dsl, samples};

    fn requests(messages: Option<u32>, keep_tokens: Option<i64>, text_only: bool) -> Requests {
        Requests { messages, keep_tokens, text_only, marker: "…".to_owned() }
    }

    fn check(rule: &Requests, text: &str, retained: &[usize], shown: &[&str]) {
        let messages = dsl::parse(text);
        let policy = samples::policy("codex@2026-08");
        let (found, removals) = rule.retained(&policy, &messages, messages.len());
        assert_eq!(found, retained, "{rule:?} of {text}");
        let parts: Vec<_> = messages.iter().flat_map(|source| &source.message.parts).collect();
        let shown_text = |(id, truncation): &(PartId, Truncation)| {
            let part = parts.iter().find(|part| part.id == *id).expect("a part of the conversation");
            match &*part.body {
                PartBody::Text(text) => truncation.apply(text),
                other => truncation.apply(other.kind()),
            }
        };
        assert_eq!(removals.parts.iter().map(shown_text).collect::<Vec<_>>(), shown, "{rule:?} of {text}");
    }

    #[test]
    fn the_newest_requests_fit_and_the_last_of_them_is_truncated() {
        let text = "u1 \"01234567890123456789\"\na1 \"x\"\nu2 \"0123456789\"\nu3 \"0123\"";
        for (tokens, retained, shown) in [
            (0, &[][..], &[][..]),
            (1, &[3], &[]),
            (3, &[2, 3], &["0123…6789"]),
            (4, &[2, 3], &[]),
            (6, &[0, 2, 3], &["0123…6789"]),
            (9, &[0, 2, 3], &[]),
        ] {
            check(&requests(None, Some(tokens), false), text, retained, shown);
        }
        check(&requests(Some(1), None, false), text, &[3], &[]);
        check(&requests(Some(2), Some(3), false), text, &[2, 3], &["0123…6789"]);
    }

    #[test]
    fn what_follows_a_truncated_request_is_removed() {
        let text = "u1 \"0123\"\n  text \"01234567890123456789\"\n  text \"0123\"\n  media image/png";
        check(&requests(None, Some(3), false), text, &[0], &["0123…6789", "", ""]);
        check(&requests(None, Some(1), false), text, &[0], &["", "", ""]);
        check(&requests(None, Some(10_000), false), text, &[0], &[]);
    }

    #[test]
    fn an_image_that_does_not_fit_leaves_the_room_to_the_text_behind_it() {
        check(&requests(None, Some(3), false), "u1\n  media image/png\n  text \"0123\"", &[0], &[""]);
        let long = "u1\n  media image/png\n  text \"01234567890123456789\"\n  text \"0123\"";
        check(&requests(None, Some(2), false), long, &[0], &["", "0123…6789", ""]);
    }

    #[test]
    fn only_what_a_user_said_is_a_request() {
        let text = "s1 \"rules\"\nu2 \"look\"\n  media image/png\nu3 \"x\"\na3\n  call bash#c\nu4\n  \
                    result c out=\"x\" done\nu5 marker \"so far\"\nu6 open\n  text \"typing\"";
        check(&requests(None, None, false), text, &[1, 2], &[]);
        check(&requests(None, None, true), text, &[2], &[]);
    }
}
