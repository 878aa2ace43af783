//! Statements: what people typed and what agents said, without wrappings and pasted text, in pieces that stand alone.

use super::digest::{Body, Digest, Entry};
use super::text::{self, is_machine_made, is_prose, is_wide};
use super::{commands, tools::Kind};
use longhand_model::mark::WordsStance;
use regex::Regex;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::LazyLock;

/// Lengths, in characters: the maximum of a statement; up to which a text is one statement, and up to which sentences
/// of a longer one are; up to which a sentence goes with the one before it, whose exception it may be; and the maximum
/// of the head of a line that names its speaker or its date. Statements of one text share a line, so that small ones
/// cost little and leave out what lies between them.
const STATEMENT_CHARS: usize = 420;
const WHOLE_CHARS: usize = 90;
const RUN_CHARS: usize = 60;
const SHORT_CHARS: usize = 20;
const HEAD_CHARS_MAX: usize = 48;

/// Numbers of lines in a row that look like output from which they are pasted, and of requests with a line at their
/// head or foot from which that is part of a wrapping; and the maximum number of words of a text that answers.
const PASTED_LINES_MIN: usize = 4;
const WRAPPED_MIN: usize = 3;
const ANSWER_WORDS_MAX: usize = 5;

/// A line that only separates texts.
static SEPARATOR: LazyLock<Regex> = LazyLock::new(|| text::pattern(r"(?m)^[ \t]*={3,}[ \t]*$"));

