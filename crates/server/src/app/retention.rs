//! Rules of retention: sessions go for their age, for the time since their last change, or for the room that newer ones
//! need.

use crate::limits;
use crate::model::dating::Dating;
use crate::model::ids::SessionId;
use crate::model::time::Timestamp;
use crate::store::RetentionCandidate;
use std::fmt;
use std::time::Duration;

/// The label that protects a session from every rule.
pub const KEEP: &str = "keep";

/// A rule: which sessions it is about, and when they go. One bound that is exceeded is enough.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RetentionRule {
    /// The name, which the erasures have with their author.
    pub name: String,
    /// The tenant; none for every tenant.
    pub tenant: Option<String>,
    /// The label that a session must have; none for every session.
    pub label: Option<String>,
    /// Time since the creation.
    pub age: Option<Duration>,
    /// Time since the last change.
    pub idle: Option<Duration>,
    /// Bytes of content, before compression, of all sessions that it is about: those that changed longest ago go.
    pub bytes: Option<u64>,
}

/// The bound that a session exceeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetentionReason {
    /// It was created these whole hours ago.
    Age(u64),
    /// It was not changed for these whole hours.
    Idle(u64),
    /// The sessions that changed later have the room.
    Bytes,
}

impl fmt::Display for RetentionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Age(hours) => write!(f, "created {hours} hours ago"),
            Self::Idle(hours) => write!(f, "not changed for {hours} hours"),
            Self::Bytes => f.write_str("sessions that changed later have the room"),
        }
    }
}

/// A session that goes by a rule, or would.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpiredSession {
    /// Its id.
    pub session: SessionId,
    /// Its title before the erasure.
    pub title: String,
    /// The rule's name.
    pub rule: String,
    /// The bound that it exceeds.
    pub reason: RetentionReason,
    /// Bytes of its content, before compression.
    pub content_bytes: i64,
}

/// What a pass did, or would do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RetentionSummary {
    /// Sessions that were looked at, without erased ones.
    pub examined: i64,
    /// Sessions that were erased, or would be.
    pub erased: i64,
    /// Bytes of their content, before compression.
    pub content_bytes: i64,
    /// Sessions that exceed a bound and stay: labelled `keep`, with an active run, or with a fork that stays.
    pub protected: i64,
    /// Sessions that changed between look and erasure, and stay until the next pass.
    pub changed: i64,
    /// True if the clock was not confirmed: ages were counted up to the last time that was.
    pub is_clock_unconfirmed: bool,
}

/// A piece of a pass's report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RetentionItem {
    /// A session that was erased, or would be.
    Expired(ExpiredSession),
    /// The end. Comes last, once.
    End(RetentionSummary),
}

/// The times of passes in the background.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetentionTimes {
    /// Time until the first pass.
    pub delay: Duration,
    /// Time between the end of a pass and the begin of the next one.
    pub interval: Duration,
}

impl Default for RetentionTimes {
    fn default() -> Self {
        Self {
            delay: Duration::from_secs(limits::RETENTION_DELAY_SECONDS),
            interval: Duration::from_secs(limits::RETENTION_INTERVAL_SECONDS),
        }
    }
}

/// Looks at the sessions of a tenant, the newest change first.
pub(super) struct Examination<'r> {
    /// The rules, with the bytes of the sessions that each has seen.
    pub(super) rules: Vec<(&'r RetentionRule, u64)>,
    /// The time that is certain to have come.
    certain: Timestamp,
    /// What is known of the times of events.
    dating: Dating,
    pub(super) summary: RetentionSummary,
}

/// A session that is to go.
pub(super) struct SessionToErase<'r> {
    pub(super) candidate: RetentionCandidate,
    pub(super) rule: &'r RetentionRule,
    pub(super) reason: RetentionReason,
}

impl<'r> Examination<'r> {
    pub(super) fn new(rules: &'r [RetentionRule], tenant: &str, (certain, dating): (Timestamp, Dating)) -> Self {
        let holds = |rule: &&RetentionRule| rule.tenant.as_deref().is_none_or(|of| of == tenant);
        let rules = rules.iter().filter(holds).map(|rule| (rule, 0)).collect();
        Self { rules, certain, dating, summary: RetentionSummary::default() }
    }

    /// The first rule whose bound a session exceeds, and the reason.
    fn exceeded_rule(&mut self, candidate: &RetentionCandidate) -> Option<(&'r RetentionRule, RetentionReason)> {
        // Never more than what is certain: nothing is older by a clock that was wrong.
        let since = |time: Timestamp| {
            let passed = self.certain.0.saturating_sub(self.dating.date(time).0);
            Duration::from_micros(u64::try_from(passed).unwrap_or_default())
        };
        let hours = |time: Duration| time.as_secs() / 3_600;
        let (age, idle) = (since(candidate.create_time), since(candidate.update_time));
        let mut exceeded = None;
        for (rule, seen) in &mut self.rules {
            if rule.label.as_ref().is_some_and(|label| !candidate.labels.contains(label)) {
                continue;
            }
            *seen = seen.saturating_add(u64::try_from(candidate.content_bytes).unwrap_or_default());
            let reason = if rule.age.is_some_and(|most| age > most) {
                Some(RetentionReason::Age(hours(age)))
            } else if rule.idle.is_some_and(|most| idle > most) {
                Some(RetentionReason::Idle(hours(idle)))
            } else {
                rule.bytes.filter(|most| *seen > *most).map(|_| RetentionReason::Bytes)
            };
            // Every rule counts the session, whichever takes it.
            exceeded = exceeded.or(reason.map(|reason| (*rule, reason)));
        }
        exceeded
    }

    /// The session, if it is to go.
    pub(super) fn examine(&mut self, candidate: RetentionCandidate) -> Option<SessionToErase<'r>> {
        self.summary.examined += 1;
        let (rule, reason) = self.exceeded_rule(&candidate)?;
        let keeps = candidate.labels.iter().any(|label| label == KEEP);
        if keeps || candidate.is_at_work || candidate.is_shared {
            self.summary.protected += 1;
            return None;
        }
        Some(SessionToErase { candidate, rule, reason })
    }
}
