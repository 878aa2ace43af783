//! Claims that a file exists although it does not: a tool or a command failed on exactly this path because it was
//! missing, or deleted it, and nothing after that concerns it.

use super::super::commands;
use super::super::previous::CODE;
use super::super::text;
use super::super::tools::{self, Kind, ToolUse};
use super::statements::{CLAIMS_MAX, Evidence, Statement, pattern};
use longhand_core::model::compaction::{Contradiction, ContradictionKind};
use longhand_core::model::ids::MessageId;
use longhand_core::model::message::Role;
use longhand_core::model::part::{PartBody, ResultStatus};
use longhand_core::policy::calls::{Called, Calls};
use regex::Regex;
use std::sync::LazyLock;

/// Words for the creation of a file, right before its path.
static MADE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?xi)(?:\b(?:created|added|wrote|written|generated|saved)\s+(?:(?:an?|the|new|file|to|in|document|script|module)\s+)*
        |(?:创建|新建|新增|添加|编写|写入|生成)了?\s*(?:新的?)?\s*(?:文件)?\s*[:：]?\s*)$",
    )
});

/// Words for the existence of a file, right after its path, …
static IS_THERE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?xi)^\s*(?:now\s+|already\s+|现在|已经?)?(?:(?:contains|holds|defines|exists|exports|provides|implements|is\ in\ place)\b
        |包含|存在|定义了?|提供|实现了)",
    )
});
/// … or right before it.
static STANDS_IN: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?i)(?:\b(?:lives|located|defined|stored|documented|implemented) (?:in|at|under)\s+|(?:位于|存放在|定义在|实现在|保存在)\s*)$",
    )
});

/// Words that make a sentence something other than a plain statement that a file exists.
static LIMITS: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?xi)\b(?:delet\w*|remov\w*|renam\w*|moved?|no\ longer|missing|absent|gone|not|\w+n['’]t|cannot|never|without
        |should|must|would|will|could|may|might|needs?|todo|to-do|next|plan\w*|if|until|before|previous\w*|earlier
        |temporar\w*|clean\w*|revert\w*|undo\w*|undid|dropp?\w*|fail\w*|error\w*|instead|replac\w*|was|were|had|then|user
        |says?|said|but)\b|\?|~~
        |删|移除|重命名|移动|不|没|未|缺|应|需|要|将|待|计划|临时|之前|曾|回滚|替换|失败|错误|用户|？",
    )
});

/// Words for the absence of a file, in a sentence or in a line of an output.
static GONE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?i)delet|remov|\brm\b|renam|\bmoved\b|missing|not exist|n't exist|no longer|\bgone\b|no such file|enoent|cannot find|^\s*D\s|删|移除|不存在|重命名|没有|缺",
    )
});

/// An error about a missing file, and not about a missing thing in it.
static NOT_THERE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?i)no such file or directory|\bENOENT\b|\bfile not found\b|\b(?:file|path)\b[^\n]{0,200}\b(?:does not|doesn['’]t) exist|cannot find the (?:file|path)|文件不存在|找不到文件",
    )
});

/// The same as programs print it, with the path.
static PRINTED: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r#"(?m)^[\w.-]+: (?:cannot (?:access|open|stat|remove) |can't (?:read|open|find) )?['"‘]?([^\s'"’:]+)['"’]?(?: for reading)?: No such file or directory$"#,
    )
});

/// Commands that can restore a file without naming it.
static RESTORES: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?x)\bgit\s+(?:-C\s+\S+\s+)?(?:checkout|switch|restore|reset|stash|revert|pull|merge|rebase|clone|apply|cherry-pick|am)\b
        |\b(?:unzip|tar|patch|rsync|mv|cp|scp|curl|wget|init|create|generate|codegen|scaffold)\b",
    )
});

/// Proof that a file does not exist.
struct Absence {
    path: String,
    at: usize,
    message: MessageId,
    history: String,
    is_deleted: bool,
}

