//! The parameters of a policy: pure data, with its text form as JSON.
//!
//! A strategy reads its parameters here and has no others. Those of a strategy that a single agent uses are with it, in
//! the crate that supplies it (see [`strategy`](super::strategy)).

mod counting;
mod named;
mod omission;
mod prune;
mod section;
mod summary;
mod tail;
mod threshold;
mod truncate;
mod view;

pub use counting::{AttachedVocabulary, CountPer, Counting, LengthUnit, MediaUnits, Rounding, TextUnits, UsageCount};
pub use named::{NamedStrategy, Reader, Strategies};
pub use omission::{LastMessages, Omission};
pub(in crate::policy) use prune::PLACEHOLDER;
pub use prune::{
    Condition, Count, FailedOutputs, Hint, Keep, OfWindow, PartsAsWritten, Placeholder, Prune, Replacement, Target,
    Tools, Walk,
};
pub use section::{Bullet, Section, Topic};
pub use summary::{
    Attachments, Contradictions, FileText, FileTool, FileTools, PromptStyle, SplitTurn, Summarize, Summary,
    SummaryFormat, Transcript, TranscriptForm,
};
pub use tail::{Fraction, FractionBoundary, LargeResults, LastTurns, Recent, Requests, Tail};
pub use threshold::{Limit, ModelLimit, Threshold, WindowStep};
pub use truncate::{OutputEstimate, Truncate};
pub use view::{RESUME_TEXT, Retrieval, SummaryRole, ViewStyle};

use crate::model::compaction::Level;
use serde::{Deserialize, Serialize};

/// All parameters of compaction for one session.
///
/// The text form is JSON with these field names. Unknown fields are refused, so that a misspelt name is never ignored.
/// Fields with a default may be missing; what is stored and shown always has all of them, so that another default
/// changes no existing policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// The preset from which the policy was made, with its version: `opencode@seed`.
    pub preset: String,
    /// Version of the code that renders views under this policy, so that an old view keeps its bytes.
    pub render_version: u32,
    /// The conversion of text to tokens, for text without reported or trusted usage.
    pub counting: Counting,
    /// Conditions of automatic compaction.
    pub trigger: Trigger,
    /// Truncation of long tool outputs in every view; absent: none.
    pub truncate: Option<Truncate>,
    /// Maintenance: steps that run whenever they pay, at any context usage. The parameters of each step state when it
    /// pays.
    pub maintenance: Vec<PolicyStep>,
    /// The lowest level: applied first as the window fills.
    pub micro: Option<LevelPolicy>,
    /// The middle level: the only one of most agents.
    pub auto: Option<LevelPolicy>,
    /// The highest level, which a thorough compaction by hand applies too.
    pub deep: Option<LevelPolicy>,
    /// Retrieval of passages that the view no longer shows, by the text of the last request; absent: none.
    pub retrieval: Option<Retrieval>,
    /// Text of the user message that asks the model to continue after an automatic compaction interrupted a turn;
    /// absent: no such message. It is never added after a finished turn, nor after a request that has no reply yet.
    pub auto_continue: Option<String>,
    /// The presentation of a summary in a view.
    pub view: ViewStyle,
    /// The limits that prevent endless compaction.
    pub guards: Guards,
}

impl Default for Policy {
    /// A policy without steps, and without a name, which it needs to be valid.
    fn default() -> Self {
        Self {
            preset: String::new(),
            render_version: RENDER_VERSION,
            counting: Counting::default(),
            trigger: Trigger::default(),
            truncate: None,
            maintenance: Vec::new(),
            micro: None,
            auto: None,
            deep: None,
            retrieval: None,
            auto_continue: None,
            view: ViewStyle::default(),
            guards: Guards::default(),
        }
    }
}

impl Policy {
    /// The last summary step of a level; none without one.
    pub fn summarize(&self, level: Level) -> Option<&Summarize> {
        self.level(level)?.steps.iter().rev().find_map(|step| match step {
            PolicyStep::Summarize(rule) => Some(rule.as_ref()),
            PolicyStep::Prune(_) | PolicyStep::Omit(_) => None,
        })
    }

    /// A level of the policy, if it has that level.
    pub fn level(&self, level: Level) -> Option<&LevelPolicy> {
        match level {
            Level::Micro => self.micro.as_ref(),
            Level::Auto => self.auto.as_ref(),
            Level::Deep => self.deep.as_ref(),
        }
    }

    /// The levels of the policy, lowest first.
    pub fn levels(&self) -> impl DoubleEndedIterator<Item = (Level, &LevelPolicy)> {
        [Level::Micro, Level::Auto, Level::Deep].into_iter().filter_map(|level| Some((level, self.level(level)?)))
    }
}

