//! Claims of a summary that the record of what happened contradicts: a check that is said to pass although its last run
//! failed, a number of passed tests that no last run printed, a commit that nobody named, changes that are said to be
//! committed although they came later, a file that is said to be changed although nothing touched it. A false report is
//! worse than a missed one: a condition, a negation or a time is no claim, nor is what results cannot tell.

use super::checks::{Check, Outcome};
use super::text::{self, Lead, pattern};
use super::{commands, digest::Digest, files::File, record::Record};
use longhand_core::policy::{files as lists, summary::SummaryInput};
use longhand_model::compaction::{Contradiction, ContradictionKind};
use longhand_model::{part::PartBody, view::SourceMessage};
use regex::Regex;
use std::cell::OnceCell;
use std::sync::LazyLock;

/// Characters of a reported claim, and of the fact in the history.
pub const CONTRADICTION_CHARS_MAX: usize = 200;

/// Contradicted claims of one summary that are reported, since an event carries them.
pub const CONTRADICTIONS_MAX: usize = 24;

/// Maximum number of bytes read of a summary, and of characters in a line that is the heading of those below it; and
/// the length of the searched prefix of an id: the shortest that git prints.
const READ_BYTES_MAX: usize = 262_144;
const TITLE_CHARS_MAX: usize = 60;
const ID_PREFIX: usize = 7;

/// Headings over what is asked for or to come, and claims nothing.
static OPEN: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?i)next|pending|to-?do|remaining|constraint|preference|instruction|open decision|goal|request|intent|objective|user message|下一步|待办|约束|偏好|要求|待决|目标|任务",
    )
});
static PASSES: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?i)\bpass(?:es|ed|ing)?\b|\bgreen\b|\bsucceed(?:s|ed)?\b|\bclean(?:ly)?\b|通过|成功"));
/// Words that make a sentence something other than a plain statement of the present state.
static LIMITS: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?i)\b(?:not|never|no longer|\w+n['’]t|cannot|fail\w*|broke\w*|except|but|however|although|until|unless|if|once|when|while|should|must|would|will|could|may|might|need\w*|want\w*|ensure\w*|make sure|before|previously|earlier|initially|was|were|had|to-?do|next|pending|remain\w*|plan\w*|try|trying|verify|confirm|requires?|only|partly|some|most|almost|flak\w*|user|so that|yet|again)\b|\?|→|不|没|未|失败|但|除|只|仅|应|需|将|会|如果|若|待|之前|曾|确保|让|计划|跳过|？",
    )
});
static NOTHING_WRONG: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?i)\b(?:0|no|zero|without(?: any)?) (?:errors?|failures?|failed|failing|warnings?|issues?)\b|(?:无|没有)(?:失败|错误)|\b0 failed",
    )
});
static COUNTED: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?i)\b(\d[\d,]*)(?:\s*/\s*\d+)? (?:\w+ ){0,2}?(?:tests?|specs?|examples?|cases)\b|\b(\d[\d,]*) (?:passed|passing)\b|(\d+) ?(?:个|项)?测试",
    )
});
static NUMBER: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?i)\d[\d,]*"));
static COMMITTED: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?i)\bcommitted\b|\bworking tree (?:is )?clean\b|已提交"));
static EVERYTHING: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?i)\b(?:all|every(?:thing)?|the|these|both) (?:\w+ ){0,3}?(?:changes?|edits?|work|files?|fix(?:es)?|is|was|has|have)\b|\beverything\b|working tree|所有|全部|改动",
    )
});
static ID: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?i)(?:^|[^-/:#._\w])([0-9a-f]{7,40})(?:[^-/:@_\w]|$)"));
static COMMIT: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?i)\bcommit(?:s|ted)?\b|\bpushed\b|\bHEAD\b|提交"));
static CHANGED: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?i)(?:\b(?:changed|edited|updated|modified|rewrote|refactored|extended|created|added|wrote|patched|fixed)|修改了?|更新了?|创建了?|新增了?|编辑了?)\s*(?:(?:an?|the|new|file|to|in)\s+)*(`?)([\w@~./-]*\w\.[A-Za-z]\w{0,5})(`?)(?:[\s,.;:)，。]|$)",
    )
});

