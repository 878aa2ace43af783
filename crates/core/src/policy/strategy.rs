//! Strategies that a policy names and that a crate above this one has: those that a single agent uses.
//!
//! That crate supplies them once, as a table of names and readers; the text of a policy names them beside the general
//! ones. A text that names a strategy which nobody supplied is refused.

use super::tokens::units::Shown;
use super::violation::Check;
use super::{CountPer, Counting, LengthUnit, Omission, Policy, Replacement};
use crate::model::ids::PartId;
use crate::model::message::Role;
use crate::model::part::PartBody;
use crate::model::truncation::{Removals, Truncation};
use crate::model::usage::ModelWindow;
use crate::model::view::SourceMessage;
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use std::any::Any;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

/// The parameters of a strategy, by whose type it is known; a type without fields for a strategy without parameters.
pub trait Parameters: Any + DeserializeOwned + fmt::Debug + PartialEq + Send + Serialize + Sync {
    /// The name in the text of a policy.
    const NAME: &'static str;

    /// Adds a violation to `check` for each invalid parameter. `path` is that of the parameters.
    fn check(&self, _check: &mut Check, _path: &str) {}
}

/// A strategy with its parameters. Every type with [`Parameters`] is one.
pub trait Strategy: fmt::Debug + Send + Sync {
    /// The name in the text of a policy.
    fn name(&self) -> &'static str;
    /// The parameters in the text of a policy; null without any.
    fn parameters(&self) -> Value;
    /// Adds a violation to `check` for each invalid parameter of the strategy at a path.
    fn check(&self, check: &mut Check, path: &str);
    /// The parameters as their type.
    fn as_any(&self) -> &dyn Any;
    /// True if the other one is the same strategy with the same parameters.
    fn equals(&self, other: &dyn Any) -> bool;
}

