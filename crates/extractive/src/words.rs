//! Classification of sentences as requests, rules, decisions, findings or intentions, by the words that people and
//! models use for these, in English and in Chinese.

use super::text::{self, Lead};
use longhand_core::policy::Topic;
use regex::Regex;
use std::sync::LazyLock;

/// Matches any of some words, or any of some words of a script without spaces.
fn any_of(words: &str, wide: &str) -> Regex {
    Regex::new(&format!(r"(?ix)\b(?:{words})\b|{wide}")).expect("a fixed pattern")
}

/// Words of a rule. “Don't” is one at the beginning of a clause; elsewhere it may state an observation.
static INSISTS: LazyLock<Regex> = LazyLock::new(|| {
    any_of(
        r"must(?:n'?t)?|never|always|only|prefer(?:ably)?|make\ sure|ensure|avoid|important|required?
        |under\ no|no\ matter|at\ (?:most|least)|stick\ to|remember|instead\ of|rather\ than|(?:not|n'?t)\ allowed
        |forbidden|should(?:n'?t|\ not|\ be)|cannot|no\ need\ (?:to|for)|stop\ (?:using|doing|adding)
        |keep\ .{1,30}\ (?:as\ is|unchanged|intact|simple|minimal|same)|no\ \w+s?\b.*\bever
        |(?:^|[,;:.(]\s*|\b(?:and|but|please|so|then|also|just)\s+)do(?:n'?t|\ not)",
        "必须|不要|不能|禁止|务必|一定要|只能|只要|只用|优先|尽量|避免|不得|切勿|确保|记住|别再|不允许|严禁|保持|请用|应该",
    )
});

/// Words that make a rule of a doubt.
static BINDS: LazyLock<Regex> = LazyLock::new(|| any_of(r"must(?:n'?t)?|never|always", "必须|不要|不能|禁止|不得"));

/// Words of a rule that stays when the work it came with is done.
static STANDS: LazyLock<Regex> = LazyLock::new(|| {
    any_of(
        r"must(?:n'?t)?|never|always|don'?t|do\ not|not\ allowed|without|avoid|no|only|cannot|prefer(?:ably)?|make\ sure
        |ensure|important|remember|stick\ to|keep|required?|at\ (?:most|least)|whenever|every|from\ now\ on|no\ matter
        |under\ no|forbidden|should(?:n'?t|\ not)|stop",
        "必须|不要|不能|禁止|不得|只能|避免|也不|务必|一定要|优先|尽量|确保|记住|保持|每次|以后|请用|只用|只要|切勿|别再|不允许|严禁",
    )
});

/// True if a rule is about one piece of work, and fulfilled with it.
pub(super) fn is_one_off(words: &str) -> bool {
    !STANDS.is_match(words)
}

/// Minimum size of a sentence that states a reason or a finding, in bytes.
const SENSE_BYTES_MIN: usize = 30;

/// Words of a choice or of a reason.
static DECIDES: LazyLock<Regex> = LazyLock::new(|| {
    any_of(
        r"decid(?:ed|e)|decision|instead(?:\ of)?|rather\ than|chose|choose|opted|go(?:ing)?\ with|switch(?:ed|ing)?\ to
        |trade-?off|in\ favou?r\ of|best\ (?:solution|approach|option)|better\ to|cleaner\ to|simplest|because|so\ that
        |the\ reason|due\ to|in\ order\ to|otherwise|to\ avoid|same\ pattern|since\ (?:it|we|the|this)",
        "决定|选择|采用|改用|改为|方案|而不是|取舍|因为|由于|以便",
    )
});

/// Words of a finding.
static FINDS: LazyLock<Regex> = LazyLock::new(|| {
    any_of(
        r"(?:the|real|actual)\ (?:issue|problem|bug|cause|error|reason|culprit)|root\ cause|turns\ out|requires?
        |only\ works?|(?:does|do|did|is|are|was|were|wo|ca|has|have|could|would)(?:n'?t|\ not)|cannot|missing
        |expects?|caused\ by|conflicts?|incompatible|deprecated|needs?|limited\ to|must|wrong|fails?|failed|broken",
        "原因|问题|发现|注意|根因|缺少|不支持",
    )
});

static INTENDS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?ix)^\W*(?:(?:ok(?:ay)?|good|great|perfect|now|alright|and|also|but|yes|right|exactly|done)[,.!]?\s+)*
        (?:(?:let\ me|let's|i'?ll|i\ will|i'?m\ going\ to|i\ should|we\ need\ to|starting|time\ to|now|next|then|first)\b
        |(?:runn|check|add|fix|updat|implement|look|read|writ|creat|start|mov|verify|committ|push|test)ing\b
        |接下来|现在|让我|我将|我要|我来|下面|先)",
    )
    .expect("a fixed pattern")
});

static INTERJECTION: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?ix)^\W*(?:(?:right|ok(?:ay)?|good|great|perfect|excellent|exactly|yes|ah|oh|hmm+|wait|well|alright|omfg|omg
        |dude|done|all\ done|fixed|awesome|got\ it|nice|sorry|sure|of\ course|no|expected|you'?re\ (?:absolutely\ )?right
        |(?:good|great|fair)\ (?:catch|point|question|idea))\b\s*(?:[,.!:…]+|—|-{1,2}|$)\s*)+",
    )
    .expect("a fixed pattern")
});

