//! Claims that a check passes although it failed in its last run.

use super::super::commands::{self, Purpose};
use super::super::previous::CODE;
use super::super::record::was_stopped;
use super::super::text;
use super::super::tools::{self, Kind};
use super::statements::{CLAIMS_MAX, Evidence, Statement, pattern};
use longhand_core::model::compaction::{Contradiction, ContradictionKind};
use longhand_core::model::ids::MessageId;
use longhand_core::model::message::Role;
use longhand_core::model::part::{PartBody, ResultStatus, ToolResult};
use longhand_core::policy::Topic;
use longhand_core::policy::calls::{Called, Calls};
use regex::Regex;
use std::collections::HashMap;
use std::sync::LazyLock;

/// A word of success right after the name of a command, or after a list of such names.
static SAYS_PASSED: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?xi)^(?:\s*(?:,|，|、|&|/|\+|\band\b|和|与|及|以及)\s*(?:and\s+)?`[^`]+`){0,6}[\s:：,，—–=>→(（-]*
        (?:(?:now|still|all|both|is|are|runs?|ran|has|have|been|finally|cleanly|fully|again|tests?|the|suite|result|status
        |全部|均|都|已经?|现在|目前|运行|执行|测试|结果|为|也|再次|最终|完全)\s*[:：]?\s*){0,5}[✅✓✔]?\s*
        (?:(?:pass(?:es|ed|ing)?|green|ok|succeed(?:s|ed)?|clean)\b|通过(?:[^率]|$)|成功|正常)",
    )
});

/// A word of success right before it.
static PASSED_BY: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?xi)(?:\b(?:tests?|suite|build|lint(?:ing)?|type-?\s?check(?:s|ing)?|checks?|everything|all)\b|测试|构建|编译|检查)
        \s*(?:(?:now|still|all|are|is|全部|均|都|已经?)\s*)*
        (?:\b(?:pass(?:es|ed|ing)?|green|ok|succeed(?:s|ed)?|clean)\s*[(:]?\s*(?:via|with|using|by)?|(?:通过|成功)\s*[（(：:])\s*$",
    )
});

static PASSES: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?i)\bpass(?:es|ed|ing)?\b|\bgreen\b|\bok\b|\bsucceed|\bclean\b|通过|成功|正常"));

/// Words after a success that limit it to a place, a time or a condition.
static QUALIFIES: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?i)\b(?:in|on|at|for|under|against|of|from|with|without)\s+[^\d\s]"));

/// Words that make a sentence something other than a plain statement of a check's outcome.
static LIMITS: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?xi)\b(?:not|never|no\ longer|\w+n['’]t|cannot|fail\w*|error\w*|broke\w*|red|except|but|however|though|although
        |until|unless|if|once|when(?:ever)?|while|should|must|would|will|could|may|might|can|need\w*|want\w*|expect\w*
        |ensure\w*|make\ sure|before|previously|earlier|initially|originally|at\ first|was|were|had|used\ to|to-?do|next
        |pending|remain\w*|plan\w*|try|trying|verify|confirm|requires?|required|only|part(?:ly|ial\w*)|some|most(?:ly)?
        |almost|nearly|skip\w*|ignor\w*|flak\w*|user|says?|said|report\w*|claim\w*|local(?:ly)?|ci|remote|goal|so\ that
        |in\ order)\b|\?|~~
        |不|没|未|失败|错误|报错|异常|但|除|只|仅|部分|应|需|要|将|会|可能|如果|若|待|尚|之前|以前|曾|最初|起初|期望|希望|确保
        |保证|让|使|再|下一步|计划|跳过|忽略|多数|几乎|本地|？|吗|用户",
    )
});

/// Phrases for "no errors", which limit nothing.
static NOTHING_WRONG: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?i)\b(?:0|no|zero|without(?: any)?) (?:errors?|failures?|failed|failing|warnings?|issues?)\b|(?:0 ?个?|无|没有)(?:失败|错误|异常)",
    )
});

static SAYS_FAILED: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"(?i)\bfail|\berrors?\b|\bbroke|\bred\b|not pass|to pass|失败|报错|错误|不通过|未通过|没有通过")
});

/// A line that counts failures, …
static COUNTS_FAILED: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?i)\b[1-9]\d*\s+(?:tests?\s+)?(?:failed|failures?|errors?|failing)\b"));
/// … a line that reports them as fixed or expected, …
static FIXED: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?i)\bfixed\b|\b0 remaining\b|\bexpected\b"));
/// … and a line that counts successes.
static COUNTS_PASSED: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?i)\b[1-9]\d*\s+(?:tests?|examples?|specs?|passed|passing)\b"));

/// The output of a command line that never ran its check.
static NOT_RUN: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"(?i)command not found|no such file or directory|not recognized as|permission denied|\bcd: ")
});

/// Programs that run others.
const RUNNERS: [&str; 20] = [
    "make",
    "just",
    "task",
    "npm",
    "pnpm",
    "yarn",
    "bun",
    "npx",
    "rake",
    "tox",
    "nox",
    "pre-commit",
    "mage",
    "gradle",
    "mvn",
    "sh",
    "bash",
    "docker",
    "nix",
    "invoke",
];

/// The outcome of a run, as far as it is beyond doubt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Passed,
    Failed,
    Unknown,
}

/// The last run of a command.
struct Run {
    command: String,
    /// Index of its message.
    at: usize,
    verdict: Verdict,
    /// True if its output counts successes.
    counts: bool,
    /// The decisive line of its output, if it failed.
    output_line: String,
    message: MessageId,
}

pub(super) fn contradicted(evidence: &Evidence<'_>, statements: &[Statement]) -> Vec<Contradiction> {
    let claims: Vec<&Statement> = statements
        .iter()
        .filter(|statement| statement.is_claim() && PASSES.is_match(&statement.words))
        .take(CLAIMS_MAX)
        .collect();
    if claims.is_empty() {
        return Vec::new();
    }
    let calls = Calls::of(evidence.all());
    let runs = runs(&calls);
    let failed = runs.iter().filter(|run| run.verdict == Verdict::Failed && run.at < evidence.messages.len());
    let named = failed.filter_map(|run| Some((run, claims.iter().find(|claim| says_passed(claim, &run.command))?)));
    let mut found = Vec::new();
    for (run, claim) in named.take(CLAIMS_MAX) {
        let is_open = is_stated(statements, &run.command) || is_cleared(run, &runs);
        if !is_open && !is_claimed_to_pass(evidence, &calls, run.at) {
            let detail =
                if run.output_line.is_empty() { String::new() } else { format!(": {}", text::code(&run.output_line)) };
            let history = format!("{} failed{detail}", text::code(&run.command));
            found.push(claim.contradicted(ContradictionKind::Check, &history, Some(run.message)));
        }
    }
    found
}

/// The last run of each check, in order.
fn runs(calls: &Calls<'_>) -> Vec<Run> {
    let mut last: HashMap<String, Run> = HashMap::new();
    for called in calls.iter() {
        let call = called.call;
        let Some(command) = tools::understand(&call.tool, &call.input_json).command else { continue };
        let parts = commands::simple(&command);
        let checks: Vec<&String> = parts.iter().filter(|part| is_check(part)).collect();
        if checks.is_empty() {
            continue;
        }
        let result = called.answer.map(|answer| answer.result);
        let counts = result.and_then(|result| commands::result(&result.output)).unwrap_or_default();
        // If a line runs several commands, its output cannot be assigned to one of them.
        let verdict = match result {
            Some(result) if checks.len() == 1 => verdict(result, &counts, parts.len() == 1),
            Some(result) if is_plain_success(result, &counts) => Verdict::Passed,
            Some(_) | None => Verdict::Unknown,
        };
        let output_line = if verdict == Verdict::Failed {
            result.and_then(|result| commands::deciding(&result.output))
        } else {
            None
        };
        for part in checks {
            let command = text::one_line(&text::clean(part));
            let run = Run {
                command: command.clone(),
                at: called.index,
                verdict,
                counts: COUNTS_PASSED.is_match(&counts),
                output_line: text::clip(&output_line.clone().unwrap_or_default(), 160),
                message: called.answer.map_or(called.source, |answer| answer.source).message.id,
            };
            last.insert(command, run);
        }
    }
    let mut runs: Vec<Run> = last.into_values().collect();
    runs.sort_by(|left, right| (left.at, &left.command).cmp(&(right.at, &right.command)));
    runs
}

/// True for a check, and for a program that runs one, in a container or on another machine.
fn is_check(part: &str) -> bool {
    /// Maximum number of words before the check.
    const WRAPPER_WORDS: usize = 6;
    let verifies = |part: &str| commands::purpose(part) == Purpose::Verify;
    let behind = part.match_indices(' ').take(WRAPPER_WORDS).any(|(at, _)| verifies(part[at..].trim_start()));
    verifies(part) || commands::purpose(part) == Purpose::Run && behind
}

fn is_plain_success(result: &ToolResult, counts: &str) -> bool {
    result.status == ResultStatus::Completed
        && !COUNTS_FAILED.is_match(counts)
        && !commands::reports_failure(&result.output)
}

/// The outcome of a command line with one check; `is_alone` is true if the line has no other command.
fn verdict(result: &ToolResult, counts: &str, is_alone: bool) -> Verdict {
    let output = &result.output;
    let fails = match result.status {
        ResultStatus::Interrupted => return Verdict::Unknown,
        ResultStatus::Error if was_stopped(output) => return Verdict::Unknown,
        ResultStatus::Error => true,
        ResultStatus::Completed if output.contains("background with ID") => return Verdict::Unknown,
        ResultStatus::Completed => reports_exit(output),
    };
    let counts_failed = COUNTS_FAILED.is_match(counts);
    if FIXED.is_match(counts) || NOT_RUN.is_match(commands::head(output, 4_000)) && !counts_failed {
        return Verdict::Unknown;
    }
    match (fails, counts_failed) {
        (_, true) => Verdict::Failed,
        (true, false) if is_alone && !COUNTS_PASSED.is_match(counts) => Verdict::Failed,
        (true, false) => Verdict::Unknown,
        (false, false) if commands::reports_failure(output) => Verdict::Unknown,
        (false, false) => Verdict::Passed,
    }
}

/// True for a sentence that claims that a command passes.
fn says_passed(claim: &Statement, command: &str) -> bool {
    let words = claim.words.as_str();
    if !words.contains(command) {
        return false;
    }
    let limits = NOTHING_WRONG.replace_all(&claim.bare.replace(command, ""), "").into_owned();
    if LIMITS.is_match(&limits) {
        return false;
    }
    let states_success = |before: &str, behind: &str| match SAYS_PASSED.find(behind) {
        Some(passed) => !QUALIFIES.is_match(&behind[passed.end()..]),
        None => {
            PASSED_BY.is_match(before) && behind.trim_start_matches([')', '）', '.', '。', ',', '，', ' ']).is_empty()
        }
    };
    let mut in_code = CODE.captures_iter(words).filter_map(|span| Some((span.get(0)?, span.get(1)?)));
    if in_code.any(|(span, code)| {
        is_command(code.as_str(), command) && states_success(&words[..span.start()], &words[span.end()..])
    }) {
        return true;
    }
    // A single word may not be the command.
    let is_end =
        |letter: Option<char>| letter.is_none_or(|letter| !letter.is_ascii_alphanumeric() && !"-_/.`".contains(letter));
    command.contains(' ')
        && words.match_indices(command).any(|(start, _)| {
            let (before, behind) = (&words[..start], &words[start + command.len()..]);
            is_end(before.chars().next_back()) && is_end(behind.chars().next()) && states_success(before, behind)
        })
}

