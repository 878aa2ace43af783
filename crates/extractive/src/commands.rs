//! Commands and their outputs: the purpose of a command, its outcome, and the decisive line of its output.

use super::text::{self, pattern};
use regex::Regex;
use std::sync::LazyLock;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Purpose {
    Verify,
    Record,
    Change,
    Run,
    #[default]
    Inspect,
}

static VERIFY: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?x)(?:^|[\s:_-])(?:tests?|pytest|unittest|jest|vitest|rspec|mocha|phpunit|ctest|tox|checks?|clippy|lint
        |eslint|biome|credo|dialyzer|ruff|mypy|pyright|flake8|tsc|tsgo|typecheck|build|compile|make|gradle|gradlew|mvn
        |msbuild|xcodebuild|vet|fmt|format|bench|verify|validate)(?:[\s:._-]|$)",
    )
});

static CHANGE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?x)\b(?:install|add|remove|uninstall|rm|mv|cp|close|create|update|delete|merge|rebase|checkout|switch
        |revert|reset|stash|deploy|apply|migrate|publish|start|stop|restart|kill|chmod|ln|upgrade|set|enable|disable
        |codegen|generate|init|sync|download|(?:deps\.|^go\s+)get|curl\s+-X)\b",
    )
});

static RECORD: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?x)^(?:git|jj|hg|svn)\s+(?:-C\s+\S+\s+)?(?:commit|push|tag|ci)\b
        |^(?:gh|glab)\s+(?:pr|mr|release)\s+(?:create|merge)\b|^npm\s+publish\b",
    )
});

/// The last line of a command that somebody, or a limit of time, stopped.
static STOPPED: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"(?i)^\W*(?:command (?:was )?(?:aborted|timed out|interrupted|cancelled)|request interrupted by user)")
});

/// Signs of failure in the output of a check whose exit status is unknown.
static FAILURE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?mx)\b[1-9]\d*\s+(?:tests?\s+)?(?:failed|failures?|errors?|failing)\b|\berror\ TS\d+|^\s*error(?:\[\w+\])?:
        |npm\ (?:ERR!|error)|^Traceback\ \(most|\bpanicked\ at\b|\bBUILD\ FAILED\b|^\s*FAILED\b|^\s*FAIL\b|^\*\*\ \(
        |\bcommand\ not\ found\b|\bSegmentation\ fault\b|^\s*✖\s|compilation\ error|(?i:compilation\ failed)
        |\bBUILD\ FAILURE\b|^\S+\.\w{1,5}:\d+:(?:\d+:)?\ (?:error|undefined|cannot|fatal|[EF]\d)
        |:\s+No\ such\ file\ or\ directory|(?i:\bexit(?:ed)?(?:\ with)?[\ _]?(?:code|status)?[:\ >]+[1-9]\d*\b)",
    )
});

/// A line that names the error, in the forms in which compilers, interpreters and test runners print it.
static STRONG: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?x)^\s*(?:\*\*\s*\(|error(?:\[\w+\])?:|(?:\w+\.)*\w*(?:Error|Exception)\b|E\s{3}|fatal:|panic|[Aa]ssert(?:ion)?\b
        |thread\ '.*panicked|●\ |\w+_test\.go:\d+:\ |npm\ ERR!\ [A-Z]+\ \w)|error\ TS\d+|\(\w+(?:\.\w+)*Error\)|:\d+:(?:\d+:)?\ (?:fatal\ )?error",
    )
});

static WEAK: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?x)错误|失败|异常|无法|(?i:\berrors?\b|\bfailed\b|\bfailure\b|\bpanicked\b|\bdenied\b|\bcannot\b|can't
        |\bcould\ not\b|not\ found|\bundefined\b|\binvalid\b|\bmissing\b|\bunexpected\b|no\ such|unable\ to|\bfail\b)",
    )
});

/// A line that only states that something failed.
static EMPTY: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?ix)could\ not\ compile|aborting\ due|compilation\ (?:failed|error)|^\W*exit\ code|\bexited\ with\b
        |npm\ ERR!\ (?:code|errno|path|command|cwd|a\ complete)|non-zero\ code|^\W*found\ \d+\ errors?
        |^make(?:\[\d+\])?:\ \*\*\*|command\ failed|lifecycle|^\W*0\ |\b0\ (?:errors|failed|failures)|command\ aborted
        |\[request\ interrupted|^\W*failures?:?\W*$|errors\ have\ been\ logged|see\ .*\ for\ details|^\W*build\ failed
        |^\s*\d+\ (?:tests?|doctests?),",
    )
});

static RESULT: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?ix)\b\d+\s+(?:tests?|examples?|specs?|passed|passing|failed|failures?|errors?|warnings?|doctests?
        |assertions?)\b|^test\ result:|\bno\ (?:issues|errors|problems)\b|\ball\ (?:checks|tests)\ pass|\bBUILD\ SUCC
        |^\s*(?:✓|✔|✅)|^Successfully\b|\bFinished\b.*\btarget",
    )
});