pub(super) fn contradicted(evidence: &Evidence<'_>, statements: &[Statement]) -> Vec<Contradiction> {
    let claims: Vec<(String, &Statement, bool)> =
        statements.iter().filter(|statement| statement.is_claim()).flat_map(claimed).take(CLAIMS_MAX).collect();
    if claims.is_empty() {
        return Vec::new();
    }
    let calls = Calls::of(evidence.all());
    let understood: Vec<(&Called<'_>, ToolUse)> =
        calls.iter().map(|called| (called, tools::understand(&called.call.tool, &called.call.input_json))).collect();
    let mut absences: Vec<Absence> = Vec::new();
    // In some shells a change of the folder outlasts its command.
    let mut has_moved = false;
    for (called, call) in understood.iter().filter(|(called, _)| called.index < evidence.messages.len()) {
        absences.extend(absences_of(called, call, has_moved));
        has_moved |= call.command.as_ref().is_some_and(|command| folder_from_root(command) != Some(""));
    }
    let mut found = Vec::new();
    let mut accused: Vec<&str> = Vec::new();
    for (path, statement, is_made) in &claims {
        let Some(absence) = absences.iter().rev().find(|absence| is_same(path, &absence.path)) else { continue };
        let base = text::base_name(path);
        let is_stated = statements.iter().any(|other| other.words.contains(base) && GONE.is_match(&other.words));
        // A file that was deleted later was still created once.
        let is_history = *is_made && absence.is_deleted;
        if is_stated
            || is_history
            || accused.contains(&path.as_str())
            || is_cleared(evidence, &understood, absence, path)
        {
            continue;
        }
        accused.push(path);
        found.push(statement.contradicted(ContradictionKind::File, &absence.history, Some(absence.message)));
    }
    found
}

/// The files that a sentence claims to exist, each with true if it claims their creation.
fn claimed(statement: &Statement) -> Vec<(String, &Statement, bool)> {
    let words = statement.words.as_str();
    if LIMITS.is_match(&statement.bare) {
        return Vec::new();
    }
    let claim = |span: regex::Captures<'_>| {
        let (whole, path) = (span.get(0)?, span.get(1)?.as_str());
        let (before, behind) = (&words[..whole.start()], &words[whole.end()..]);
        let is_made = MADE.is_match(before);
        let is_claim = is_made || IS_THERE.is_match(behind) || STANDS_IN.is_match(before);
        (is_claim && is_path(path)).then(|| (path.trim_start_matches("./").to_owned(), statement, is_made))
    };
    CODE.captures_iter(words).filter_map(claim).collect()
}

/// True for the path of a file: one word with an extension.
fn is_path(code: &str) -> bool {
    let base = text::base_name(code);
    let ending = base.rsplit_once('.').map_or("", |(_, ending)| ending);
    (1..=8).contains(&ending.len())
        && ending.bytes().all(|letter| letter.is_ascii_alphanumeric())
        && code.chars().all(|letter| letter.is_alphanumeric() || "/._-+@~".contains(letter))
}

/// True if a path in a summary is that of the history: the same, or its end from a folder on.
fn is_same(claimed: &str, path: &str) -> bool {
    claimed == path || claimed.contains('/') && path.strip_suffix(claimed).is_some_and(|folder| folder.ends_with('/'))
}

