//! Sections of a summary.

use serde::{Deserialize, Serialize};

/// A section of a summary.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Section {
    /// The heading, with its `#`s.
    pub heading: String,
    /// The topic of the section; absent for a heading over other sections.
    pub topic: Option<Topic>,
    /// The start of each item.
    #[serde(default)]
    pub bullet: Bullet,
}

impl Section {
    /// A section whose items begin with dashes.
    pub fn new(heading: &str, topic: impl Into<Option<Topic>>) -> Self {
        Self { heading: heading.to_owned(), topic: topic.into(), bullet: Bullet::Dash }
    }

    /// The same section with another start of its items.
    pub fn with(self, bullet: Bullet) -> Self {
        Self { bullet, ..self }
    }
}

/// The topic of a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Topic {
    /// The user's goal.
    Goal,
    /// The user's constraints.
    Constraints,
    /// Finished work.
    Done,
    /// Work in progress.
    InProgress,
    /// Obstacles.
    Blocked,
    /// Decisions and their reasons.
    Decisions,
    /// What is not decided yet.
    OpenDecisions,
    /// Next steps.
    NextSteps,
    /// Facts, errors and open questions.
    Context,
    /// Files and their relevance.
    Files,
}

/// The start of each item of a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bullet {
    /// `- `
    #[default]
    Dash,
    /// `- [x] `
    Checked,
    /// `- [ ] `
    Unchecked,
    /// `1. `
    Number,
}