static COMMITTED: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?m)^\[(\S+)(?: \([^)]*\))? ([0-9a-f]{7,40})\] (.+)$"));

pub(super) fn was_stopped(output: &str) -> bool {
    output.trim_end().lines().next_back().is_some_and(|line| STOPPED.is_match(line))
}

/// The commands of a command line, without here-documents, changes of folder, variables and redirections.
pub(super) fn simple(command: &str) -> Vec<String> {
    // A here-document is input of a program and no command.
    static HANDED: LazyLock<Regex> = LazyLock::new(|| pattern(r#"<<-?\s*['"]?([A-Za-z_]+)['"]?"#));
    let mut cleaned = String::with_capacity(command.len());
    let mut rest = command;
    while let Some(found) = HANDED.captures(rest) {
        let mark = found.get(0).map_or(0..0, |mark| mark.range());
        let begins = rest[mark.end..].find('\n').map_or(rest.len(), |at| mark.end + at + 1);
        let is_end = |line: &str| line.trim().trim_end_matches([')', '"']) == &found[1];
        let handed = rest[begins..].split_inclusive('\n');
        let lines = handed.clone().position(is_end).unwrap_or(usize::MAX);
        let length: usize = handed.take(lines.saturating_add(1)).map(str::len).sum();
        cleaned.push_str(&rest[..mark.start]);
        cleaned.push_str(&rest[mark.end..begins]);
        rest = &rest[begins + length..];
    }
    cleaned.push_str(rest);
    split(&cleaned).into_iter().map(str::to_owned).collect()
}

/// The commands in a command line without here-documents.
fn split(command: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut quote, mut escaped) = (0, None, false);
    for (at, letter) in command.char_indices() {
        if std::mem::take(&mut escaped) {
            continue;
        }
        match (letter, quote) {
            ('\\', _) => escaped = true,
            (letter, Some(open)) if letter == open => quote = None,
            ('"' | '\'', None) => quote = Some(letter),
            // `2>&1` is no separator.
            ('&', None) if command[..at].ends_with('>') => {}
            ('&' | '|' | ';' | '\n', None) => {
                parts.push(&command[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&command[start..]);
    parts.into_iter().map(core).filter(|part| !part.is_empty() && !part.starts_with("cd ")).collect()
}

/// A simple command without the variables before it and the redirections after it.
fn core(part: &str) -> &str {
    let mut rest = part.trim().trim_start_matches(['(', '{']).trim_start();
    while let Some((word, behind)) = rest.split_once(' ')
        && word.contains('=')
        && word.bytes().all(|letter| letter.is_ascii_alphanumeric() || b"_=./:-".contains(&letter))
    {
        rest = behind.trim_start();
    }
    let end = [" 2>", " > ", " >> ", " <<", " 1>"].iter().filter_map(|end| rest.find(end)).min().unwrap_or(rest.len());
    if rest.starts_with('#') { "" } else { rest[..end].trim() }
}

/// The purpose of a simple command. The verb decides, not its arguments: reading a test is no test.
pub(super) fn purpose(part: &str) -> Purpose {
    if RECORD.is_match(part) {
        return Purpose::Record;
    }
    let program = part.split_whitespace().next().unwrap_or_default().rsplit('/').next().unwrap_or_default();
    const INSPECTORS: &str = "\
        grep rg cat ls find sed head tail echo wc which tree awk pwd printf stat diff du ps env jq sort sleep true \
        file less type for while cut od xxd set export fi done do then if else tr uniq tee basename dirname \
        realpath mkdir command test [ [[ date whoami id uname history more bat fd ag tac nl column xargs wait lsof pgrep \
        exit source .";
    const INSPECTIONS: &str = "\
        status log diff show branch blame grep rev-parse remote add fetch view list ls ready ps get logs describe \
        info --version -v -V version help --help search ls-files cat-file shortlog reflog config whoami auth api";
    // In `git -C there log` and `gh issue view` the verb comes one word later.
    let inspects =
        part.split_whitespace().skip(1).take(2).any(|verb| INSPECTIONS.split(' ').any(|known| known == verb));
    if INSPECTORS.split(' ').any(|known| known == program)
        || inspects && program != "go" && (program == "git" || !VERIFY.is_match(part))
        || program.is_empty()
    {
        return Purpose::Inspect;
    }
    // Files are arguments, whatever their names.
    let verbs = part.split_whitespace().skip(1).take(3);
    let verbs = verbs.filter(|word| !word.contains('/') && (program == "mix" || !word.contains('.')));
    let head = [program].into_iter().chain(verbs).collect::<Vec<_>>().join(" ");
    if VERIFY.is_match(&head) {
        Purpose::Verify
    } else if CHANGE.is_match(&head) {
        Purpose::Change
    } else {
        Purpose::Run
    }
}

/// True for a command line whose output may be a text for people: not the report of a check or of version control.
pub(super) fn prints_texts(command: &str) -> bool {
    let parts = simple(command);
    let reports = |part: &String| {
        let is_git = ["git ", "jj ", "hg "].iter().any(|program| part.starts_with(program));
        is_git || matches!(purpose(part), Purpose::Verify | Purpose::Record | Purpose::Change)
    };
    !parts.iter().any(reports)
}

/// The folder that a command line changes to first; none for an absolute path, a home folder or a variable.
pub(super) fn folder(command: &str) -> Option<&str> {
    let behind = command.trim_start().strip_prefix("cd ")?;
    let end = behind.find([' ', '&', ';', '\n', '|']).unwrap_or(behind.len());
    let folder = behind[..end].trim_matches(['"', '\'', '/']);
    (!folder.is_empty() && !behind.starts_with(['/', '~', '$', '"']) && folder != "..").then_some(folder)
}

/// True if an output reports a failure although its tool call completed.
pub(super) fn reports_failure(output: &str) -> bool {
    FAILURE.is_match(tail(output, 6_000))
}

pub(super) fn tail(text: &str, limit: usize) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(limit))..]
}

pub(super) fn head(text: &str, limit: usize) -> &str {
    &text[..text.floor_char_boundary(limit)]
}

/// The line of an output that states the error. Banners come before it and verdicts after it; neither states the error.
pub(super) fn deciding(output: &str) -> Option<String> {
    let output = text::clean(tail(output, 65_536));
    let lines: Vec<&str> = output.lines().map(str::trim).filter(|line| line.len() > 3).collect();
    let find = |is: &dyn Fn(&str) -> bool| lines.iter().position(|line| is(line) && !EMPTY.is_match(line));
    let at = find(&|line| STRONG.is_match(line))
        .or_else(|| find(&|line| WEAK.is_match(line)))
        .or_else(|| lines.iter().rposition(|line| line.chars().any(char::is_alphabetic) && !EMPTY.is_match(line)))?;
    let words = text::one_line(lines[at].trim_start_matches("<tool_use_error>").trim_end_matches("</tool_use_error>"));
    // Some tools name the error on one line and describe it on the next.
    let next = lines.get(at + 1).filter(|_| words.len() < 12 || words.ends_with("Error)") || words.ends_with(':'));
    Some(next.map_or(words.clone(), |next| format!("{words} {}", text::one_line(next))))
}

/// The line of an output that states the outcome: the last one with counts, or else the last one of a known form.
pub(super) fn result(output: &str) -> Option<String> {
    static COUNTS: LazyLock<Regex> = LazyLock::new(|| {
        pattern(
            r"(?i)\b[1-9]\d*\s+(?:tests?|examples?|specs?|passed|passing|failed|failures?|errors?)\b|\btests run: [1-9]",
        )
    });
    let output = text::clean(tail(output, 8_000));
    let lines: Vec<&str> = output.lines().rev().take(60).map(str::trim).filter(|line| line.len() > 3).collect();
    let counts = lines.iter().find(|line| COUNTS.is_match(line));
    let line = counts.or_else(|| lines.iter().find(|line| RESULT.is_match(line)))?;
    Some(text::one_line(line.trim_matches(['=', ' ', '-'])))
}

/// The commits that an output reports: branch, short id and subject.
pub(super) fn commits(output: &str) -> Vec<(String, String, String)> {
    let output = text::clean(head(output, 8_000));
    let found = COMMITTED.captures_iter(&output);
    found.map(|found| (found[1].to_owned(), found[2].to_owned(), found[3].trim().to_owned())).collect()
}

pub(super) fn pushes(part: &str) -> bool {
    let mut words = part.split_whitespace().take_while(|word| !word.starts_with(['"', '\'']));
    !words.any(|word| word == "commit") && part.split_whitespace().any(|word| word == "push")
}

/// The commit of a quiet command: an id that the output prints before the subject, and the subject.
pub(super) fn quiet_commit(part: &str, output: &str) -> Option<(String, String)> {
    static SUBJECT: LazyLock<Regex> = LazyLock::new(|| {
        pattern(r#"^(?:git|jj|hg)\s(?:.*\s)?commit\b.*?\s(?:-\w*m|--message)[=\s]*(?:"([^"\n]+)|'([^'\n]+))"#)
    });
    let found = SUBJECT.captures(part)?;
    let subject = found.get(1).or_else(|| found.get(2))?.as_str().trim();
    let ids = head(output, 8_000).lines().filter_map(|line| line.trim().strip_suffix(subject));
    let is_id = |id: &&str| (7..=40).contains(&id.len()) && id.bytes().all(|letter| letter.is_ascii_hexdigit());
    let id = ids.map(str::trim).find(is_id).unwrap_or_default();
    Some((id.to_owned(), text::one_line(&text::clean(subject))))
}

/// The form in which a command is quoted: its first line.
pub(super) fn shown(command: &str) -> String {
    let command = text::clean(command);
    let mut lines = command.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let first = text::one_line(lines.next().unwrap_or_default());
    if lines.next().is_some() && !first.ends_with('…') { format!("{first} …") } else { first }
}