/// The path of a picture, which agents put where a person attached it.
static PICTURE: LazyLock<Regex> = LazyLock::new(|| {
    text::pattern(r#"(?i)'(?:/|~/)[^'\n]+\.(?:png|jpe?g|gif|webp)'|(?:^|\s)/\S+/\S+\.(?:png|jpe?g|gif|webp)\b"#)
});

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Turn {
    pub(super) at: i64,
    pub(super) typed: bool,
    /// The text; of a person, without wrappings and pasted text.
    pub(super) text: String,
    /// True for an agent's text that ends its turn.
    pub(super) ends_turn: bool,
    /// The end of the agent's text that a person's short text answers.
    pub(super) answers: Option<String>,
    pub(super) kept: bool,
    /// True if a client wants its words in no summary. It was said nevertheless, so that none before it is the newest.
    pub(super) struck: bool,
}

impl Turn {
    pub(super) fn new(at: i64, typed: bool, text: String) -> Self {
        Self { at, typed, text, ends_turn: false, answers: None, kept: false, struck: false }
    }
}

/// The outputs of tools in prose and the summaries of others, each with its position; a file can be read again. Of
/// several that are the same in their first line, the last one counts.
pub(super) fn printed_texts(digest: &Digest) -> Vec<(i64, &str)> {
    let mut texts: Vec<(i64, &str)> = Vec::new();
    for entry in &digest.entries {
        let text = match &entry.body {
            Body::Summary(text) => text,
            Body::Call(call)
                if call.usage.touches.is_empty()
                    && call.usage.kind != Kind::Ask
                    && call.usage.command.as_deref().is_none_or(commands::prints_texts)
                    && is_prose(&call.output) =>
            {
                &call.output
            }
            _ => continue,
        };
        let parts = SEPARATOR.split(text).filter(|part| !part.trim().is_empty());
        texts.extend(parts.map(|part| (entry.at, part)));
    }
    let mut seen = HashSet::new();
    texts.reverse();
    texts.retain(|(_, text)| seen.insert(text.trim_start().lines().next().unwrap_or_default().trim()));
    texts.reverse();
    texts
}

/// The texts of a digest, in order, with what clients struck and keep of those of people.
pub(super) fn turns(digest: &Digest) -> Vec<Turn> {
    let mut turns = spoken(digest);
    let mut kept: BTreeMap<i64, Vec<&String>> = BTreeMap::new();
    for Entry { at, revision, body } in &digest.entries {
        let typed = turns.iter_mut().filter(|turn| turn.at == *at && turn.typed);
        match (digest.words.get(revision), body) {
            (Some(WordsStance::Struck), _) => typed.for_each(|turn| turn.struck = true),
            (Some(WordsStance::Kept), Body::Typed(words)) => kept.entry(*at).or_default().push(words),
            _ => {}
        }
    }
    for (at, texts) in kept {
        let is_of = |turn: &Turn| turn.at == at && turn.typed;
        // What says nothing by itself was left out.
        if turns.iter().filter(|turn| is_of(turn)).count() < texts.len() {
            turns.retain(|turn| !is_of(turn));
            let place = turns.partition_point(|turn| turn.at < at);
            turns.splice(place..place, texts.into_iter().map(|words| Turn::new(at, true, words.clone())));
        }
        turns.iter_mut().filter(|turn| is_of(turn)).for_each(|turn| turn.kept = true);
    }
    turns
}

fn spoken(digest: &Digest) -> Vec<Turn> {
    let mut turns: Vec<Turn> = Vec::new();
    for (number, entry) in digest.entries.iter().enumerate() {
        let (typed, words) = match &entry.body {
            Body::Typed(words) => (true, text::spoken(words)),
            Body::Said(words) => (false, words.clone()),
            Body::Call(_) | Body::Summary(_) => continue,
        };
        if words.chars().any(char::is_alphanumeric) {
            let next = digest.entries.get(number + 1).map(|entry| &entry.body);
            let ends_turn = !typed && matches!(next, None | Some(Body::Typed(_)));
            turns.push(Turn { ends_turn, ..Turn::new(entry.at, typed, words) });
        }
    }
    unwrap(&mut turns);
    for turn in turns.iter_mut().filter(|turn| turn.typed) {
        turn.text = without_pasted(&turn.text);
    }
    for position in 1..turns.len() {
        let (before, turn) = (&turns[position - 1], &turns[position]);
        if turn.typed && before.ends_turn && has_at_most(&turn.text, ANSWER_WORDS_MAX) && !turn.text.starts_with('/') {
            turns[position].answers = proposal(&before.text, is_nudge(&turn.text));
        }
    }
    turns.retain(|turn| !turn.typed || turn.answers.is_some() || says_something(&turn.text));
    turns
}

/// True for a person's text that is more than one word to go on, or a command of the agent; a value is a word.
fn says_something(words: &str) -> bool {
    let words = words.trim();
    let is_value = words.contains(|letter: char| letter.is_ascii_digit() || "._-#".contains(letter));
    let is_word = has_at_most(words, 1) && (words.starts_with('/') || !is_value && !words.ends_with(['?', '？']));
    words.chars().any(char::is_alphanumeric) && !is_word
}

/// True for a text of so few words that it says nothing by itself.
pub(super) fn is_nudge(words: &str) -> bool {
    has_at_most(words, 2)
}

fn has_at_most(words: &str, count: usize) -> bool {
    let size = |word: &str| match word.chars().filter(|letter| is_wide(*letter)).count() {
        0 => 3,
        wide => 2 * wide,
    };
    // A long text is not read to its end.
    let left = words.split_whitespace().try_fold(3 * count, |left, word| left.checked_sub(size(word)));
    left.is_some()
}

/// The question at the end of a text, or else, if it is asked for, its last statement.
fn proposal(words: &str, or_statement: bool) -> Option<String> {
    const PROPOSAL_CHARS_MAX: usize = 320;
    let lines = text::prose(words);
    let tail = &lines[lines.len().saturating_sub(8)..];
    let asked = tail.iter().rfind(|line| line.1.ends_with(['?', '？'])).or(tail.last().filter(|_| or_statement))?;
    let plain = text::one_line(&text::plain(asked.1));
    let sentences = text::sentences_of(&plain);
    let mut from = sentences.len().checked_sub(1)?;
    // A short question refers to the sentence before it.
    while from > 0 && sentences[from..].iter().map(|sentence| sentence.chars().count()).sum::<usize>() < 60 {
        from -= 1;
    }
    Some(text::clip(&sentences[from..].join(" "), PROPOSAL_CHARS_MAX))
}

/// Removes what recurs at the head or the foot of requests, but from the first one: it may be a rule.
fn unwrap(turns: &mut [Turn]) {
    let mut counts: HashMap<String, usize> = HashMap::new();
    let mut wrapped = 0;
    for turn in turns.iter().filter(|turn| turn.typed) {
        let lines: HashSet<&str> = turn.text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        if lines.len() > 1 {
            wrapped += 1;
            lines.into_iter().for_each(|line| *counts.entry(line.to_owned()).or_default() += 1);
        }
    }
    let recurs = |line: &str| counts.get(line).is_some_and(|count| *count >= WRAPPED_MIN && 2 * count >= wrapped);
    if !counts.keys().any(|line| recurs(line)) {
        return;
    }
    for turn in turns.iter_mut().filter(|turn| turn.typed).skip(1) {
        let lines: Vec<&str> = turn.text.lines().collect();
        let said: Vec<usize> = (0..lines.len()).filter(|at| !lines[*at].trim().is_empty()).collect();
        let is_wrapping = |at: &&usize| recurs(lines[**at].trim());
        let behind = said.iter().rev().take_while(is_wrapping).last().copied().unwrap_or(lines.len());
        let starts = said.first().is_some_and(|at| is_wrapping(&at));
        let head = said.iter().rfind(|at| **at < behind && is_wrapping(at));
        let from = head.filter(|_| starts).map_or(0, |at| at + 1);
        let left = lines.get(from..behind).unwrap_or_default().join("\n");
        if left.chars().any(char::is_alphanumeric) {
            turn.text = left.trim().to_owned();
        }
    }
}

/// A person's text without code blocks and runs of lines that a program wrote.
fn without_pasted(words: &str) -> String {
    let words = PICTURE.replace_all(words, "…");
    let lines: Vec<&str> = words.lines().filter(|line| !line.trim().is_empty()).collect();
    let mut counts: HashMap<&str, usize> = HashMap::new();
    lines.iter().for_each(|line| *counts.entry(line).or_default() += 1);
    let pasted: Vec<bool> = lines.iter().map(|line| is_machine_made(line) || counts[line] > 1).collect();
    // Beside a run of such lines, single ones are pasted too.
    let has_run = pasted.chunk_by(|one, next| one == next).any(|run| run[0] && run.len() >= PASTED_LINES_MIN);
    let mut fenced = false;
    let mut kept: Vec<&str> = Vec::new();
    for (line, is_pasted) in lines.into_iter().zip(pasted) {
        let is_fence = line.trim().starts_with("```") || line.trim().starts_with("~~~");
        let is_code = is_fence || fenced || has_run && is_pasted;
        fenced ^= is_fence;
        kept.push(if is_code { "…" } else { line });
    }
    kept.dedup_by(|next, before| *next == "…" && *before == "…");
    // What is left out stands in the line behind it.
    let text = kept.join("\n").replace("…\n", "… ");
    // A fence that is never closed, or nothing but code: then that is the request.
    if text.chars().any(char::is_alphanumeric) { text } else { words.trim().to_owned() }
}

/// A short text whole, a long one in runs of sentences, with their numbers: neighbours follow each other. The head of a
/// line that names a speaker or a date stays with each of its runs.
pub(super) fn pieces(words: &str) -> Vec<(usize, String)> {
    let line_count = words.lines().filter(|line| !line.trim().is_empty()).count();
    if line_count <= 1 && words.chars().count() <= WHOLE_CHARS {
        return vec![(0, text::one_line(words))];
    }
    let mut pieces: Vec<String> = Vec::new();
    for (_, line) in text::prose(words) {
        let line = text::one_line(&text::plain(line));
        let head = head_of(&line).to_owned();
        let mut run = String::new();
        for sentence in text::sentences_of(&line) {
            let length = sentence.chars().count();
            if !run.is_empty() && length > SHORT_CHARS && run.chars().count() + length > RUN_CHARS {
                pieces.push(std::mem::take(&mut run));
                run.push_str(&head);
            }
            if !run.is_empty() && !run.ends_with(' ') {
                run.push(' ');
            }
            run.push_str(sentence);
        }
        pieces.push(run);
    }
    // A line of one word or a number says nothing without the others.
    let is_one = pieces.len() == 1;
    let says = |piece: &str| is_one || piece.chars().any(char::is_alphabetic) && says_something(piece);
    let pieces = pieces.into_iter().enumerate().filter(|(_, piece)| says(piece));
    pieces.map(|(number, piece)| (number, text::clip(&piece, STATEMENT_CHARS))).collect()
}

/// The head of a line: a name or a date before a colon, or something in brackets.
pub(super) fn head_of(line: &str) -> &str {
    let Some(end) = line.find(": ").map(|at| at + 2).or_else(|| line.find("] ").map(|at| at + 2)) else { return "" };
    let head = &line[..end];
    let is_head = head.chars().count() <= HEAD_CHARS_MAX && !head.contains(['.', '?', '!', '。']);
    if is_head { head } else { "" }
}
