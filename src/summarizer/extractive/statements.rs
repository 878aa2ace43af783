//! Statements: sentences that say what was wanted, decided, found, done or meant to be done.
//!
//! They are told by the words people and models use for these things, in English and in Chinese. A sentence that says
//! several things goes where it says the most.

use super::digest::{Digest, Said, Speaker};
use super::item::Item;
use super::text::{self, Lead};
use crate::policy::Topic;
use regex::Regex;
use std::sync::LazyLock;

/// Any of some words, and any of some words of a script without blanks.
fn any_of(words: &[&str], wide: &[&str]) -> Regex {
    let wide: String = wide.iter().map(|word| format!("|{word}")).collect();
    Regex::new(&format!(
        r"(?i)\b(?:{}){wide}",
        words.iter().map(|word| format!(r"{word}\b")).collect::<Vec<_>>().join("|")
    ))
    .expect("a fixed pattern")
}

static INSISTS: LazyLock<Regex> = LazyLock::new(|| {
    let english = [
        "must",
        "mustn'?t",
        "never",
        "always",
        "don'?t",
        "do not",
        "only",
        "prefer(?:ably)?",
        "make sure",
        "ensure",
        "avoid",
        "important",
        "required?",
        "under no",
        "no matter",
        "at most",
        "at least",
        "stick to",
        "remember",
        "be careful",
        "instead of",
        "rather than",
        "not allowed",
        "forbidden",
        "shouldn'?t",
        "should not",
        "cannot",
        "no need to",
        "stop (?:using|doing|adding)",
        "keep .{1,30} (?:as is|unchanged|intact|simple|minimal|same)",
    ];
    let chinese = [
        "必须",
        "不要",
        "不能",
        "禁止",
        "务必",
        "一定要",
        "只能",
        "只要",
        "只用",
        "优先",
        "尽量",
        "避免",
        "不得",
        "切勿",
        "确保",
        "记住",
        "别再",
        "不允许",
        "严禁",
    ];
    any_of(&english, &chinese)
});

static WISHES: LazyLock<Regex> =
    LazyLock::new(|| any_of(&["should", "please use", "use .{1,40} for", "keep"], &["应该", "希望", "请用", "保持"]));

/// What looks like insisting and is wondering.
static WONDERS: LazyLock<Regex> = LazyLock::new(|| {
    let verbs = "th?in?k?|know|understand|see|get|believe|remember|work|even|like|care|mind|have";
    any_of(
        &[
            &format!(r"(?:i|we|you|they|it|that) (?:really |still |also )?(?:don'?t|do not) (?:really )?(?:{verbs})"),
            "(?:doesn'?t|didn'?t|don'?t) (?:seem|work|look)",
            "i (?:think|guess|suppose|wonder)",
            "only (?:one|two|a few)",
        ],
        &[],
    )
});

static DECIDES: LazyLock<Regex> = LazyLock::new(|| {
    let english = [
        "decided",
        "decision",
        "instead of",
        "rather than",
        "chose",
        "choose",
        "opted",
        "going with",
        "go with",
        "switch(?:ed|ing)? to",
        "trade-?off",
        "in favou?r of",
        "(?:i|we)(?:'ll| will) use `",
        "best (?:solution|approach|option)",
        "better to",
        "cleaner to",
        "simplest",
        "replac(?:ed|ing) .{1,60} with",
        "moved? .{1,60} (?:in)?to",
        "renamed",
    ];
    any_of(&english, &["决定", "选择", "采用", "改用", "改为", "方案", "而不是", "取舍"])
});

static REASONS: LazyLock<Regex> = LazyLock::new(|| {
    let english = [
        "because",
        "since",
        "so that",
        "the reason",
        "due to",
        "in order to",
        "otherwise",
        "to avoid",
        "matches? the",
        "following the",
        "same pattern",
    ];
    any_of(&english, &["因为", "由于", "以便", "所以"])
});

