//! What the strategies do that a policy names and that a crate above this one has: those that a single agent uses.

use super::tokens::units::ShownPart;
use super::violation::Check;
use super::{CountPer, Counting, LengthUnit, NamedStrategy, Omission, Policy, Reader, Replacement};
use crate::model::ids::PartId;
use crate::model::message::Role;
use crate::model::part::PartBody;
use crate::model::truncation::{Removals, Truncation};
use crate::model::usage::ModelWindow;
use crate::model::view::SourceMessage;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::any::Any;

/// The parameters of a strategy, by whose type it is known; a type without fields for a strategy without parameters.
pub trait Parameters: Any + DeserializeOwned + Send + Serialize + Sync {
    /// The name in the text of a policy.
    const NAME: &'static str;

    /// Adds a violation to `check` for each invalid parameter. `path` is that of the parameters.
    fn check(&self, _check: &mut Check, _path: &str) {}
}

/// A strategy with its parameters. Every type with [`Parameters`] is one.
pub trait Strategy: Any {
    /// Adds a violation to `check` for each invalid parameter of the strategy at a path.
    fn check(&self, check: &mut Check, path: &str);
    /// The parameters as their type.
    fn as_any(&self) -> &dyn Any;
}

impl<P: Parameters> Strategy for P {
    fn check(&self, check: &mut Check, path: &str) {
        Parameters::check(self, check, &format!("{path}.{}", P::NAME));
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Truncates and omits messages.
pub trait OmissionStrategy: Strategy + Send + Sync {
    /// The truncations and omissions in the inline messages of a view. They never separate a result from its call and
    /// never touch an open message or a running call; the last request and unanswered messages stay, truncated at most.
    fn removals(&self, policy: &Policy, window: &ModelWindow, messages: &[SourceMessage]) -> Removals;

    /// What a view must exceed before the strategy can have anything to do.
    fn bound(&self) -> OmissionBound;

    /// True if the strategy may truncate a part that no mark has shortened.
    fn applies_to(&self, _body: &PartBody) -> bool {
        false
    }
}

/// What a view must exceed before an omission can have anything to do.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum OmissionBound {
    /// Nothing but the parts to which the strategy applies.
    Parts,
    /// A number of messages. Only it decides, so that the evaluation is fast.
    Messages(u32),
    /// A share of the limit of the main level. The strategy frees what exceeds it, and no more.
    Limit(f64),
}

/// Counts the units of messages.
pub trait CountStrategy: Strategy + Send + Sync {
    /// The units of a message with these parts, of which there is one at least.
    fn units(&self, counting: &Counting, role: Role, parts: &[ShownPart<'_>]) -> i64;

    /// The same with another size of texts; none if it follows from the texts alone.
    fn units_by(
        &self,
        _counting: &Counting,
        _role: Role,
        _parts: &[ShownPart<'_>],
        _size: &dyn Fn(&str) -> i64,
    ) -> Option<i64> {
        None
    }

    /// Units of a message besides its texts.
    fn message_units(&self) -> i64 {
        0
    }

    /// Units of a list of messages besides them.
    fn list_units(&self) -> i64 {
        0
    }
}

/// Shortens an output of a tool to an excerpt.
pub trait ExcerptStrategy: Strategy + Send + Sync {
    /// The truncation of an output. `tool` is empty if its call is not known.
    fn truncation(&self, unit: LengthUnit, tool: &str, part: PartId, output: &str) -> Truncation;
}

/// Gives a list of alternatives its supplied strategies: how they are read, made of their parameters, and found.
macro_rules! supplied {
    ($place:ident, $kind:ident, $reader:ident) => {
        impl Reader {
            /// How a strategy of this kind is read.
            pub const fn $reader<P: $kind + Parameters>() -> Self {
                fn read<P: $kind + Parameters>(parameters: serde_json::Value) -> serde_json::Result<NamedStrategy> {
                    let strategy: P = serde_json::from_value(parameters)?;
                    named(strategy, |strategy| -> Box<dyn $kind> { Box::new(strategy) })
                }
                Self { name: P::NAME, read: read::<P> }
            }
        }

        impl NamedStrategy {
            /// The code of a strategy of this kind.
            pub(in crate::policy) fn $reader(&self) -> Option<&dyn $kind> {
                self.code::<Box<dyn $kind>>().map(Box::as_ref)
            }
        }

        impl<P: $kind + Parameters> From<P> for $place {
            /// Panics if the parameters are no JSON.
            fn from(strategy: P) -> Self {
                let named = named(strategy, |strategy| -> Box<dyn $kind> { Box::new(strategy) });
                Self::Named(named.expect("parameters are JSON"))
            }
        }

        impl $place {
            /// The parameters of a supplied strategy, if it is this one.
            pub fn parameters<P: Parameters>(&self) -> Option<&P> {
                match self {
                    Self::Named(named) => named.$reader()?.as_any().downcast_ref(),
                    _ => None,
                }
            }
        }
    };
}

fn named<P: Parameters, S: ?Sized + Any + Send + Sync>(
    strategy: P,
    code: impl Fn(P) -> Box<S>,
) -> serde_json::Result<NamedStrategy> {
    let parameters = serde_json::to_value(&strategy)?;
    Ok(NamedStrategy::new(P::NAME, parameters, code(strategy)))
}

supplied!(Omission, OmissionStrategy, omission);
supplied!(CountPer, CountStrategy, count);
supplied!(Replacement, ExcerptStrategy, excerpt);
