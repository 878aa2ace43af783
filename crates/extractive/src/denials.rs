//! Conclusions that were taken back: "the leak is in the cache", and later "it was not the cache, it was the pool".
//!
//! A denial takes back the nearest statement that ends with what it denies and has its subject, unless that is an "it".

use super::text::{pattern, sentences_of};
use regex::Regex;
use std::sync::LazyLock;

/// Maximum number of statements between a conclusion and its denial.
const NEAR: usize = 40;

/// What something is not, or is not beside what it is.
static DENIAL: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?x)(?P<condition>\b(?:if|unless|whether|wenn|falls|ob|si)\s)?\b(?:
        (?:it|that|this|es|das|(?:the|der|die|das)\s(?P<subject>[\w./-]+))(?:['’]s|\s(?:is|was|ist|war))
        (?:n['’]t|(?:\s[^,;:]{1,40},)?\s(?:not|nicht))
        |ce\sn['’](?:est|était)\spas|c['’](?:est|était)\s[^,;:]{1,40},\spas)
        (?:\s(?:in|at|on|the|der|die|das|den|dem|im|dans|le|la))*(?P<denied>\s[\w./-]+(?:\s[\w./-]+){0,2})",
    )
});

/// A clause that states what or where something is, and asks for nothing.
static STATE: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"\b(?:is|was|ist|war|est|était|(?:it|that|c)['’](?:s|est))\b"));

/// For each text, true if a later one denies what it concludes.
pub(super) fn taken_back(texts: &[&str]) -> Vec<bool> {
    let sentences = |text: &&str| -> Vec<String> {
        let said = sentences_of(text).into_iter().filter(|sentence| !sentence.ends_with(['?', '？']));
        said.map(|sentence| sentence.trim_end_matches(['.', '!', '。']).to_lowercase()).collect()
    };
    let all: Vec<Vec<String>> = texts.iter().map(sentences).collect();
    let mut taken = vec![false; texts.len()];
    for (at, sentences) in all.iter().enumerate() {
        for found in sentences.iter().flat_map(|sentence| DENIAL.captures_iter(sentence)) {
            let denied = &found["denied"];
            let prefixes = denied.match_indices(' ').map(|(at, _)| &denied[..at]).skip(1).chain([denied]);
            let ends = |clause: &str| prefixes.clone().any(|prefix| clause.ends_with(prefix));
            let concludes = |sentence: &String| {
                let is_of = sentence.contains(found.name("subject").map_or("", |subject| subject.as_str()));
                let states = |clause: &str| ends(clause) && STATE.is_match(clause);
                is_of && sentence.split([',', ';', ':']).any(states) && !DENIAL.is_match(sentence)
            };
            let near = (at.saturating_sub(NEAR)..at).rfind(|place| all[*place].iter().any(concludes));
            near.filter(|_| found.name("condition").is_none()).into_iter().for_each(|place| taken[place] = true);
        }
    }
    taken
}
