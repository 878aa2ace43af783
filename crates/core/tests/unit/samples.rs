//! Policies for tests: those of the presets. The strategies that only one agent has are in another crate; here each has a
//! stand-in that keeps its parameters and does nothing.

use crate::model::ids::PartId;
use crate::model::message::Role;
use crate::model::truncation::{Removals, Truncation};
use crate::model::usage::ModelWindow;
use crate::model::view::SourceMessage;
use crate::policy::preset::Preset;
use crate::policy::preset_file::{Error, parse};
use crate::policy::strategy::{CountStrategy, ExcerptStrategy, OmissionBound, OmissionStrategy, Parameters};
use crate::policy::tokens::text_units;
use crate::policy::tokens::units::ShownPart;
use crate::policy::{Counting, LengthUnit, Policy, Reader, Strategies};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// The policy of a preset, by its name with its version. Panics if there is none.
pub(crate) fn policy(name: &str) -> Policy {
    preset(name).policy()
}

pub(crate) fn preset(name: &str) -> Preset {
    STRATEGIES.supply();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../presets/src/{}.toml", name.replace('@', "-")));
    let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let preset = match parse(&text, &[]) {
        Err(Error::Base(base)) => parse(&text, &[preset(&base)]),
        read => read,
    };
    preset.unwrap_or_else(|error| panic!("{name}: {error}"))
}

pub(crate) fn all() -> Vec<Preset> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../presets/src");
    let files = fs::read_dir(folder).expect("the presets").map(|entry| entry.expect("an entry").path());
    let texts = files.filter(|file| file.extension().is_some_and(|extension| extension == "toml"));
    let name = |text: String| text.split('"').nth(1).expect("a name").to_owned();
    let mut names: Vec<String> = texts.map(|file| name(fs::read_to_string(file).expect("a preset"))).collect();
    names.sort();
    names.iter().map(|name| preset(name)).collect()
}

/// A strategy that keeps its parameters.
macro_rules! stand_in {
    ($strategy:ident, $name:literal) => {
        #[derive(Debug, PartialEq, Serialize, Deserialize)]
        struct $strategy(Value);

        impl Parameters for $strategy {
            const NAME: &'static str = $name;
        }
    };
}

macro_rules! omissions {
    ($($strategy:ident $name:literal $bound:expr),*) => {$(
        stand_in!($strategy, $name);

        impl OmissionStrategy for $strategy {
            fn removals(&self, _policy: &Policy, _window: &ModelWindow, _messages: &[SourceMessage]) -> Removals {
                Removals::default()
            }

            fn bound(&self) -> OmissionBound {
                $bound
            }
        }
    )*};
}

macro_rules! counts {
    ($($strategy:ident $name:literal),*) => {$(
        stand_in!($strategy, $name);

        impl CountStrategy for $strategy {
            fn units(&self, counting: &Counting, _role: Role, parts: &[ShownPart<'_>]) -> i64 {
                texts(parts, &|text| text_units(counting, text))
            }

            fn units_by(
                &self,
                _counting: &Counting,
                _role: Role,
                parts: &[ShownPart<'_>],
                size: &dyn Fn(&str) -> i64,
            ) -> Option<i64> {
                Some(texts(parts, size))
            }
        }
    )*};
}

omissions!(
    OutputBudget "output_budget" OmissionBound::Parts,
    PerRole "per_role" OmissionBound::Limit(1.0),
    Groups "groups" OmissionBound::Limit(1.0),
    MiddleOut "middle_out" OmissionBound::Messages(320),
    Strip "strip" OmissionBound::Parts,
    TurnsAndSteps "turns_and_steps" OmissionBound::Limit(1.0),
    NewestFirst "newest_first" OmissionBound::Limit(1.0),
    Suffix "suffix" OmissionBound::Limit(1.0)
);
counts!(Chat "chat", Texts "texts", Envelope "envelope");
stand_in!(Excerpt, "excerpt");

impl ExcerptStrategy for Excerpt {
    fn truncation(&self, _unit: LengthUnit, _tool: &str, part: PartId, output: &str) -> Truncation {
        Truncation { after: format!("[{part}]"), head: output.len().min(100), ..Truncation::default() }
    }
}

/// Units of a message besides its texts.
const MESSAGE_UNITS: i64 = 30;

/// The size of a message.
fn texts(parts: &[ShownPart<'_>], size: &dyn Fn(&str) -> i64) -> i64 {
    let of = |part: &ShownPart<'_>| match part {
        ShownPart::Text(text) => size(text),
        ShownPart::Call { input_json, .. } => size(input_json),
        ShownPart::Result { output, .. } => size(output),
        ShownPart::Reasoning(_) | ShownPart::Media(_) | ShownPart::Opaque(_) => 0,
    };
    parts.iter().map(of).fold(MESSAGE_UNITS, i64::saturating_add)
}

static STRATEGIES: Strategies = Strategies {
    omissions: &[
        Reader::omission::<OutputBudget>(),
        Reader::omission::<PerRole>(),
        Reader::omission::<Groups>(),
        Reader::omission::<MiddleOut>(),
        Reader::omission::<Strip>(),
        Reader::omission::<TurnsAndSteps>(),
        Reader::omission::<NewestFirst>(),
        Reader::omission::<Suffix>(),
    ],
    counts: &[Reader::count::<Chat>(), Reader::count::<Texts>(), Reader::count::<Envelope>()],
    excerpts: &[Reader::excerpt::<Excerpt>()],
};