impl<P: Parameters> Strategy for P {
    fn name(&self) -> &'static str {
        P::NAME
    }

    fn parameters(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    fn check(&self, check: &mut Check, path: &str) {
        Parameters::check(self, check, &format!("{path}.{}", P::NAME));
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn equals(&self, other: &dyn Any) -> bool {
        other.downcast_ref() == Some(self)
    }
}

/// Truncates and omits messages.
pub trait OmissionStrategy: Strategy {
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
pub trait CountStrategy: Strategy {
    /// The units of a message with these parts, of which there is one at least.
    fn units(&self, counting: &Counting, role: Role, parts: &[Shown<'_>]) -> i64;

    /// The same with another size of texts; none if it follows from the texts alone.
    fn units_by(
        &self,
        _counting: &Counting,
        _role: Role,
        _parts: &[Shown<'_>],
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
pub trait ExcerptStrategy: Strategy {
    /// The truncation of an output. `tool` is empty if its call is not known.
    fn truncation(&self, unit: LengthUnit, tool: &str, part: PartId, output: &str) -> Truncation;
}

/// A strategy that was supplied. In the text of a policy it is its name, or an object with its name and parameters.
pub struct Named<S: ?Sized>(Arc<S>);

impl<S: ?Sized> Clone for Named<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S: ?Sized> Deref for Named<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.0
    }
}

impl<S: Strategy + ?Sized> fmt::Debug for Named<S> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

impl<S: Strategy + ?Sized> PartialEq for Named<S> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.equals(other.as_any())
    }
}

impl<S: Strategy + ?Sized> Serialize for Named<S> {
    fn serialize<T: Serializer>(&self, serializer: T) -> Result<T::Ok, T::Error> {
        match self.parameters() {
            Value::Null => serializer.serialize_str(self.name()),
            parameters => serializer.collect_map([(self.name(), parameters)]),
        }
    }
}

/// How a strategy is read from the text of a policy.
pub struct Reader<S: ?Sized> {
    /// The name of the strategy.
    pub name: &'static str,
    read: fn(Value) -> serde_json::Result<Arc<S>>,
}

impl Reader<dyn OmissionStrategy> {
    /// That of an omission.
    pub const fn omission<P: OmissionStrategy + Parameters>() -> Self {
        Self { name: P::NAME, read: |parameters| Ok(Arc::new(serde_json::from_value::<P>(parameters)?)) }
    }
}

impl Reader<dyn CountStrategy> {
    /// That of a count.
    pub const fn count<P: CountStrategy + Parameters>() -> Self {
        Self { name: P::NAME, read: |parameters| Ok(Arc::new(serde_json::from_value::<P>(parameters)?)) }
    }
}

impl Reader<dyn ExcerptStrategy> {
    /// That of an excerpt.
    pub const fn excerpt<P: ExcerptStrategy + Parameters>() -> Self {
        Self { name: P::NAME, read: |parameters| Ok(Arc::new(serde_json::from_value::<P>(parameters)?)) }
    }
}

/// The strategies that a crate supplies.
pub struct Strategies {
    /// Omissions.
    pub omissions: &'static [Reader<dyn OmissionStrategy>],
    /// Counts.
    pub counts: &'static [Reader<dyn CountStrategy>],
    /// Excerpts.
    pub excerpts: &'static [Reader<dyn ExcerptStrategy>],
}

static SUPPLIED: OnceLock<&'static Strategies> = OnceLock::new();

impl Strategies {
    /// Supplies the strategies to all policies that are read from now on. Only the first call has an effect.
    pub fn supply(&'static self) {
        SUPPLIED.get_or_init(|| self);
    }
}

/// A place in a policy that can name a supplied strategy.
pub(super) trait Place: Sized {
    /// The kind of its strategies.
    type Kind: ?Sized + 'static;

    /// The strategies of the kind.
    fn readers(strategies: &'static Strategies) -> &'static [Reader<Self::Kind>];
    /// The place with a supplied strategy.
    fn named(strategy: Named<Self::Kind>) -> Self;
    /// The place with a general strategy.
    fn general(text: &Value) -> serde_json::Result<Self>;
}

/// Reads a supplied strategy, or else a general one.
pub(super) fn read<'de, P: Place, D: Deserializer<'de>>(deserializer: D) -> Result<P, D::Error> {
    let text = Value::deserialize(deserializer)?;
    let supplied = SUPPLIED.get().map_or(&[][..], |strategies| P::readers(strategies));
    let (name, parameters) = match &text {
        Value::String(name) => (Some(name), &Value::Null),
        Value::Object(fields) if fields.len() == 1 => {
            fields.iter().next().map_or((None, &Value::Null), |(name, parameters)| (Some(name), parameters))
        }
        _ => (None, &Value::Null),
    };
    match supplied.iter().find(|reader| Some(reader.name) == name.map(String::as_str)) {
        Some(reader) => {
            (reader.read)(parameters.clone()).map(|strategy| P::named(Named(strategy))).map_err(Error::custom)
        }
        None => P::general(&text).map_err(|error| {
            let mut message = error.to_string();
            if message.starts_with("unknown variant") {
                supplied.iter().for_each(|reader| message.push_str(&format!(", `{}`", reader.name)));
            }
            Error::custom(message)
        }),
    }
}

/// Reads and writes places that can name a supplied strategy, and makes them of its parameters.
macro_rules! place {
    ($place:ident, $kind:ident, $readers:ident) => {
        impl Place for $place {
            type Kind = dyn $kind;

            fn readers(strategies: &'static Strategies) -> &'static [Reader<dyn $kind>] {
                strategies.$readers
            }

            fn named(strategy: Named<dyn $kind>) -> Self {
                Self::Named(strategy)
            }

            fn general(text: &Value) -> serde_json::Result<Self> {
                // The general strategies are what the derived function of this name reads.
                Self::deserialize(text)
            }
        }

        impl<'de> Deserialize<'de> for $place {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                read(deserializer)
            }
        }

        impl Serialize for $place {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self {
                    Self::Named(strategy) => strategy.serialize(serializer),
                    general => Self::serialize(general, serializer),
                }
            }
        }

        impl<P: $kind + Parameters> From<P> for $place {
            fn from(strategy: P) -> Self {
                Self::Named(Named(Arc::new(strategy)))
            }
        }

        impl $place {
            /// The parameters of a supplied strategy, if it is this one.
            pub fn of<P: Parameters>(&self) -> Option<&P> {
                match self {
                    Self::Named(strategy) => strategy.as_any().downcast_ref(),
                    _ => None,
                }
            }
        }
    };
}

place!(Omission, OmissionStrategy, omissions);
place!(CountPer, CountStrategy, counts);
place!(Replacement, ExcerptStrategy, excerpts);