/// Messages that only say "go on", or stop the agent.
const NUDGES: &str = "\
    continue|go on|go ahead|yes|y|ok|okay|no|proceed|thanks|thank you|stop|sleep|please continue|keep going|next|\
    do it|sure|good|great|nice|hi|hello|继续|好|好的|是|可以|谢谢|嗯";

/// True if a person's text is a request.
pub(super) fn is_request(words: &str) -> bool {
    let bare = words.trim().trim_end_matches(['.', '!', '?', '。', '！']).to_lowercase();
    let is_command = bare.starts_with('/') && !bare.contains(' ') && bare.matches('/').count() == 1;
    let is_notice = bare.starts_with("[request interrupted") || bare.starts_with("caveat:");
    bare.chars().filter(|letter| letter.is_alphanumeric()).count() > 1
        && !NUDGES.split('|').any(|nudge| nudge == bare)
        && !is_command
        && !is_notice
}

/// A sentence without the interjections at its beginning.
pub(super) fn bare(sentence: &str) -> &str {
    INTERJECTION.find(sentence).map_or(sentence, |found| &sentence[found.end()..])
}

/// True if a sentence of a person is a rule.
pub(super) fn is_rule(sentence: &str) -> bool {
    let shouts = sentence.ends_with(['!', '！']) && sentence.split_whitespace().count() >= 4;
    let doubts = GUESSES.is_match(sentence) && !BINDS.is_match(sentence);
    !sentence.ends_with(['?', '？']) && !doubts && (shouts || INSISTS.is_match(sentence))
}

/// The rank of a point of a document as a requirement: 0 for limits and the definition of done, 1 for other rules and for
/// the files to change, 2 for the rest.
pub(super) fn demand(group: &str, line: &str) -> usize {
    static LIMITS: LazyLock<Regex> = LazyLock::new(|| {
        any_of(
            r"constraints?|rules?|scope|edge\ cases?|no-?gos?|requirements?|done|accept(?:ance)?|criteria|verification",
            "约束|规则|要求|验收|完成",
        )
    });
    static DEMANDS: LazyLock<Regex> = LazyLock::new(|| {
        any_of(
            r"must|never|always|do(?:n'?t|\ not)|only|no|not|avoid|exactly|required?|keep|without|forbidden|should",
            "必须|不要|不能|禁止|只能|不得|确保|保持",
        )
    });
    // Files to read, create or change show where the work is.
    static SOURCES: LazyLock<Regex> = LazyLock::new(|| any_of(r"files?|references?|sources?", "文件|参考"));
    match (LIMITS.is_match(group), SOURCES.is_match(group) || DEMANDS.is_match(line)) {
        (true, _) => 0,
        (false, true) => 1,
        (false, false) => 2,
    }
}

/// True for a sentence that announces an act of its speaker. “Now the page shows …” is no intention.
pub(super) fn is_intention(sentence: &str) -> bool {
    static STATES: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"(?i)^\W*(?:and )?now,? (?:the|both|all|it|it's|this|these|that|they|each|every|your?|there|when|with)\b.* |^现在的")
            .expect("a fixed pattern")
    });
    INTENDS.is_match(sentence) && !STATES.is_match(sentence)
}

