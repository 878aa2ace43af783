//! Qwen-Agent.
//!
//! It evaluates all messages before every request, counts them exactly, and truncates and omits without a model until
//! they fit. The algorithm was replaced in September 2025; both versions are here. Both include the behaviour of its
//! dialogue retrieval agent.

pub(in crate::policy) mod counted_texts;
pub(super) mod items;
pub(in crate::policy) mod newest_first;
pub mod parameters;
pub(in crate::policy) mod turns_and_steps;

use self::parameters::{CountedTexts, NoteEnd};
use crate::policy::bpe::Encoding;
use crate::policy::presets::preset::Preset;
use crate::policy::{
    CountPer, Counting, LengthUnit, LevelPolicy, Limit, MediaUnits, Omission, Policy, Retrieval, Step, TextUnits,
    Threshold, ViewStyle,
};

/// Sources of the values, in both versions.
const SOURCES: &[(&str, &str)] = &[
    ("preset", "this preset's name"),
    ("counting.unit", "Qwen-Agent: Python string length"),
    ("counting.text", "Qwen-Agent: qwen.tiktoken"),
    ("counting.units_per_token", "Qwen-Agent: every token counts one"),
    ("counting.rounding", "Qwen-Agent: tokens are whole"),
    ("counting.per", "Qwen-Agent: _count_tokens in _truncate_input_messages_roughly"),
    ("counting.media", "Qwen-Agent: media count as the note that names them"),
    ("counting.usage", "Longhand: Qwen-Agent does not look at reported usage"),
    ("trigger.auto", "Qwen-Agent: every request"),
    ("truncate", "Qwen-Agent truncates only what does not fit"),
    ("auto.threshold", "Qwen-Agent: DEFAULT_MAX_INPUT_TOKENS"),
    ("auto.notice", "Qwen-Agent says nothing"),
    ("auto.steps", "Qwen-Agent: _truncate_input_messages_roughly"),
    ("retrieval.budget_tokens", "Qwen-Agent: max_ref_token of its retrieval"),
    ("retrieval.passage_tokens", "Qwen-Agent: parser_page_size of its retrieval"),
    ("retrieval.query_units", "Qwen-Agent: MAX_TRUNCATED_QUERY_LENGTH"),
    ("retrieval.heading", "Longhand's wording"),
    ("view", "Qwen-Agent makes no summaries"),
    ("view.interrupted_text", "Longhand's wording"),
    ("guards", "Longhand: Qwen-Agent has no guard"),
];

const QUESTION: &str = "No model picks the question out of a long request, and none is asked before a search: its first and \
                        last 500 characters are searched for, in passages of what the view no longer shows. The retrieval \
                        agent has a model do so, and searches a file with all but the last message.";
const PASSAGES: &str = "Passages that have no word of a request stay hidden, whatever room there is, and a passage that does not \
                        fit is left out; Qwen-Agent shows everything where it fits, and truncates the last passage.";

/// `qwen-agent@old`: up to 0.0.29.
pub const OLD: Preset = Preset {
    name: "qwen-agent@old",
    description: "Qwen-Agent up to 0.0.29: keeps the newest messages that fit in 58000 tokens, and truncates long \
                  results on the way.",
    own_deviations: &[
        "What is truncated and left out is recorded once and stays so; Qwen-Agent decides anew before every request.",
        "A usage that the model reported says how full the window is; Qwen-Agent only counts.",
        "The last request stays, in the room that is left; Qwen-Agent lets it go when a later reply does not fit.",
        "What nobody has answered yet stays, with words in place of texts that do not fit.",
        "A result never parts from its call: a reply that does not fit leaves its calls behind when their results stay.",
        "A request that is truncated to nothing is left out; Qwen-Agent leaves an empty message.",
        "An assistant's message that does not fit ends the walk, as in the published code; an essay on it has code that goes on.",
        "Where Qwen-Agent refuses the messages, nothing is truncated.",
        "Thoughts stay with their message; Qwen-Agent loses them, and the name of a tool, when it truncates a message.",
        "Half a character is left out; Qwen-Agent writes a replacement character.",
        QUESTION,
        PASSAGES,
    ],
    sources: SOURCES,
    policy: old,
};

/// `qwen-agent@0.0.34`: from 0.0.30 on.
pub const V0_0_34: Preset = Preset {
    name: "qwen-agent@0.0.34",
    description: "Qwen-Agent: over 58000 tokens the oldest turns go first, then results, then steps in the middle, then \
                  words.",
    own_deviations: &[
        "What is truncated and left out is recorded once and stays so; Qwen-Agent decides anew before every request.",
        "A usage that the model reported says how full the window is; Qwen-Agent only counts.",
        "A request that nobody has answered is not left out with its turn; words replace it.",
        "Two requests in a row are truncated like any other; Qwen-Agent fails.",
        "A result never parts from its call: a call that would be truncated keeps its name and id and gets an empty \
         input.",
        "A message with media keeps them when its words are truncated; Qwen-Agent puts nothing there and fails later.",
        "Where Qwen-Agent refuses the messages, nothing is truncated.",
        "Thoughts stay with their message; Qwen-Agent loses them, and the name of a tool, when it truncates a message.",
        "Half a character is left out; Qwen-Agent writes a replacement character.",
        QUESTION,
        PASSAGES,
    ],
    sources: SOURCES,
    policy: v0_0_34,
};

/// The policy of `qwen-agent@old`.
pub fn old() -> Policy {
    policy(OLD.name, CountedTexts { calls: false, note: NoteEnd::Paragraph }, Omission::NewestFirst)
}

/// The policy of `qwen-agent@0.0.34`.
pub fn v0_0_34() -> Policy {
    policy(V0_0_34.name, CountedTexts { calls: true, note: NoteEnd::Line }, Omission::TurnsAndSteps)
}

fn policy(name: &str, texts: CountedTexts, omission: Omission) -> Policy {
    Policy {
        preset: name.to_owned(),
        counting: Counting {
            unit: LengthUnit::CodePoints,
            text: TextUnits::Bpe { encoding: Encoding::Qwen },
            units_per_token: 1,
            per: CountPer::Texts(texts),
            media: MediaUnits::all(0),
            ..Counting::default()
        },
        auto: Some(LevelPolicy::new(Threshold::above(Limit::Tokens(58_000)), vec![Step::Omit(omission)])),
        retrieval: Some(Retrieval {
            budget_tokens: 20_000,
            passage_tokens: 500,
            query_units: 1_000,
            heading: "From earlier in this conversation, what seems to bear on the request:".to_owned(),
        }),
        view: ViewStyle {
            interrupted_text: "[No result: this call was interrupted]".to_owned(),
            ..ViewStyle::default()
        },
        ..Policy::default()
    }
}