/// The evidence for and against the claims of a summary.
#[derive(Debug, Clone, Default)]
pub struct Evidence<'a> {
    /// The messages that the summary covers, oldest first, and later ones, which its writer may have read too.
    pub messages: Vec<&'a SourceMessage>,
    /// Other texts that the writer was given: the previous summary, instructions.
    pub texts: Vec<&'a str>,
    /// True if the writer may know files and commits from elsewhere, such as an agent that summarizes its own context.
    pub knows_more: bool,
}

impl<'a> Evidence<'a> {
    /// The evidence for a summary that was written from an input, and perhaps from what came right behind it.
    pub(super) fn from_input(input: &'a SummaryInput, behind: &'a [SourceMessage]) -> Self {
        let prompt = &input.rules.prompt;
        let texts = prompt.rules.iter().chain(&prompt.task).chain(&input.previous).chain([&input.instructions]);
        Self {
            messages: input.messages.iter().chain(&input.split_turn).chain(behind).collect(),
            texts: texts.chain(&input.previous_digest).map(String::as_str).collect(),
            knows_more: false,
        }
    }
}

/// The claims of a summary that the record of the evidence contradicts, each once, at most `CONTRADICTIONS_MAX`.
pub fn contradictions(evidence: &Evidence<'_>, summary: &str) -> Vec<Contradiction> {
    let (record, _) = Record::from_digest(&Digest::from_messages(evidence.messages.iter().copied()));
    contradicted(evidence, &record, 0, summary)
}

/// The same with the record of the evidence, before which `earlier` messages are not at hand.
pub(super) fn contradicted(
    evidence: &Evidence<'_>,
    record: &Record,
    earlier: i64,
    summary: &str,
) -> Vec<Contradiction> {
    let judge = Judge { evidence: Some(evidence), knows_more: evidence.knows_more, ..Judge::from_record(record) };
    let bounded = |words: &str| text::clip(&text::one_line(&text::clean(words)), CONTRADICTION_CHARS_MAX);
    let found = claims(summary).into_iter().filter_map(|claim| {
        let (kind, history, at) = judge.judge(&claim)?;
        let source = at.and_then(|at| evidence.messages.get(usize::try_from(at - earlier).ok()?));
        let message = source.map(|source| source.message.id);
        Some(Contradiction { kind, claim: bounded(&claim), history: bounded(&history), message })
    });
    found.take(CONTRADICTIONS_MAX).collect()
}

/// The sentences of a summary that claim a present state, one by one.
fn claims(summary: &str) -> Vec<String> {
    let cleaned = text::clean(commands::head(summary, READ_BYTES_MAX));
    let body = lists::strip_tags(&cleaned);
    let mut claims = Vec::new();
    let mut is_open = false;
    for (lead, line) in text::prose(&body) {
        let plain = text::plain(line);
        let is_title = lead == Lead::Plain && plain.trim().ends_with([':', '：']);
        if lead == Lead::Heading || is_title && plain.chars().count() <= TITLE_CHARS_MAX {
            is_open = OPEN.is_match(&plain);
            continue;
        }
        if is_open || lead == Lead::Unchecked || line.starts_with('<') {
            continue;
        }
        claims.extend(text::sentences_of(&plain).into_iter().map(text::one_line));
    }
    claims
}

/// The fact that contradicts a claim, with the position of its evidence.
type FoundContradiction = (ContradictionKind, String, Option<i64>);

/// The record, prepared for questions about it.
pub(super) struct Judge<'a> {
    record: &'a Record,
    /// What the writer may have read, if it is asked for.
    evidence: Option<&'a Evidence<'a>>,
    /// All of that in lower case, which few claims need.
    texts: OnceCell<String>,
    uncommitted: Vec<&'a File>,
    knows_more: bool,
}

