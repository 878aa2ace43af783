//! The check of the harness itself: questions arrive as they were written, and answers come back unaltered.
//!
//! It is also the example of a system: a peer in `peers/`, a list of packages, and this file.

use crate::generate::{Conversation, Profile};
use crate::harness::{Peer, PeerFailure, Run, System};
use crate::report::{Class, Reason, Report};
use longhand::policy::{LengthUnit, tokens, truncate};
use rand::Rng;
use serde_json::{Value, json};

/// Maximum number of conversations, enough to trust the wire, in runs of any size.
const COUNT_MAX: u64 = 200;

/// The wire to a peer in one language.
pub(crate) struct Wire {
    name: &'static str,
    /// The unit of a length in that language.
    unit: LengthUnit,
    /// The text of an error in that language.
    refusal: &'static str,
    classes: &'static [Class],
}

pub(crate) const NODE: Wire = Wire { name: "wire-node", unit: LengthUnit::Utf16, refusal: "no", classes: &CLASSES };
pub(crate) const PYTHON: Wire =
    Wire { name: "wire-python", unit: LengthUnit::CodePoints, refusal: "ValueError: no", classes: &[] };

static CLASSES: [Class; 1] = [Class {
    name: "a character stays whole",
    reason: Reason::InvalidText,
    explanation: "JavaScript cuts between the halves of a surrogate pair; we leave the whole character out.",
    test: ("crates/core/src/policy/truncate.rs", "a_character_is_never_split"),
}];

impl System for Wire {
    fn name(&self) -> &'static str {
        self.name
    }

    fn classes(&self) -> &'static [Class] {
        self.classes
    }

    fn checks_the_wire(&self) -> bool {
        true
    }

    fn run(&self, peer: &mut Peer, run: Run<'_>, report: &mut Report) -> Result<(), PeerFailure> {
        let run = Run { count: run.count.min(COUNT_MAX), ..run };
        for batch in run.batches() {
            let questions: Vec<Question> = batch.map(|index| self.question(run.seed, index)).collect();
            for (function, ours) in [
                ("echo", (|_, question| question.input.clone()) as fn(&Self, &Question) -> Value),
                ("lengths", Self::lengths),
                ("heads", Self::heads),
                ("refuse", |wire, _| json!({ "error": wire.refusal })),
            ] {
                let calls = questions.iter().map(|question| (function, question.input.clone())).collect();
                for (question, theirs) in questions.iter().zip(peer.call_all(calls)?) {
                    let index = question.conversation.index;
                    report.compare(function, index, &question.input, &ours(self, question), &theirs, explain);
                }
            }
        }
        Ok(())
    }
}

/// One conversation, and the question about it.
struct Question {
    conversation: Conversation,
    units: usize,
    input: Value,
}

impl Wire {
    fn question(&self, seed: u64, index: u64) -> Question {
        let conversation = Conversation::generate(seed, index, &Profile::FULL);
        let units = conversation.dice("units").random_range(0..100);
        let input = json!({ "texts": conversation.texts(), "units": units });
        Question { conversation, units, input }
    }

    fn lengths(&self, question: &Question) -> Value {
        question.conversation.texts().iter().map(|text| tokens::length(self.unit, text)).collect()
    }

    fn heads(&self, question: &Question) -> Value {
        let head = |text: &&str| truncate::prefix(self.unit, text, question.units).0.to_owned();
        question.conversation.texts().iter().map(head).collect()
    }
}

/// Every text is the same, except for half a character at the end of some texts of the peer.
fn explain(ours: &Value, theirs: &Value) -> Option<&'static Class> {
    let (ours, theirs) = (ours.as_array()?, theirs.as_array()?);
    let same_but_for_half = |(ours, theirs): (&Value, &Value)| match (ours.as_str(), theirs.as_str()) {
        (Some(ours), Some(theirs)) => ours == theirs || theirs.strip_suffix('\u{fffd}') == Some(ours),
        _ => false,
    };
    (ours.len() == theirs.len() && ours.iter().zip(theirs).all(same_but_for_half)).then_some(&CLASSES[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_half_a_character_at_the_end_is_explained() {
        for (ours, theirs, explained) in [
            (json!(["a", "b"]), json!(["a\u{fffd}", "b"]), true),
            (json!(["a"]), json!(["a\u{fffd}b"]), false),
            (json!(["a"]), json!(["ab"]), false),
            (json!(["a"]), json!(["a\u{fffd}", "b"]), false),
            (json!([1]), json!([2]), false),
            (json!(["a"]), json!({ "error": "no" }), false),
        ] {
            assert_eq!(explain(&ours, &theirs).is_some(), explained, "{ours} {theirs}");
        }
    }
}