/// True for a code quote of this command, in any folder and with any pipe.
fn is_command(code: &str, command: &str) -> bool {
    let mut parts = commands::simple(code.trim_start_matches("$ "));
    parts.retain(|part| commands::purpose(part) != Purpose::Inspect);
    matches!(parts.as_slice(), [part] if text::one_line(part) == command)
}

/// True if the summary states elsewhere that the command fails, or that there is an open failure.
fn is_stated(statements: &[Statement], command: &str) -> bool {
    statements.iter().any(|statement| {
        let is_open = matches!(
            statement.topic,
            Some(Topic::InProgress | Topic::Blocked | Topic::OpenDecisions | Topic::NextSteps)
        );
        let words = NOTHING_WRONG.replace_all(&statement.words, "");
        (is_open || words.contains(command)) && SAYS_FAILED.is_match(&words)
    })
}

/// True if a later run is the same check in another form, or may include it.
fn is_cleared(failed: &Run, runs: &[Run]) -> bool {
    let words: Vec<&str> = failed.command.split_whitespace().collect();
    runs.iter().filter(|run| run.at > failed.at && run.verdict != Verdict::Failed).any(|run| {
        let other: Vec<&str> = run.command.split_whitespace().collect();
        let position = other.windows(words.len()).position(|window| window == words.as_slice());
        match position {
            Some(position) => other[position + words.len()..].iter().all(|word| word.starts_with('-')),
            None if failed.command.starts_with(&format!("{} ", run.command)) => true,
            None => {
                run.counts
                    || other.first() != words.first() && other.first().is_some_and(|first| RUNNERS.contains(first))
            }
        }
    })
}