impl<'a> Judge<'a> {
    /// Without evidence, only the record judges.
    pub(super) fn from_record(record: &'a Record) -> Self {
        let committed_at = record.commits.last().map(|commit| commit.at);
        let changed = record.files.changed.iter().filter(|file| !file.is_gone && file.changed_at > committed_at);
        let mut uncommitted: Vec<&File> = changed.collect();
        uncommitted.sort_by_key(|file| file.changed_at);
        Self { record, evidence: None, texts: OnceCell::new(), uncommitted, knows_more: true }
    }

    fn texts(&self) -> Option<&str> {
        self.evidence.map(|evidence| self.texts.get_or_init(|| texts_of(evidence)).as_str())
    }

    pub(super) fn judge(&self, words: &str) -> Option<FoundContradiction> {
        self.commit(words).or_else(|| {
            let found = self.check(words).or_else(|| self.count(words)).or_else(|| self.committed(words));
            let found = found.or_else(|| self.file(words))?;
            // Few sentences come so far, and these patterns take the longest.
            let plain = NOTHING_WRONG.replace_all(words, "");
            let code_free = plain.split('`').step_by(2).collect::<Vec<_>>().join(" ");
            (!LIMITS.is_match(&code_free)).then_some(found)
        })
    }

    fn commit(&self, words: &str) -> Option<FoundContradiction> {
        self.evidence.filter(|_| COMMIT.is_match(words))?;
        let ids = ID.captures_iter(words).map(|found| found[1].to_ascii_lowercase());
        let is_mixed = |id: &String| {
            id.bytes().any(|byte| byte.is_ascii_digit()) && id.bytes().any(|byte| byte.is_ascii_lowercase())
        };
        let is_unknown = |id: &String| self.texts().is_some_and(|texts| !texts.contains(&id[..ID_PREFIX]));
        let unknown = ids.filter(is_mixed).find(is_unknown)?;
        Some((ContradictionKind::Commit, format!("No message of the history names `{unknown}`"), None))
    }

    fn check(&self, words: &str) -> Option<FoundContradiction> {
        if !PASSES.is_match(words) {
            return None;
        }
        let lower = words.to_lowercase();
        let failing = |check: &&Check| check.verifies && check.outcome == Outcome::Failed;
        let failed: Vec<&Check> = self.record.checks.all.iter().filter(failing).collect();
        let named = failed.iter().copied().filter(|check| names(&lower, &check.command)).max_by_key(|check| check.at);
        // "All tests pass" is about every test.
        let check = named.or_else(|| {
            const ALL: &str = "all tests|tests pass|suite passes|suite is green|tests are green|全部测试|所有测试";
            let is_all = ALL.split('|').any(|words| lower.contains(words)) && !lower.contains('`');
            let newest = self.record.checks.all.iter().filter(|check| check.verifies && is_test(&check.command));
            newest.max_by_key(|check| check.at).filter(|check| is_all && check.outcome == Outcome::Failed)
        })?;
        // The same command passed in another folder or form.
        let passed =
            |other: &&Check| other.outcome == Outcome::Passed && other.at > check.at && names(&lower, &other.command);
        if self.record.checks.all.iter().any(|other| passed(&other)) {
            return None;
        }
        Some((ContradictionKind::Check, check.stated(), Some(check.at)))
    }

