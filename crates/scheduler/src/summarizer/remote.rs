//! Summaries by a model: the requests, how many there are, and the retries with less input.

use super::observer::{NoObserver, Observer};
use super::provider::Provider;
use super::provider::fault::{Class, Fault};
use super::summary::{Error, Forecast, Gate, Summarizer};
use super::usage_counter::UsageCounter;
use crate::model::usage::Usage;
use crate::model::view::SourceMessage;
use crate::policy::prompt::{self, Material, NO_HISTORY, Prompt, Request, Scope, estimated_tokens};
use crate::policy::summary::{SummaryInput, SummaryOutput};
use futures::future::{BoxFuture, FutureExt as _};
use futures::stream::{StreamExt as _, TryStreamExt as _};
use std::sync::atomic::{AtomicI64, Ordering};

/// Maximum number of tries of a whole summary, each with less input or a shorter target.
const EFFORTS: usize = 3;

/// Maximum number of simultaneous requests of one summary, within the provider's own limit.
const PIECES_AT_ONCE: usize = 4;

/// Minimum of history in a request, in tokens; no useful window is smaller.
const HISTORY_TOKENS_MIN: i64 = 256;

/// A summarizer that asks a model.
pub(super) struct Remote {
    provider: Provider,
    /// The model's context size, input and output together, in tokens.
    window: i64,
    /// The model's maximum output, in tokens.
    max_output: i64,
}

struct TryParameters<'a> {
    input: &'a SummaryInput,
    observer: &'a dyn Observer,
    /// Number of detail levels of the transcript to skip.
    skip: usize,
    /// Approximate maximum length of the summary, in words.
    words: i64,
    /// Maximum size of a whole request, in tokens.
    request_tokens_max: i64,
    /// Estimate of the longest request so far, in tokens.
    longest_request: AtomicI64,
}

impl<'a> TryParameters<'a> {
    /// Builds a request about some material.
    fn request<'b>(&'b self, scope: Scope, material: Material<'b>, previous: Option<&'b str>) -> Request<'b> {
        let instructions = &self.input.instructions;
        Request { scope, material, previous, draft: None, instructions, words: self.words }
    }

    /// Tokens left for the history in a request, beside its fixed texts.
    fn history_tokens(&self, scope: Scope, previous: Option<&str>) -> i64 {
        let empty = prompt::prompt(&self.input.rules, &self.request(scope, Material::Piece("", 1, 1), previous));
        // A check sends the summary together with its source.
        let draft =
            if self.input.rules.verify { (self.request_tokens_max / 4).min(self.input.budget_tokens) } else { 0 };
        self.request_tokens_max.saturating_sub(prompt_tokens(&empty)).saturating_sub(draft).max(HISTORY_TOKENS_MIN)
    }

    /// The history in pieces that fit a request each, the previous summary if it goes beside them, and the maximum size
    /// of a piece.
    fn pieces<'b>(
        &self,
        scope: Scope,
        messages: &[&SourceMessage],
        previous: Option<&'b str>,
    ) -> (Vec<String>, Option<&'b str>, i64) {
        // A previous summary that leaves too little space becomes part of the transcript instead.
        let (lead, previous) = match previous {
            Some(previous) if estimated_tokens(previous) > self.request_tokens_max / 2 => (Some(previous), None),
            other => (None, other),
        };
        let piece_tokens = self.history_tokens(scope, previous);
        (prompt::pieces(&self.input.rules.transcript, self.skip, messages, lead, piece_tokens), previous, piece_tokens)
    }

    /// The requests that a summary of these messages begins with.
    fn first_requests(&self, scope: Scope, messages: &[&SourceMessage], previous: Option<&str>) -> Vec<Prompt> {
        let (pieces, previous, _) = self.pieces(scope, messages, previous);
        let ask = |request: Request<'_>| prompt::prompt(&self.input.rules, &request);
        if let [whole] = pieces.as_slice() {
            return vec![ask(self.request(scope, Material::Whole(whole), previous))];
        }
        let numbered = (1..).zip(&pieces);
        numbered.map(|(at, piece)| ask(self.request(scope, Material::Piece(piece, at, pieces.len()), None))).collect()
    }
}

/// Estimated tokens of a request, with an allowance for its envelope.
fn prompt_tokens(prompt: &Prompt) -> i64 {
    estimated_tokens(&prompt.system).saturating_add(estimated_tokens(&prompt.user)).saturating_add(64)
}

/// Groups notes so that each group fits one request. A group holds at least two, so that each round leaves fewer.
fn group_notes(notes: Vec<String>, piece_tokens: i64) -> Vec<Vec<String>> {
    // Estimate of the tags around a note, in tokens.
    const TAGS: i64 = 16;
    let half = (piece_tokens / 2).saturating_sub(TAGS).max(1);
    let mut groups: Vec<Vec<String>> = Vec::new();
    let mut used = 0;
    for note in notes {
        let note = prompt::note_without_middle(&note, half);
        let note_tokens = estimated_tokens(&note).saturating_add(TAGS);
        match groups.last_mut() {
            Some(group) if group.len() < 2 || used + note_tokens <= piece_tokens => {
                group.push(note);
                used += note_tokens;
            }
            Some(_) | None => {
                groups.push(vec![note]);
                used = note_tokens;
            }
        }
    }
    groups
}

