//! Statements: what people typed and what agents said, without wrappings and pasted text, in pieces that stand alone.

use super::commands;
use super::digest::{Body, Digest};
use super::shape::{is_machine_made, is_prose};
use super::text::{self, is_wide};
use super::tools::Kind;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

/// Length of a statement, in characters. A longer text has several.
pub(super) const STATEMENT_CHARS: usize = 420;

/// Number of lines in a row that look like output from which they are pasted.
const PASTED_LINES_MIN: usize = 4;

/// Number of requests with a line at their head or foot from which that is part of a wrapping.
const WRAPPED_MIN: usize = 3;

/// Maximum length of the head of a line that names its speaker or its date, in characters.
const HEAD_CHARS_MAX: usize = 48;

/// A text of a person or an agent.
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
}

impl Turn {
    /// Its statements, in order.
    pub(super) fn pieces(&self) -> Vec<String> {
        pieces(&self.text)
    }
}

/// The outputs of tools in prose, each with its position and what printed it. Of several that are the same in their first
/// line, the last one counts.
pub(super) fn printed_texts(digest: &Digest) -> Vec<(i64, &str)> {
    let mut texts: Vec<(i64, &str)> = Vec::new();
    for entry in &digest.entries {
        if let Body::Call(call) = &entry.body
            && !matches!(call.usage.kind, Kind::Edit | Kind::Write | Kind::Ask)
            && call.usage.command.as_deref().is_none_or(commands::prints_texts)
            && is_prose(&call.output)
        {
            let head = |output: &str| output.lines().next().map(str::to_owned);
            texts.retain(|(_, other)| head(other) != head(&call.output));
            texts.push((entry.at, &call.output));
        }
    }
    texts
}

/// The texts of a digest, in order.
pub(super) fn turns(digest: &Digest) -> Vec<Turn> {
    let printed = printed_lines(digest);
    let mut turns: Vec<Turn> = Vec::new();
    // True if the last entry was a text of an agent.
    let mut replied = false;
    for entry in &digest.entries {
        let (typed, words) = match &entry.body {
            Body::Typed(words) => (true, text::spoken(words)),
            Body::Said(words) => (false, words.clone()),
            Body::Call(_) | Body::Notice(_) | Body::Summary(_) => {
                replied = false;
                continue;
            }
        };
        if !words.chars().any(char::is_alphanumeric) {
            continue;
        }
        if let Some(last) = turns.last_mut().filter(|last| typed && replied && !last.typed) {
            last.ends_turn = true;
        }
        turns.push(Turn { at: entry.at, typed, text: words, ends_turn: false, answers: None });
        replied = !typed;
    }
    if let Some(last) = turns.last_mut().filter(|last| replied && !last.typed) {
        last.ends_turn = true;
    }
    unwrap(&mut turns);
    for turn in turns.iter_mut().filter(|turn| turn.typed) {
        turn.text = without_pasted(&turn.text, &printed);
    }
    for position in 1..turns.len() {
        if let ([.., before], [turn, ..]) = turns.split_at_mut(position)
            && turn.typed
            && before.ends_turn
            && is_short(&turn.text)
        {
            turn.answers = proposal(&before.text, is_nudge(&turn.text) && !turn.text.starts_with('/'));
        }
    }
    turns.retain(|turn| !turn.typed || turn.answers.is_some() || says_something(&turn.text));
    turns
}

/// True for a person's text that is more than one word to go on, a command of the agent, or the path of a picture. A word
/// with digits or joints is a value.
fn says_something(words: &str) -> bool {
    let words = words.trim();
    let is_path = words.starts_with(['/', '\'', '"', '~']) && !words.contains('\n') && words.matches('/').count() > 2;
    let is_picture =
        is_path && [".png", ".jpg", ".jpeg", ".gif", ".webp"].iter().any(|end| words.to_lowercase().contains(end));
    let is_word = has_at_most(words, 1)
        && (words.starts_with('/')
            || !words.contains(|letter: char| letter.is_ascii_digit() || "._-#".contains(letter)));
    words.chars().any(char::is_alphanumeric) && !is_picture && (!is_word || words.ends_with(['?', '？']))
}

/// True for a text of few words, which may answer what was said before it.
fn is_short(words: &str) -> bool {
    has_at_most(words, 5)
}

/// True for a text of so few words that it says nothing by itself.
pub(super) fn is_nudge(words: &str) -> bool {
    has_at_most(words, 2)
}

fn has_at_most(words: &str, count: usize) -> bool {
    let wide = words.chars().filter(|letter| is_wide(*letter)).count();
    let others = words.split_whitespace().filter(|word| !word.contains(is_wide)).count();
    2 * wide + 3 * others <= 3 * count
}

/// The question at the end of a text, or else, if it is asked for, its last statement.
fn proposal(words: &str, or_statement: bool) -> Option<String> {
    const PROPOSAL_CHARS_MAX: usize = 320;
    let lines = text::prose(words);
    let tail = &lines[lines.len().saturating_sub(8)..];
    let asked = tail.iter().rfind(|line| line.text.ends_with(['?', '？'])).or(tail.last().filter(|_| or_statement))?;
    let plain = text::one_line(&text::plain(asked.text));
    let sentences = text::sentences_of(&plain);
    let mut from = sentences.len().checked_sub(1)?;
    // A short question refers to the sentence before it.
    while from > 0 && sentences[from..].iter().map(|sentence| sentence.chars().count()).sum::<usize>() < 60 {
        from -= 1;
    }
    Some(text::clip(&sentences[from..].join(" "), PROPOSAL_CHARS_MAX))
}