    fn count(&self, words: &str) -> Option<FoundContradiction> {
        if !PASSES.is_match(words) {
            return None;
        }
        let found = COUNTED.captures(words)?;
        let number = (1..=3).find_map(|group| found.get(group))?.as_str().replace(',', "");
        let tests = self.record.checks.all.iter().filter(|check| check.verifies && NUMBER.is_match(&check.output_line));
        let tests: Vec<&Check> = tests.filter(|check| is_test(&check.command)).collect();
        let newest = tests.iter().max_by_key(|check| check.at)?;
        let printed = |check: &&Check| {
            NUMBER.find_iter(&check.output_line).any(|other| other.as_str().replace(',', "") == number)
        };
        let passed = |check: &&Check| check.outcome == Outcome::Passed;
        // Runs of several packages print several numbers, whose sum may be meant.
        let is_one = tests.iter().filter(|check| passed(check)).count() == 1;
        if tests.iter().any(printed) || !is_one || !passed(newest) {
            return None;
        }
        Some((ContradictionKind::Check, newest.stated(), Some(newest.at)))
    }

    fn committed(&self, words: &str) -> Option<FoundContradiction> {
        let newest = self.uncommitted.last()?;
        if !COMMITTED.is_match(words) {
            return None;
        }
        let named = self.uncommitted.iter().find(|file| words.contains(text::base_name(&file.path)));
        let file = named.or(EVERYTHING.is_match(words).then_some(newest))?;
        let shown = text::code(text::base_name(&file.path));
        let history = match self.record.commits.last() {
            Some(commit) => format!("{shown} was edited after the last commit {}", text::code(&commit.id)),
            None => format!("{shown} was edited, and no commit was made"),
        };
        Some((ContradictionKind::Commit, history, file.changed_at))
    }

    fn file(&self, words: &str) -> Option<FoundContradiction> {
        // A writer with its own context may speak of work before the session.
        if self.record.files.changed.is_empty() || self.knows_more && self.evidence.is_none() {
            return None;
        }
        let found = CHANGED.captures(words)?;
        let base = text::base_name(&found[2]);
        let is_changed = self.record.files.changed.iter().any(|file| text::base_name(&file.path) == base);
        // A command may have written it.
        let is_run = self.record.runs.all.iter().any(|run| run.command.contains(base));
        let is_committed = self.record.commits.iter().any(|commit| commit.subject.contains(base));
        let is_known = || self.texts().is_some_and(|texts| texts.contains(&base.to_ascii_lowercase()));
        if is_changed || is_run || is_committed || self.knows_more && !is_known() {
            return None;
        }
        Some((ContradictionKind::File, format!("No tool changed {}", text::code(&found[2])), None))
    }
}

fn texts_of(evidence: &Evidence<'_>) -> String {
    let mut texts = evidence.texts.join("\n");
    for part in evidence.messages.iter().flat_map(|source| &source.message.parts) {
        texts.push('\n');
        texts.push_str(words_of(&part.body));
    }
    texts.make_ascii_lowercase();
    texts
}

/// True if a sentence names a command: whole, or by its first two words.
fn names(sentence: &str, command: &str) -> bool {
    let command = command.to_lowercase();
    let bare: Vec<&str> = command.split_whitespace().filter(|word| !word.starts_with('-')).take(2).collect();
    let short = bare.join(" ");
    sentence.contains(&command)
        || bare.len() == 2
            && sentence.match_indices(&short).any(|(at, _)| {
                // A longer command in code is another one.
                let behind = &sentence[at + short.len()..];
                !behind.starts_with(|letter: char| letter.is_alphanumeric() || "-_/.:".contains(letter))
                    && (behind.starts_with('`') || !sentence.contains('`'))
            })
        || bare.len() == 1 && sentence.contains(&format!("`{short}`"))
}

fn is_test(command: &str) -> bool {
    ["test", "spec", "jest", "mocha", "tox"].iter().any(|word| command.contains(word))
}

fn words_of(body: &PartBody) -> &str {
    match body {
        PartBody::Text(words) | PartBody::Reasoning(words) => words,
        PartBody::ToolCall(call) => &call.input_json,
        PartBody::ToolResult(result) => &result.output,
        PartBody::Marker(marker) => &marker.text,
        PartBody::Record(record) => &record.data,
        PartBody::Opaque(block) => std::str::from_utf8(&block.data).unwrap_or_default(),
        PartBody::Media(_) | PartBody::Step(_) => "",
    }
}
