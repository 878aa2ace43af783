//! Commands and their outputs: what a command was for, and how it ended.

use super::text;
use regex::Regex;
use std::sync::LazyLock;

/// What a command is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Tells whether the work is right: a test, a build, a check.
    Verify,
    /// Records work: a commit, a push, a release.
    Record,
    /// Changes something: installs, moves, deletes, closes.
    Change,
    /// Only looks.
    Look,
}

static VERIFY: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?x)(?:^|[\s/:_-])(?:tests?|pytest|unittest|jest|vitest|rspec|mocha|phpunit|ctest|tox|checks?|clippy|lint
        |eslint|biome|credo|dialyzer|ruff|mypy|pyright|flake8|tsc|tsgo|typecheck|build|compile|make|gradle|gradlew|mvn
        |msbuild|xcodebuild|vet|fmt|format|bench|verify|validate)(?:[\s:.]|$)",
    )
    .expect("a fixed pattern")
});

static CHANGE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?x)\b(?:install|add|remove|uninstall|rm|mv|cp|mkdir|close|create|update|delete|merge|rebase|checkout|switch
        |revert|reset|stash|deploy|apply|migrate|publish|start|stop|restart|kill|chmod|ln|upgrade|set|enable|disable
        |codegen|generate|init|sync|download|curl\s+-X)\b",
    )
    .expect("a fixed pattern")
});

static RECORD: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?x)\b(?:git|jj|hg|svn)\s+(?:-C\s+\S+\s+)?(?:commit|push|tag|ci)\b
        |\b(?:gh|glab)\s+(?:pr|mr|release)\s+(?:create|merge)\b|\bnpm\s+publish\b",
    )
    .expect("a fixed pattern")
});

static EXIT: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)\bexit(?:ed)?(?: with)?(?: code| status)?[: ]+([1-9]\d*)\b").expect("a fixed pattern")
});

static FAILURE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?mx)\b[1-9]\d*\s+(?:tests?\s+)?(?:failed|failures?|errors?|failing)\b|\berror\ TS\d+|^\s*error(?:\[\w+\])?:
        |npm\ (?:ERR!|error)|^Traceback\ \(most|\bpanicked\ at\b|\bBUILD\ FAILED\b|^\s*FAILED\b|^\s*FAIL\b|^\*\*\ \(
        |\bcommand\ not\ found\b|\bSegmentation\ fault\b|^\s*✖\s|compilation\ error|Compilation\ failed
        |:\s+No\ such\ file\ or\ directory",
    )
    .expect("a fixed pattern")
});

static ERROR_LINE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?x)\b(?:[A-Za-z.]*(?:Error|Exception))\b|^\*\*\ \(|错误|失败|异常|无法
        |(?i:\berrors?\b|\bfailed\b|\bfailure\b|\bpanicked\b|\bfatal\b|\bdenied\b|\bcannot\b|can't|\bcould\ not\b
        |not\ found|\bundefined\b|\binvalid\b|\bmissing\b|\bunexpected\b|no\ such|unable\ to|must\ be|\bfail\b)",
    )
    .expect("a fixed pattern")
});

static STRONG_ERROR: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?x)^\s*(?:\*\*\s*\(|error(?:\[\w+\])?:|\w*(?:Error|Exception)\b|E\s{3}|fatal:|panic|thread\ '.*panicked)
        |error\ TS\d+|\(\w+(?:\.\w+)*Error\)",
    )
    .expect("a fixed pattern")
});

static RESULT_LINE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?ix)\b\d+\s+(?:tests?|examples?|specs?|passed|passing|failed|failures?|errors?|warnings?|doctests?
        |assertions?)\b|^test\ result:|\bno\ (?:issues|errors|problems)\b|\ball\ (?:checks|tests)\ pass
        |^\[[^\]]+\ [0-9a-f]{7,}\]|\bBUILD\ SUCC|^\s*(?:✓|✔|✅)|^Successfully\b|\bGenerated\b|->\s+\S+$
        |\bFinished\b.*\btarget",
    )
    .expect("a fixed pattern")
});

static COMMITTED: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?m)^\[(\S+)(?: \([^)]*\))? ([0-9a-f]{7,40})\] (.+)$").expect("a fixed pattern"));

/// The command without what only concerns its surroundings: directory changes, variables, redirections and pipes.
pub(super) fn core(command: &str) -> &str {
    let mut rest = command.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#')).unwrap_or("");
    while rest.starts_with("cd ") {
        let Some((_, behind)) = rest.split_once("&&").or_else(|| rest.split_once(';')) else { break };
        rest = behind.trim_start();
    }
    let ends = [" 2>", " | ", " > ", " && ", "; ", " || ", " <<", " >> "];
    let end = ends.iter().filter_map(|end| rest.find(end)).min().unwrap_or(rest.len());
    rest[..end].trim_end()
}