static FINDS: LazyLock<Regex> = LazyLock::new(|| {
    let english = [
        "the (?:issue|problem|bug|cause|error|reason|culprit)",
        "root cause",
        "turns out",
        "requires?",
        "only works",
        "note that",
        "(?:doesn'?t|does not|don'?t) (?:support|exist|handle|have|allow|render)",
        "expects?",
        "returns?",
        "(?:is|are) missing",
        "isn'?t (?:configured|available|supported|defined)",
        "caused by",
        "conflicts?",
        "incompatible",
        "deprecated",
        "needs?",
        "default(?:s| is)",
        "limited to",
        "must be",
        "can'?t (?:access|see|use|find)",
        "already",
    ];
    any_of(&english, &["原因", "问题", "发现", "注意", "根因", "缺少", "不支持"])
});

static CONCLUDES: LazyLock<Regex> = LazyLock::new(|| {
    let english = [
        "(?:is|are|all|was|were) done",
        "completed",
        "finished",
        "implemented",
        "added",
        "fixed",
        "created",
        "updated",
        "removed",
        "ported",
        "converted",
        "pass(?:es|ed|ing)?",
        "all green",
        "committed",
        "pushed",
        "works? (?:now|correctly)",
        "working",
        "successfully",
        "resolved",
        "closed",
        "migrated",
        "refactored",
        "ran cleanly",
        "reverted",
        "installed",
        "published",
        "verified",
        "wrote",
        "written",
        "deleted",
        "replaced",
        "clean compile",
    ];
    any_of(&english, &["完成", "已经", "已[修添更删创实]", "修复", "通过", "实现了", "成功"])
});

static INTENDS: LazyLock<Regex> = LazyLock::new(|| {
    let leads = "(?:ok(?:ay)?|good|great|perfect|now|alright|and)[,.!]? ";
    let verbs = "let me|let's|i'?ll|i will|i need to|i'?m going to|i should|we need to|need to|starting|time to|\
        now|next|then|first";
    let chinese = "接下来|现在|让我|我将|我要|我来|下面|先";
    Regex::new(&format!(r"(?i)^\W*(?:{leads})?(?:(?:{verbs})\b|{chinese})")).expect("a fixed pattern")
});

static LEADS_IN: LazyLock<Regex> = LazyLock::new(|| {
    let fillers =
        "ok(?:ay)?|good|great|perfect|excellent|alright|right|and|now|next|then|first|finally|also|so|expected|done";
    let verbs = "let me|let's|i'?ll|i will|i need to|i should|i'?m going to|we need to|need to";
    let chinese = "接下来|现在|让我|我将|我要|我来|下面";
    Regex::new(&format!(
        r"(?i)^\W*(?:(?:{fillers})\b[\s,.!—:-]*)*(?:(?:{verbs})\s+)?(?:(?:{fillers}|just|quickly)\s+)*(?:{chinese})*"
    ))
    .expect("a fixed pattern")
});

static INTERJECTION: LazyLock<Regex> = LazyLock::new(|| {
    let words = "right|ok(?:ay)?|good|great|perfect|excellent|exactly|yes|ah|oh|hmm+|wait|well|alright|omfg|omg|dude";
    Regex::new(&format!(r"(?i)^(?:{words})\b\s*(?:[,.!:…]+|—|-{{1,2}})\s+")).expect("a fixed pattern")
});

static PLANS: LazyLock<Regex> = LazyLock::new(|| {
    let english = [
        "next steps?",
        "remaining",
        "still (?:need|needs|have|has|to do|missing|open|left)",
        "to-?do",
        "follow-?ups?",
        "left to do",
        "not yet",
        "yet to",
        "afterwards",
        "upcoming",
        "then i'?ll",
        "new (?:tasks?|items?|issues?)",
    ];
    any_of(&english, &["下一步", "待办", "剩余", "还需", "尚未", "后续", "未完成"])
});

static LEANS: LazyLock<Regex> = LazyLock::new(|| {
    let words = "these|they|this|that|it|it's|that's|those|both|so|but|which|still|you|also|even|other";
    Regex::new(&format!(r"(?i)^\W*(?:{words})\b|^(?:这|那|它|所以|但)")).expect("a fixed pattern")
});

static HEDGES: LazyLock<Regex> = LazyLock::new(|| {
    let english = [
        "maybe",
        "perhaps",
        "might",
        "could be",
        "i (?:bet|think|guess|suspect)",
        "likely",
        "probably",
        "possibly",
        "if you",
        "you'?re right",
        "sorry",
        "i'?m an? ",
        "should (?:be|work|pick|look|now)",
        "seems?",
        "expected",
        "let me know",
        "hmm+",
    ];
    any_of(&english, &["可能", "也许", "大概", "应该是", "抱歉"])
});