/// Removes what recurs at the head or the foot of requests and is no request. The first request keeps it, because it may
/// be a rule.
fn unwrap(turns: &mut [Turn]) {
    let lines_of = |words: &str| -> Vec<String> {
        words.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect()
    };
    let mut counts: HashMap<String, usize> = HashMap::new();
    let mut wrapped = 0;
    for turn in turns.iter().filter(|turn| turn.typed) {
        let lines: HashSet<String> = lines_of(&turn.text).into_iter().collect();
        wrapped += usize::from(lines.len() > 1);
        if lines.len() > 1 {
            lines.into_iter().for_each(|line| *counts.entry(line).or_default() += 1);
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

/// Lines that tools printed; a person who quotes one did not type it.
fn printed_lines(digest: &Digest) -> HashSet<&str> {
    const LINE_BYTES_MIN: usize = 24;
    let outputs = digest.entries.iter().filter_map(|entry| match &entry.body {
        Body::Call(call) => Some(call.output.as_str()),
        _ => None,
    });
    outputs.flat_map(str::lines).map(str::trim).filter(|line| line.len() >= LINE_BYTES_MIN).collect()
}

/// A person's text without code blocks and runs of lines that a program wrote.
fn without_pasted(words: &str, printed: &HashSet<&str>) -> String {
    let mut kept: Vec<Cow<'_, str>> = Vec::new();
    let mut run: Vec<&str> = Vec::new();
    let mut fenced = false;
    let end = |run: &mut Vec<&str>, kept: &mut Vec<Cow<'_, str>>| {
        if run.len() >= PASTED_LINES_MIN {
            kept.push(Cow::Borrowed("…"));
        } else {
            kept.extend(run.iter().map(|line| Cow::Owned((*line).to_owned())));
        }
        run.clear();
    };
    for line in words.lines() {
        let trimmed = line.trim();
        if trimmed.starts_with("```") || trimmed.starts_with("~~~") {
            end(&mut run, &mut kept);
            fenced = !fenced;
            if fenced {
                kept.push(Cow::Borrowed("…"));
            }
            continue;
        }
        if fenced || trimmed.is_empty() {
            continue;
        }
        if is_machine_made(line) || printed.contains(trimmed) {
            run.push(line);
            continue;
        }
        end(&mut run, &mut kept);
        kept.push(Cow::Borrowed(line));
    }
    end(&mut run, &mut kept);
    kept.dedup_by(|next, before| next == "…" && before == "…");
    let text = kept.join("\n");
    // A fence that is never closed, or nothing but code: then that is the request.
    if text.chars().any(char::is_alphanumeric) { text } else { words.trim().to_owned() }
}

/// The statements of an output in prose: its lines, short ones together behind the line that leads to them.
pub(super) fn prose_pieces(output: &str) -> Vec<String> {
    const RUN_CHARS: usize = 200;
    let mut pieces: Vec<String> = Vec::new();
    let mut run = String::new();
    for line in text::prose(output) {
        let words = text::one_line(&text::plain(line.text));
        let starts = line.indent == 0 && (line.lead == text::Lead::Heading || words.ends_with([':', '：']));
        if !run.is_empty() && (starts || run.chars().count() + words.chars().count() > RUN_CHARS) {
            pieces.push(std::mem::take(&mut run));
        }
        if !run.is_empty() {
            run.push_str(if run.ends_with([':', '：']) { " " } else { "; " });
        }
        run.push_str(&words);
    }
    pieces.push(run);
    pieces.retain(|piece| piece.split_whitespace().count() > 2);
    pieces.into_iter().map(|piece| text::clip(&piece, STATEMENT_CHARS)).collect()
}

/// A short text whole, a long one in runs of sentences. The head of a line that names a speaker or a date stays with each
/// of its runs.
pub(super) fn pieces(words: &str) -> Vec<String> {
    let line_count = words.lines().filter(|line| !line.trim().is_empty()).count();
    if line_count <= 1 && words.chars().count() <= STATEMENT_CHARS {
        return vec![text::one_line(words)];
    }
    let mut pieces: Vec<String> = Vec::new();
    for line in text::prose(words) {
        let line = text::one_line(&text::plain(line.text));
        let head = head_of(&line).to_owned();
        let mut run = String::new();
        for sentence in text::sentences_of(&line) {
            if !run.is_empty() && run.chars().count() + sentence.chars().count() > STATEMENT_CHARS * 3 / 5 {
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
    if pieces.len() > 1 {
        pieces.retain(|piece| piece.chars().any(char::is_alphabetic) && !has_at_most(piece, 1));
    }
    let clipped = pieces.into_iter().map(|piece| text::clip(&piece, STATEMENT_CHARS));
    clipped.collect()
}

/// The head of a line: a name or a date before a colon, or something in brackets.
fn head_of(line: &str) -> &str {
    let Some(end) = line.find(": ").map(|at| at + 2).or_else(|| line.find("] ").map(|at| at + 2)) else { return "" };
    let head = &line[..end];
    let is_head = head.chars().count() <= HEAD_CHARS_MAX && !head.contains(['.', '?', '!', '。']);
    if is_head { head } else { "" }
}