/// Version of the code that renders views under a new policy.
pub const RENDER_VERSION: u32 = 1;

/// Maximum of every duration in a policy, in seconds: 30 days.
pub const WAIT_SECONDS_MAX: u32 = 30 * 24 * 60 * 60;

/// Maximum bytes of the task or of the rules that a policy gives to the summarizer; equal to the limit of instructions.
pub const PROMPT_BYTES_MAX: usize = 16 * 1024;

/// Conditions of automatic compaction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Trigger {
    /// Enables automatic compaction. Requests by hand always work.
    pub auto: bool,
    /// Treats a reply as failed with an overflow if its usage indicates one: the input exceeds the window, or fills the
    /// window and the reply is empty. Replies that report an overflow themselves always count.
    pub silent_overflow: bool,
    /// Treats a reply that ended because of its length, although it is shorter than the model may write, as one without
    /// enough room. The reply is omitted and the view is compacted, so that the request can be sent again.
    pub recovers_length: bool,
    /// Evaluates thresholds between runs only: not while a reply is written or waits for its tools, nor while results
    /// wait for a reply. Views over their window and reported overflows are handled at once.
    pub between_runs: bool,
}

impl Default for Trigger {
    /// Automatic, by thresholds and reported overflows, at any time.
    fn default() -> Self {
        Self { auto: true, silent_overflow: false, recovers_length: false, between_runs: false }
    }
}

/// A level of the policy: a threshold and the steps that follow from it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LevelPolicy {
    /// Tokens at which the level is due.
    pub threshold: Threshold,
    /// The notice to people.
    #[serde(default)]
    pub notice: Notice,
    /// The steps of one compaction, in order.
    pub steps: Vec<PolicyStep>,
    /// Skips the remaining steps once the view, measured again, is below the threshold.
    #[serde(default)]
    pub stop_when_enough: bool,
    /// The steps are alternatives: only one is applied, the first that brings the view below the threshold and is worth
    /// its cost by itself, or else the last. So a summary is not made of placeholders that came just before it.
    #[serde(default)]
    pub alternatives: bool,
}

/// The notice to people about a compaction.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Notice {
    /// No notice.
    #[default]
    None,
    /// A line after the compaction.
    Inform {
        /// The line; `{percent}` becomes the context usage at the start, in whole percent.
        text: String,
    },
    /// A question before the compaction. Without an answer, the compaction starts when the time is up.
    Confirm {
        /// The question; `{percent}` as in `Inform`.
        text: String,
        /// Seconds to wait for an answer.
        wait_seconds: u32,
    },
}

/// One step of a compaction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum PolicyStep {
    /// Replaces old tool outputs, reasoning or media by placeholders.
    Prune(Prune),
    /// Truncates and omits messages until the rest fits, without a model.
    Omit(Omission),
    /// Puts a summary in place of an old range.
    Summarize(Box<Summarize>),
}

/// Limits that prevent endless compaction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Guards {
    /// Minimum gain: tokens that an automatic compaction must free. With less, it is not started, or its summary is
    /// refused. Absent: a twentieth of the window. Prunes with a `minimum_tokens` of their own use only that. By hand:
    /// 1.
    pub minimum_gain_tokens: Option<i64>,
    /// Maximum cached tokens that a provider would have to read again per token freed. Prunes, truncations and
    /// omissions without a summary that cost more are skipped as long as the view fits its window. Absent: no limit.
    /// It is for providers with expensive input and cheap cached input.
    pub max_reread_per_freed: Option<u32>,
    /// Cooldown: seconds after a compaction started by a level, during which no level starts another one. It does not
    /// delay requests by hand or the compaction of a view over its window.
    pub cooldown_seconds: u32,
    /// After a compaction started by a level, the share of the window by which the view must grow before a level starts
    /// another one. It does not delay requests by hand or the compaction of a view over its window. 0: no such delay.
    /// With a very small share, whatever is written is enough, and a level is not applied to its own result.
    pub rearm_ratio: f64,
    /// Number of compactions that fail in a row (1 to 32) after which automatic ones stop …
    pub breaker_failures: u32,
    /// … until this number of user messages was written.
    pub breaker_turns: u32,
    /// Maximum attempts of one job, including the first.
    pub max_attempts: u32,
}

impl Default for Guards {
    /// Three attempts, a breaker after three failures for three turns, no delay, and the common minimum gain.
    fn default() -> Self {
        Self {
            minimum_gain_tokens: None,
            max_reread_per_freed: None,
            cooldown_seconds: 0,
            rearm_ratio: 0.0,
            breaker_failures: 3,
            breaker_turns: 3,
            max_attempts: 3,
        }
    }
}