/// What a command is for. The verb decides, not its arguments: looking at a test is no test.
pub(super) fn purpose(command: &str) -> Purpose {
    if RECORD.is_match(command) {
        return Purpose::Record;
    }
    let core = core(command);
    let program = core.split_whitespace().next().unwrap_or_default().rsplit('/').next().unwrap_or_default();
    const LOOKERS: &[&str] = &[
        "grep", "rg", "cat", "ls", "find", "sed", "head", "tail", "echo", "wc", "which", "tree", "awk", "pwd",
        "printf", "stat", "diff", "du", "ps", "env", "jq", "sort", "sleep", "true", "file", "less", "type", "for",
        "while", "cut", "od", "xxd",
    ];
    let looks_at_history = matches!(program, "git" | "jj") && {
        let verb = core.split_whitespace().nth(1).unwrap_or_default();
        matches!(
            verb,
            "status" | "log" | "diff" | "show" | "branch" | "blame" | "grep" | "rev-parse" | "remote" | "add"
        )
    };
    if LOOKERS.contains(&program) || looks_at_history {
        return Purpose::Look;
    }
    let head: String = core.split_whitespace().take(4).collect::<Vec<_>>().join(" ");
    if VERIFY.is_match(&head) {
        Purpose::Verify
    } else if CHANGE.is_match(&head) {
        Purpose::Change
    } else {
        Purpose::Look
    }
}

/// Whether an output tells of failure although its tool says that it completed.
pub(super) fn tells_failure(output: &str) -> bool {
    let tail = tail(output, 6_000);
    EXIT.is_match(tail) || FAILURE.is_match(tail)
}

/// The end of a text, at most `limit` bytes.
pub(super) fn tail(text: &str, limit: usize) -> &str {
    let mut start = text.len().saturating_sub(limit);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    &text[start..]
}

/// The beginning of a text, at most `limit` bytes.
pub(super) fn head(text: &str, limit: usize) -> &str {
    let mut end = text.len().min(limit);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The line of an output that says what went wrong.
pub(super) fn error_line(output: &str) -> Option<String> {
    let output = text::clean(output);
    let lines = || output.lines().map(str::trim).filter(|line| is_telling(line)).take(400);
    let strong = lines().find(|line| STRONG_ERROR.is_match(line));
    let chosen = strong.or_else(|| lines().find(|line| ERROR_LINE.is_match(line))).or_else(|| lines().next())?;
    let chosen = chosen.trim_start_matches("<tool_use_error>").trim_end_matches("</tool_use_error>");
    // Compilers put the name of what is wrong first and the words on the next line.
    let chosen = if chosen.len() < 12 || chosen.ends_with("Error)") {
        let next =
            output.lines().map(str::trim).skip_while(|line| *line != chosen).skip(1).find(|line| !line.is_empty());
        next.map_or_else(|| chosen.to_owned(), |next| format!("{chosen} {next}"))
    } else {
        chosen.to_owned()
    };
    Some(text::one_line(&chosen))
}

fn is_telling(line: &str) -> bool {
    const EMPTY: [&str; 5] = ["command aborted", "[request interrupted", " 0 errors", " 0 failed", " 0 failures"];
    let lower = line.to_ascii_lowercase();
    let is_code_alone = line.len() < 32 && EXIT.is_match(line);
    let says_nothing = lower.starts_with("0 ") || EMPTY.iter().any(|words| lower.contains(words));
    line.len() > 3 && line.chars().any(char::is_alphabetic) && !is_code_alone && !says_nothing
}

/// The line of an output that says how it went.
pub(super) fn result_line(output: &str) -> Option<String> {
    let output = text::clean(tail(output, 8_000));
    let line =
        output.lines().rev().take(60).map(str::trim).find(|line| line.len() > 3 && RESULT_LINE.is_match(line))?;
    Some(text::one_line(line))
}

/// A commit that an output reports: branch, short id and subject.
pub(super) fn commits(output: &str) -> Vec<(String, String, String)> {
    let output = text::clean(head(output, 8_000));
    COMMITTED
        .captures_iter(&output)
        .map(|found| (found[1].to_owned(), found[2].to_owned(), found[3].trim().to_owned()))
        .collect()
}

/// A command as it is quoted: its first line, without what hides its output.
pub(super) fn shown(command: &str) -> String {
    let command = text::clean(command);
    let mut lines = command.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let first = lines.next().unwrap_or_default();
    let more = lines.next().is_some();
    let first = first.trim_end_matches('\\').trim_end();
    let cut = [" 2>&1 | tail", " 2>&1 | head", " | tail -", " | head -", " 2>&1", " 2>/dev/null"];
    let end = cut.iter().filter_map(|mark| first.find(mark)).min().unwrap_or(first.len());
    let shown = text::one_line(&first[..end]);
    if more && !shown.ends_with('…') { format!("{shown} …") } else { shown }
}