impl Remote {
    /// Creates a summarizer for a provider.
    pub(super) fn new(provider: Provider, window: i64, max_output: i64) -> Self {
        Self { provider, window, max_output }
    }

    async fn write(&self, input: &SummaryInput, observer: &dyn Observer) -> Result<SummaryOutput, Error> {
        let counter = UsageCounter::new(observer);
        let budget = input.budget_tokens.min(self.max_output).max(0);
        let mut request_tokens_max = self.window.saturating_sub(self.max_output);
        let mut words = prompt::words_for_budget(budget);
        let mut fault = Fault::new(Class::Permanent, "nothing was tried");
        for skip in 0..EFFORTS {
            counter.on_start(self.name());
            let parameters = TryParameters {
                input,
                observer: &counter,
                skip,
                words,
                request_tokens_max,
                longest_request: AtomicI64::new(0),
            };
            fault = match self.try_once(&parameters).await {
                Ok(text) => {
                    let summarizer = format!("{}/{}", self.name(), counter.model());
                    return Ok(SummaryOutput { usage: counter.usage(), ..SummaryOutput::new(text, summarizer) });
                }
                Err(fault) => fault,
            };
            match fault.class {
                // Half of the longest request, if that was shorter than the limit.
                Class::Overflow => {
                    request_tokens_max = request_tokens_max.min(parameters.longest_request.load(Ordering::Relaxed)) / 2
                }
                // The requested summary may have been longer than the model can write.
                Class::Refused => words /= 2,
                Class::Transient | Class::Permanent | Class::Cancelled => break,
            }
            tracing::debug!(summarizer = %self.name(), %fault, request_tokens_max, "trying with less");
        }
        Err(match fault.class {
            Class::Transient => Error::Transient { message: fault.message, retry_after_ms: fault.retry_after_ms },
            Class::Overflow | Class::Refused | Class::Permanent | Class::Cancelled => {
                Error::Permanent { message: fault.message }
            }
        })
    }

    async fn try_once(&self, parameters: &TryParameters<'_>) -> Result<String, Fault> {
        let input = parameters.input;
        let previous = input.previous.as_deref();
        let split_turn = input.rules.split_turn.as_ref().filter(|_| !input.split_turn.is_empty());
        let Some(split_turn) = split_turn else {
            let messages: Vec<&SourceMessage> = input.messages.iter().chain(&input.split_turn).collect();
            let text = self.summarize_messages(parameters, Scope::History, &messages, previous).await?;
            return text.ok_or_else(|| Fault::new(Class::Permanent, "there is nothing to summarize"));
        };
        let messages: Vec<&SourceMessage> = input.messages.iter().collect();
        let past = if messages.is_empty() {
            None
        } else {
            self.summarize_messages(parameters, Scope::History, &messages, previous).await?
        };
        let past = past.or(input.previous.clone());
        let front: Vec<&SourceMessage> = input.split_turn.iter().collect();
        // One after the other: servers with a single slot refuse a second request.
        match (past, self.summarize_messages(parameters, Scope::TurnFront, &front, None).await?) {
            (past, Some(front)) => Ok(prompt::join(&split_turn.heading, past.as_deref().unwrap_or(NO_HISTORY), &front)),
            (Some(past), None) => Ok(past),
            (None, None) => Err(Fault::new(Class::Permanent, "there is nothing to summarize")),
        }
    }

    /// Summarizes messages: in one request if they fit, else in pieces whose summaries are merged. None if there is
    /// nothing to summarize.
    async fn summarize_messages(
        &self,
        parameters: &TryParameters<'_>,
        scope: Scope,
        messages: &[&SourceMessage],
        previous: Option<&str>,
    ) -> Result<Option<String>, Fault> {
        let (pieces, previous, piece_tokens) = parameters.pieces(scope, messages, previous);
        let ask = |material, previous| parameters.request(scope, material, previous);
        match pieces.as_slice() {
            [] => return Ok(None),
            [whole] => {
                return self.write_and_check(parameters, ask(Material::Whole(whole), previous)).await.map(Some);
            }
            _ => {}
        }
        let mut notes = Vec::new();
        for (at, piece) in pieces.iter().enumerate() {
            notes.push(self.ask(parameters, ask(Material::Piece(piece, at + 1, pieces.len()), None), false));
        }
        let notes = futures::stream::iter(notes).buffered(PIECES_AT_ONCE).try_collect().await?;
        self.merge(parameters, scope, notes, previous, piece_tokens).await.map(Some)
    }