static STUCK: LazyLock<Regex> = LazyLock::new(|| {
    let english = [
        "blocked",
        "blocker",
        "stuck",
        "waiting (?:for|on)",
        "can(?:'t|not) (?:proceed|continue|reach)",
        "still fail(?:s|ing)?",
        "unable to",
        "need (?:your|you to)",
        "unresolved",
    ];
    any_of(&english, &["阻塞", "卡住", "等待", "无法继续"])
});

static HOLLOW: LazyLock<Regex> = LazyLock::new(|| {
    let words = [
        "done",
        "perfect",
        "great",
        "excellent",
        "good",
        "nice",
        "all done",
        "awesome",
        "got it",
        "you'?re (?:absolutely )?right",
        "good (?:catch|point|question|idea)",
        "great (?:idea|question|catch)",
        "fair point",
        "exactly",
        "ah",
        "hmm+",
        "wait",
        "ok(?:ay)?",
        "sorry",
        "sure",
        "of course",
        "yes",
        "no",
        "right",
        "summary",
        "here'?s (?:what i did|a summary|the summary)[^.:!]*",
        "everything (?:is working|works|compiles)[^.!]*",
    ];
    Regex::new(&format!(r"(?i)^\W*(?:(?:{})\s*[.!:,—-]*\s*)+$", words.join("|"))).expect("a fixed pattern")
});

/// What a sentence is, at most one thing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Sense {
    /// Where it belongs.
    pub(super) topic: Topic,
    /// How clearly it says so, up to 1.
    pub(super) strength: f64,
}

/// Whether a sentence only keeps the conversation going.
pub(super) fn is_hollow(sentence: &str) -> bool {
    HOLLOW.is_match(sentence)
}

/// Whether a sentence says what its speaker is about to do.
pub(super) fn is_intention(sentence: &str) -> bool {
    INTENDS.is_match(sentence)
}

