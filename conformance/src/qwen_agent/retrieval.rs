//! The limits of Qwen-Agent's retrieval: the part of a request that is searched for, the length of a passage, and the
//! number of passages shown.
//!
//! The order of the passages found is not compared: each side has its own terms and scores.

use crate::generate::{Conversation, text};
use crate::report::{Class, Reason};
use longhand::policy::bpe::Encoding;
use longhand::policy::retrieval;
use longhand::policy::{Policy, Retrieval};
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use serde_json::{Value, json};
use std::collections::HashSet;

pub(super) const QUESTION: Class = Class {
    name: "the ends of a long request are searched for",
    reason: Reason::Named("No model picks the question out of a long request"),
    explanation: "Qwen-Agent has a model pick the question out of a request of more than 1 000 characters; we search for the \
                  words of its first and last 500.",
    test: ("crates/core/src/policy/retrieval/tests.rs", "a_long_request_asks_with_both_of_its_ends"),
};

pub(super) const WHOLE: Class = Class {
    name: "a passage is shown whole",
    reason: Reason::Named("a passage that does not fit is left out"),
    explanation: "Qwen-Agent cuts the last passage to the tokens that are left; we leave it out.",
    test: (
        "crates/core/src/policy/retrieval/tests.rs",
        "of_equals_the_later_one_is_shown_and_what_is_too_large_is_passed_over",
    ),
};

/// Number of characters in a request above which Qwen-Agent asks a model.
const QUERY_CHARACTERS: usize = 1_000;
const PASSAGE_TOKENS: i64 = 500;
const BUDGET_TOKENS: i64 = 20_000;

/// Minimum number of tokens of a passage, so that there are at most thousands.
const TOKENS_MIN: i64 = 10;

/// The answer of the model that extracts a question.
const PICKED: &str = "picked";

/// The questions about retrieval for one conversation.
pub(super) struct Limits {
    rule: Retrieval,
    policy: Policy,
    request: String,
    passage: String,
    /// The number of passages relevant to a request, and the tokens of each.
    count: i64,
    tokens: i64,
}

impl Limits {
    pub(super) fn draw(policy: &Policy, conversation: &Conversation) -> Self {
        let mut dice = conversation.dice("retrieval");
        let characters = near(&mut dice, QUERY_CHARACTERS as i64, 2_500);
        let request = words_of(dice.random_range(0..10_000), characters as usize);
        let passage_tokens = near(&mut dice, PASSAGE_TOKENS, 1_200);
        // Never empty, and a single sentence: Qwen-Agent removes characters that end one.
        let words = format!("word {}", text(&mut dice, 6_000)).replace(['。', '.'], "");
        let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
        // Passages with exactly this sum of tokens, if there are any.
        let all_tokens = near(&mut dice, BUDGET_TOKENS, 40_000);
        let sizes: Vec<i64> = (TOKENS_MIN..=PASSAGE_TOKENS).filter(|tokens| all_tokens % tokens == 0).collect();
        let tokens = sizes.choose(&mut dice).copied().unwrap_or(PASSAGE_TOKENS);
        let rule = policy.retrieval.clone().expect("the preset retrieves");
        Self {
            rule,
            policy: policy.clone(),
            request,
            passage: Encoding::Qwen.tokenize(&words).prefix(passage_tokens.max(1)).to_owned(),
            count: all_tokens / tokens,
            tokens,
        }
    }

    pub(super) fn question(&self, function: &str) -> Value {
        match function {
            "query" => json!({ "text": self.request, "picked": PICKED }),
            "passages" => json!({ "text": self.passage }),
            _ => json!({ "count": self.count, "tokens": self.tokens }),
        }
    }

    /// The words to search for.
    pub(super) fn query(&self) -> Value {
        json!(retrieval::query(&self.rule, self.policy.counting.unit, &self.request))
    }

    /// True if the text is a single passage.
    pub(super) fn passages(&self) -> Value {
        json!(retrieval::passages(&self.passage, self.rule.passage_tokens, &self.policy.counting).len() == 1)
    }

    /// The number of passages shown whole, and the tokens of a truncated one.
    pub(super) fn shown(&self) -> Value {
        let query = ["word".to_owned()];
        let candidates = vec![query.to_vec(); self.count as usize];
        let size = |_: usize, room: i64| (self.tokens <= room).then_some(self.tokens);
        let whole = retrieval::best(&query, &candidates, size, self.rule.budget_tokens).len();
        json!({ "whole": whole, "cut": 0 })
    }

    /// The peer's answer in our form.
    pub(super) fn read(&self, function: &str, theirs: Value) -> Value {
        match function {
            "query" => json!(once(theirs["query"].as_str().unwrap_or_default())),
            "passages" => json!(theirs == 1),
            _ => theirs,
        }
    }

    pub(super) fn explain(&self, function: &str, ours: &Value, theirs: &Value) -> Option<&'static str> {
        match function {
            "query" => {
                // Both measure a request without the blanks around it.
                let characters: Vec<char> = self.request.trim().chars().collect();
                let (front, back) = (characters.get(..500)?, characters.get(characters.len() - 500..)?);
                let ends: String = front.iter().chain(&[' ']).chain(back).collect();
                let is_long = characters.len() > QUERY_CHARACTERS;
                (is_long && *theirs == json!([PICKED]) && *ours == json!(once(&ends))).then_some(QUESTION.name)
            }
            "shown" => {
                let (whole, left) = (BUDGET_TOKENS / self.tokens, BUDGET_TOKENS % self.tokens);
                let is_truncated = whole < self.count && left > 0;
                (is_truncated
                    && *ours == json!({ "whole": whole, "cut": 0 })
                    && *theirs == json!({ "whole": whole, "cut": left }))
                .then_some(WHOLE.name)
            }
            _ => None,
        }
    }
}

/// A number near a limit, or any up to a larger one.
fn near(dice: &mut StdRng, limit: i64, most: i64) -> i64 {
    if dice.random_bool(0.5) { limit + dice.random_range(-2..=2) } else { dice.random_range(0..=most) }
}

/// A text of this number of characters in distinct words, some of them with letters of two UTF-16 units. Different
/// starting numbers give different texts.
fn words_of(first: usize, characters: usize) -> String {
    let word = |number: usize| format!("{}{number} ", ["k", "é", "𝒙"][number % 3]).chars().collect::<Vec<_>>();
    (first..).flat_map(word).take(characters).collect()
}

/// The distinct words of a text.
fn once(text: &str) -> Vec<&str> {
    let mut seen = HashSet::new();
    text.split_whitespace().filter(|word| seen.insert(*word)).collect()
}