    /// Merges summaries of pieces into one, in several rounds if they do not fit one request.
    async fn merge(
        &self,
        parameters: &TryParameters<'_>,
        scope: Scope,
        mut notes: Vec<String>,
        previous: Option<&str>,
        piece_tokens: i64,
    ) -> Result<String, Fault> {
        loop {
            let mut groups = group_notes(notes, piece_tokens);
            if groups.len() <= 1 {
                let last = groups.pop().unwrap_or_default();
                return self
                    .write_and_check(parameters, parameters.request(scope, Material::Notes(&last), previous))
                    .await;
            }
            notes = Vec::new();
            for mut group in groups {
                if group.len() == 1 {
                    notes.append(&mut group);
                    continue;
                }
                let request = parameters.request(scope, Material::Notes(&group), None);
                notes.push(self.ask(parameters, request, false).await?);
            }
        }
    }

    /// Requests the summary itself and, if the policy asks for it, a second request that checks it against its source. If
    /// the second request is too large or fails, the first text stays.
    async fn write_and_check(&self, parameters: &TryParameters<'_>, request: Request<'_>) -> Result<String, Fault> {
        let text = self.ask(parameters, request, true).await?;
        if !parameters.input.rules.verify {
            return Ok(text);
        }
        let check = Request { draft: Some(&text), ..request };
        if prompt_tokens(&prompt::prompt(&parameters.input.rules, &check)) > parameters.request_tokens_max {
            return Ok(text);
        }
        parameters.observer.on_start(self.name());
        let checked = self.ask(parameters, check, true).await;
        Ok(checked.unwrap_or_else(|fault| {
            tracing::warn!(summarizer = %self.name(), %fault, "a summary could not be checked");
            parameters.observer.on_start(self.name());
            parameters.observer.on_text(&text);
            text
        }))
    }

    async fn ask(&self, parameters: &TryParameters<'_>, request: Request<'_>, streams: bool) -> Result<String, Fault> {
        let rules = &parameters.input.rules;
        let prompt = prompt::prompt(rules, &request);
        parameters.longest_request.fetch_max(prompt_tokens(&prompt), Ordering::Relaxed);
        let answer = self.provider.ask(&prompt, &request.expected(rules), parameters.observer, streams).await?;
        Ok(answer.text)
    }
}

impl Summarizer for Remote {
    fn name(&self) -> &str {
        self.provider.name()
    }

    fn summarize<'a>(
        &'a self,
        input: &'a SummaryInput,
        observer: &'a dyn Observer,
    ) -> BoxFuture<'a, Result<SummaryOutput, Error>> {
        self.write(input, observer).boxed()
    }

    fn gates(&self) -> Vec<Gate> {
        let Self { provider, .. } = self;
        let (summarizer, model) = (provider.name().to_owned(), provider.model().to_owned());
        vec![Gate { summarizer, model, state: provider.gate_state() }]
    }

    fn forecast(&self, input: &SummaryInput) -> Forecast {
        let budget = input.budget_tokens.min(self.max_output).max(0);
        let parameters = TryParameters {
            input,
            observer: &NoObserver,
            skip: 0,
            words: prompt::words_for_budget(budget),
            request_tokens_max: self.window.saturating_sub(self.max_output),
            longest_request: AtomicI64::new(0),
        };
        let is_split = input.rules.split_turn.is_some() && !input.split_turn.is_empty();
        let front: Vec<&SourceMessage> = input.split_turn.iter().collect();
        let mut messages: Vec<&SourceMessage> = input.messages.iter().collect();
        if !is_split {
            messages.extend(&front);
        }
        let mut requests = Vec::new();
        if !messages.is_empty() {
            requests = parameters.first_requests(Scope::History, &messages, input.previous.as_deref());
        }
        let mut chunked = requests.len() > 1;
        if is_split {
            let of_front = parameters.first_requests(Scope::TurnFront, &front, None);
            chunked |= of_front.len() > 1;
            requests.extend(of_front);
        }
        let request_tokens: i64 = requests.iter().map(prompt_tokens).sum();
        // Each answer is assumed to be as long as the summary may be; answers about pieces are sent once more to be
        // merged.
        let answers = budget.saturating_mul(i64::try_from(requests.len()).unwrap_or(i64::MAX));
        let (again, last) = if chunked { (answers, budget) } else { (0, 0) };
        let mut usage =
            Usage { input: again.saturating_add(request_tokens), output: answers + last, ..Usage::default() };
        // A check sends the summary together with its source, and has it written again.
        if input.rules.verify {
            usage.input = usage.input.saturating_add(request_tokens).saturating_add(answers);
            usage.output += answers;
        }
        Forecast {
            summarizer: self.name().to_owned(),
            requests,
            request_tokens,
            chunked,
            cost_micros: self.provider.with_cost(usage).cost_micros(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(notes: &[i64], piece_tokens: i64, expected: &[usize]) {
        let notes = notes.iter().map(|tokens| "abc".repeat(usize::try_from(*tokens).expect("small"))).collect();
        let groups = group_notes(notes, piece_tokens);
        assert_eq!(groups.iter().map(Vec::len).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn notes_are_grouped_by_what_fits_but_never_alone() {
        check(&[], 1_000, &[]);
        check(&[100; 5], 1_000, &[5]);
        check(&[300; 5], 1_000, &[3, 2]);
        check(&[400; 5], 1_000, &[2, 2, 1]);
        check(&[5_000; 3], 1_000, &[2, 1]);
        check(&[10; 4], 0, &[2, 2]);
    }
}