/// The topic of a sentence of the model, if it states a reason or a finding.
pub(super) fn topic_of(sentence: &str) -> Option<Topic> {
    // A shorter sentence refers to something outside of it.
    let is_short = sentence.len() < SENSE_BYTES_MIN;
    if is_short || sentence.ends_with(['?', '？', ':', '：']) || is_intention(sentence) || GUESSES.is_match(sentence)
    {
        None
    } else if DECIDES.is_match(sentence) {
        Some(Topic::Decisions)
    } else if FINDS.is_match(sentence) {
        Some(Topic::Context)
    } else {
        None
    }
}

/// Calls `take` with each full sentence of a text, without headings and interjections; `take` returns false to stop.
pub(super) fn each_sentence(words: &str, mut take: impl FnMut(&str) -> bool) {
    for line in text::prose(super::commands::head(words, 12_000)) {
        if line.lead == Lead::Heading {
            continue;
        }
        let plain = text::plain(line.text);
        for sentence in text::sentences_of(&plain) {
            let sentence = bare(sentence);
            let says_something = sentence.split_whitespace().count() > 2 || sentence.chars().any(text::is_wide);
            if says_something && !take(sentence) {
                return;
            }
        }
    }
}

/// An excerpt of a text: its first sentences and points that are neither intentions, questions nor guesses, and do not only
/// lead to a list.
pub(super) fn excerpt(words: &str, limit: usize) -> String {
    let mut gist = String::new();
    each_sentence(words, |sentence| {
        let is_sure = !sentence.ends_with(['?', '？', ':', '：']) && !GUESSES.is_match(sentence);
        if is_sure && !is_intention(sentence) {
            if !gist.is_empty() {
                gist.push_str(if gist.ends_with(['.', '!', '。', '！', ':', '：']) { " " } else { "; " });
            }
            gist.push_str(&text::one_line(sentence));
        }
        gist.chars().count() < limit
    });
    text::clip(&gist, limit).trim_end_matches([':', '：']).to_owned()
}

/// A request on one line: its prose, point by point, without pasted code.
pub(super) fn request_line(words: &str) -> String {
    let mut line = String::new();
    static PICTURE: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r#"(?i)^['"]?[/~][^'"]*\.(?:png|jpe?g|gif|webp)['"]?$"#).expect("a fixed pattern"));
    for part in text::prose(super::commands::head(words, 8_000)) {
        if PICTURE.is_match(part.text) {
            continue;
        }
        if !line.is_empty() {
            let ended = line.ends_with(['.', '!', '?', ':', ';', ',', '。', '！', '？', '：']);
            line.push_str(if ended { " " } else { "; " });
        }
        line.push_str(&text::one_line(&text::plain(part.text)));
    }
    if line.is_empty() { text::one_line(words) } else { line }
}

/// The question at the end of a text.
pub(super) fn question(words: &str) -> Option<String> {
    let lines = text::prose(words);
    let line = lines.last().filter(|line| line.text.ends_with(['?', '？']))?;
    let plain = text::plain(line.text);
    text::sentences_of(&plain).last().map(|sentence| text::clip(sentence, 240))
}

/// True if a text ends with an announced act.
pub(super) fn ends_in_intention(words: &str) -> bool {
    let lines = text::prose(super::commands::tail(words, 2_000));
    let Some(line) = lines.last() else { return false };
    let plain = text::plain(line.text);
    line.text.ends_with([':', '：']) || text::sentences_of(&plain).last().is_some_and(|last| is_intention(bare(last)))
}

/// Words of a guess, or of politeness to the user.
static GUESSES: LazyLock<Regex> = LazyLock::new(|| {
    any_of(
        r"^if|maybe|perhaps|might|could\ be|i\ (?:bet|think|guess|suspect)|my\ guess|likely|probably|possibly|if\ you|sorry|seems?|hmm+
        |let\ me\ know|suggests",
        "可能|也许|大概|抱歉",
    )
});

/// A text without the sentences that guess, whose outcome is known by now, and those that announce an act.
pub(super) fn settled(words: &str) -> String {
    let sentences = text::sentences_of(words).into_iter();
    let settled = sentences.filter(|sentence| !GUESSES.is_match(sentence) && !is_intention(sentence));
    settled.collect::<Vec<_>>().join(" ")
}
