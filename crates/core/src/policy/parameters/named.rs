//! Strategies that a policy names and that a crate above this one has: those that a single agent uses.
//!
//! The parameters keep a strategy by name, beside code that only [`strategy`](crate::policy::strategy) can read. That crate
//! supplies a table of its strategies once. A text that names another one is refused.

use serde::Deserialize;
use serde::de::{Deserializer, Error};
use serde::ser::{Serialize, Serializer};
use serde_json::Value;
use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// A supplied strategy. In the text of a policy it is its name, or an object with its name and parameters.
#[derive(Clone)]
pub struct NamedStrategy {
    /// The name.
    pub name: &'static str,
    /// The parameters; null without any.
    parameters: Value,
    code: Arc<dyn Any + Send + Sync>,
}

impl NamedStrategy {
    /// A strategy with its code.
    pub(in crate::policy) fn new(name: &'static str, parameters: Value, code: impl Any + Send + Sync) -> Self {
        Self { name, parameters, code: Arc::new(code) }
    }

    /// The code, if it is of this type.
    pub(in crate::policy) fn code<C: Any>(&self) -> Option<&C> {
        self.code.downcast_ref()
    }
}

impl fmt::Debug for NamedStrategy {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {}", self.name, self.parameters)
    }
}

impl PartialEq for NamedStrategy {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.parameters == other.parameters
    }
}

impl Serialize for NamedStrategy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.parameters {
            Value::Null => serializer.serialize_str(self.name),
            parameters => serializer.collect_map([(self.name, parameters)]),
        }
    }
}

/// How a strategy is read from the text of a policy.
pub struct Reader {
    /// The name of the strategy.
    pub name: &'static str,
    /// Its parameters with its code.
    pub(in crate::policy) read: fn(Value) -> serde_json::Result<NamedStrategy>,
}

/// The strategies that a crate supplies.
pub struct Strategies {
    /// Omissions.
    pub omissions: &'static [Reader],
    /// Counts.
    pub counts: &'static [Reader],
    /// Excerpts.
    pub excerpts: &'static [Reader],
}

static SUPPLIED: OnceLock<&'static Strategies> = OnceLock::new();

impl Strategies {
    /// Supplies the strategies to all policies that are read from now on. Only the first call has an effect.
    pub fn supply(&'static self) {
        SUPPLIED.get_or_init(|| self);
    }
}

/// Reads a supplied strategy, or else one of the general ones.
pub(super) fn read_strategy<'de, T, D: Deserializer<'de>>(
    deserializer: D,
    readers: fn(&'static Strategies) -> &'static [Reader],
    named: fn(NamedStrategy) -> T,
    general: fn(&Value) -> serde_json::Result<T>,
) -> Result<T, D::Error> {
    let text = Value::deserialize(deserializer)?;
    let supplied = SUPPLIED.get().map_or(&[][..], |strategies| readers(strategies));
    let (name, parameters) = match &text {
        Value::String(name) => (name.as_str(), Value::Null),
        Value::Object(fields) if fields.len() == 1 => {
            fields.iter().next().map_or(("", Value::Null), |(name, parameters)| (name.as_str(), parameters.clone()))
        }
        _ => ("", Value::Null),
    };
    if let Some(reader) = supplied.iter().find(|reader| reader.name == name) {
        return (reader.read)(parameters).map(named).map_err(Error::custom);
    }
    general(&text).map_err(|error| {
        let mut message = error.to_string();
        if message.starts_with("unknown variant") {
            supplied.iter().for_each(|reader| message.push_str(&format!(", `{}`", reader.name)));
        }
        Error::custom(message)
    })
}

/// Reads and writes a list of alternatives of which one is a supplied strategy. The others are what the functions do that
/// are derived with `remote = "Self"`.
macro_rules! can_be_named {
    ($place:ident, $readers:ident) => {
        impl<'de> serde::Deserialize<'de> for $place {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                super::named::read_strategy(
                    deserializer,
                    |strategies| strategies.$readers,
                    Self::Named,
                    |text| Self::deserialize(text),
                )
            }
        }

        impl serde::Serialize for $place {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self {
                    Self::Named(strategy) => serde::Serialize::serialize(strategy, serializer),
                    general => Self::serialize(general, serializer),
                }
            }
        }
    };
}
pub(super) use can_be_named;