/// True if a later text of another source reports a success: of the user, another agent or a service.
fn is_claimed_to_pass(evidence: &Evidence<'_>, calls: &Calls<'_>, at: usize) -> bool {
    let by_user = evidence.all().skip(at + 1).filter(|source| source.message.role == Role::User).any(|source| {
        source.message.parts.iter().any(|part| matches!(&*part.body, PartBody::Text(words) if PASSES.is_match(words)))
    });
    let confirms = |called: &Called<'_>| {
        let understood = tools::understand(&called.call.tool, &called.call.input_json);
        let asks = |command: &String| command.contains("gh ") || command.contains("glab ");
        let is_other = match &understood.command {
            Some(command) => asks(command),
            None => matches!(understood.kind, Kind::Fetch | Kind::Other | Kind::Ask),
        };
        is_other && called.answer.is_some_and(|answer| PASSES.is_match(&answer.result.output))
    };
    by_user || calls.iter().rev().take_while(|called| called.index > at).any(confirms)
}

/// True for an output that begins or ends with the exit status of a failed command.
fn reports_exit(output: &str) -> bool {
    let mut lines = output.lines().filter(|line| !line.trim().is_empty());
    let ends = [lines.next(), lines.next_back()];
    ends.into_iter().flatten().any(|line| commands::EXIT.is_match(commands::head(line, 400)))
}