/// What a sentence of intention is about: `Now let me add the button:` is about `Add the button`.
pub(super) fn intended(sentence: &str) -> String {
    let bare = LEADS_IN.replace(sentence, "");
    let bare = bare.trim().trim_end_matches([':', '：', '.']).trim_end();
    // A name keeps its spelling.
    let first_word = bare.split(' ').next().unwrap_or_default();
    if !first_word.chars().all(|letter| letter.is_ascii_lowercase()) {
        return bare.to_owned();
    }
    let mut letters = bare.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// What a sentence of the user says beside what it asks for.
fn sense_of_user(sentence: &str) -> Option<Sense> {
    if WONDERS.is_match(sentence) || sentence.ends_with(['?', '？']) {
        return None;
    }
    let rule = |strength| Some(Sense { topic: Topic::Constraints, strength });
    if INSISTS.is_match(sentence) {
        return rule(1.0);
    }
    if sentence.ends_with(['!', '！']) && sentence.split_whitespace().count() >= 4 {
        return rule(0.6);
    }
    if WISHES.is_match(sentence) { rule(0.35) } else { None }
}

/// What a sentence of the model says.
fn sense_of_assistant(sentence: &str) -> Option<Sense> {
    if sentence.ends_with(['?', '？']) {
        return None;
    }
    if STUCK.is_match(sentence) && !INTENDS.is_match(sentence) {
        return Some(Sense { topic: Topic::Blocked, strength: 0.6 });
    }
    if PLANS.is_match(sentence) {
        return Some(Sense { topic: Topic::NextSteps, strength: 0.6 });
    }
    let reason = f64::from(u8::from(REASONS.is_match(sentence)));
    let intends = INTENDS.is_match(sentence);
    if DECIDES.is_match(sentence) {
        let strength = if intends { 0.35 } else { 0.6 };
        return Some(Sense { topic: Topic::Decisions, strength: strength + 0.4 * reason });
    }
    if FINDS.is_match(sentence) && !intends {
        return Some(Sense { topic: Topic::Context, strength: 0.6 + 0.2 * reason });
    }
    if reason > 0.0 && !intends {
        return Some(Sense { topic: Topic::Decisions, strength: 0.4 });
    }
    (CONCLUDES.is_match(sentence) && !intends).then_some(Sense { topic: Topic::Done, strength: 0.6 })
}

/// How exact a sentence is: names and numbers carry more than general words, and guesses less than findings.
pub(super) fn substance(sentence: &str) -> f64 {
    let certainty = if HEDGES.is_match(sentence) { 0.35 } else { 1.0 };
    let quoted = sentence.matches('`').count().min(6) as f64 / 12.0;
    let length = sentence.chars().map(|letter| if text::is_wide(letter) { 3 } else { 1 }).sum::<usize>();
    let fullness = if length < 20 {
        0.1
    } else if length < 28 {
        0.25
    } else if length < 48 {
        0.7
    } else {
        1.0
    };
    // What begins with a pronoun needs the sentence before it.
    let independence = if LEANS.is_match(sentence) { 0.5 } else { 1.0 };
    certainty * independence * (fullness + quoted)
}

/// Collects statements out of everything that was said.
pub(super) fn collect(digest: &Digest<'_>, items: &mut Vec<Item>) {
    for said in &digest.said {
        match said.speaker {
            Speaker::User => collect_from(digest, said, &sense_of_user, items),
            Speaker::Assistant => collect_from(digest, said, &sense_of_assistant, items),
            Speaker::Thought => {}
        }
    }
}

fn collect_from(digest: &Digest<'_>, said: &Said<'_>, sense: &dyn Fn(&str) -> Option<Sense>, items: &mut Vec<Item>) {
    /// Longer texts are documents that somebody pasted; their first part says what they are.
    const READ_BYTES: usize = 12_000;
    let recency = digest.recency(said.at);
    for line in text::prose(super::commands::head(&said.text, READ_BYTES)) {
        if line.lead == Lead::Heading || line.text.len() < 8 {
            continue;
        }
        let plain = text::plain(line.text);
        for sentence in text::sentences_of(&plain) {
            let sentence = INTERJECTION.find(sentence).map_or(sentence, |found| &sentence[found.end()..]);
            let letters = sentence.chars().count();
            // What ends with a colon announces something that is not part of the sentence.
            if !(8..=400).contains(&letters) || is_hollow(sentence) || sentence.ends_with([':', '：']) {
                continue;
            }
            let Some(Sense { topic, strength }) = sense(sentence) else { continue };
            let score =
                strength * substance(sentence) * (weight_of_age(topic) + (1.0 - weight_of_age(topic)) * recency);
            items.push(Item::new(topic, &text::clip(sentence, 260), score, said.at));
        }
    }
}

/// How much of a statement's weight age cannot take: what a user insisted on holds until it is taken back, while what
/// came next or stood in the way long ago is most likely over.
fn weight_of_age(topic: Topic) -> f64 {
    match topic {
        Topic::Goal | Topic::Constraints => 0.7,
        Topic::Decisions => 0.35,
        Topic::Context | Topic::Done | Topic::Files => 0.2,
        Topic::InProgress | Topic::Blocked | Topic::NextSteps => 0.0,
    }
}

/// What a closing text comes down to: its first sentences and points that say something.
pub(super) fn gist(words: &str, limit: usize) -> Option<String> {
    let mut gist = String::new();
    for line in text::prose(super::commands::head(words, 6_000)) {
        if line.lead == Lead::Heading {
            continue;
        }
        let plain = text::plain(line.text);
        for sentence in text::sentences_of(&plain) {
            if is_hollow(sentence) || sentence.ends_with([':', '：', '?', '？']) || is_intention(sentence) {
                continue;
            }
            let sentence = text::one_line(sentence);
            if sentence.split(' ').count() < 3 && !sentence.chars().any(text::is_wide) {
                continue;
            }
            if !gist.is_empty() {
                gist.push_str(if gist.ends_with(['.', '!', '。', '！']) { " " } else { "; " });
            }
            gist.push_str(&sentence);
            if gist.chars().count() >= limit {
                return Some(text::clip(&gist, limit));
            }
        }
    }
    (gist.chars().count() >= 8).then_some(gist)
}