/// The files that a call proves to be missing; `has_moved` is true if its working folder is unknown.
fn absences_of(called: &Called<'_>, call: &ToolUse, has_moved: bool) -> Vec<Absence> {
    let Some(answer) = called.answer else { return Vec::new() };
    let output = answer.result.output.as_str();
    let has_failed = answer.result.status == ResultStatus::Error;
    let absence = |path: &str, history: String, is_deleted| Absence {
        path: path.trim_start_matches("./").to_owned(),
        at: called.index,
        message: answer.source.message.id,
        history,
        is_deleted,
    };
    let Some(command) = &call.command else {
        let path = call.touches.first().map(|touch| touch.path.as_str()).unwrap_or_default();
        let is_one =
            matches!(call.kind, Kind::Read | Kind::Edit) && call.touches.iter().all(|touch| touch.path == path);
        let head = commands::head(output, 2_000);
        if !is_one || path.is_empty() || !has_failed || !NOT_THERE.is_match(head) {
            return Vec::new();
        }
        let line = head.lines().find(|line| NOT_THERE.is_match(line)).unwrap_or_default();
        let history = format!("{} was not there: {}", text::code(path), text::code(&text::clip(line, 120)));
        return vec![absence(path, history, false)];
    };
    // If the working folder is unknown, so is the meaning of a relative path.
    let folder = folder_from_root(command);
    let full_path = |path: &str| match (path.starts_with(['/', '~']), folder) {
        (true, _) => Some(path.to_owned()),
        (false, Some("")) => (!has_moved).then(|| path.trim_start_matches("./").to_owned()),
        (false, Some(folder)) => Some(format!("{folder}/{}", path.trim_start_matches("./"))),
        (false, None) => None,
    };
    let printed = PRINTED.captures_iter(commands::head(output, 16_384)).take(CLAIMS_MAX);
    let mut found: Vec<Absence> = printed
        .filter_map(|line| {
            let history = format!("{} was not there: {}", text::code(&line[1]), text::code(&text::clip(&line[0], 120)));
            Some(absence(&full_path(&line[1])?, history, false))
        })
        .collect();
    if has_failed || answer.result.status == ResultStatus::Interrupted {
        return found;
    }
    for part in commands::simple(command) {
        let mut words = part.split_whitespace().skip_while(|word| *word == "git");
        if words.next() != Some("rm") {
            continue;
        }
        let paths = words.filter(|word| !word.starts_with('-')).map(|word| word.trim_matches(['"', '\'']));
        for path in paths.filter(|path| is_path(path)) {
            let history = format!("{} was deleted: {}", text::code(path), text::code(&text::clip(&part, 120)));
            found.extend(full_path(path).map(|path| absence(&path, history, true)));
        }
    }
    found
}

/// True if there is evidence for the file: a tool that used it, a later mention that is not about its absence, or a
/// later command that may have restored it.
fn is_cleared(evidence: &Evidence<'_>, calls: &[(&Called<'_>, ToolUse)], absence: &Absence, path: &str) -> bool {
    let base = text::base_name(path);
    let by_call = calls.iter().any(|(called, call)| {
        let Some(answer) = called.answer else { return called.index > absence.at };
        let is_later = called.index > absence.at;
        let works = answer.result.status == ResultStatus::Completed;
        let gets_at = || {
            let named = |path: &str| text::base_name(path) == base;
            works && call.touches.iter().any(|touch| named(&touch.path))
        };
        let restores = || match &call.command {
            Some(command) => works && RESTORES.is_match(command),
            None => matches!(call.kind, Kind::Fetch),
        };
        let names = || works && called.call.input_json.contains(base);
        (is_later || !absence.is_deleted) && gets_at() || is_later && (restores() || names())
    });
    let confirms = |output: &str| output.lines().any(|line| line.contains(base) && !GONE.is_match(line));
    by_call
        || evidence.all().skip(absence.at + 1).any(|source| {
            source.message.parts.iter().any(|part| match &*part.body {
                PartBody::Text(words) => source.message.role == Role::User && confirms(words),
                PartBody::ToolResult(result) => result.output.contains(base) && confirms(&result.output),
                _ => false,
            })
        })
}

/// The absolute path of the folder that a command line changes to: empty if it changes nothing, none if the folder is
/// unknown.
fn folder_from_root(command: &str) -> Option<&str> {
    let goes =
        |words: &str| words.split([' ', '\n', ';', '&', '|', '(', ')']).any(|word| matches!(word, "cd" | "pushd"));
    if !goes(command) {
        return Some("");
    }
    let behind = command.trim_start().strip_prefix("cd ")?;
    let end = behind.find([' ', '&', ';', '\n', '|']).unwrap_or(behind.len());
    let folder = behind[..end].trim_matches(['"', '\'']);
    (folder.starts_with('/') && !goes(&behind[end..])).then(|| folder.trim_end_matches('/'))
}
