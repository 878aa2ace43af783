//! pi, in two versions: estimates of messages, the threshold of a summary, its boundary, and the view after it.
//!
//! pi's sessions are lists of entries. Besides messages they contain entries that are never in a context (records here)
//! and compactions; both are drawn here and inserted between the messages of a conversation.

mod scenario;
pub(crate) mod scenarios;
mod questions;
mod session;

use crate::generate::{Conversation, Profile, Results};
use crate::harm;
use crate::harness::{Peer, PeerFailure, Run, System};
use crate::report::{Class, Reason, Report};
use longhand::policy::FileTools;
use longhand::policy::branch::BranchRules;
use longhand::policy::files::{self, FileOperations};
use longhand::policy::{Policy, RESUME_TEXT, overflow, plan, tokens};
use longhand::presets;
use rand::Rng;
use serde_json::{Value, json};
use session::{Prepared, Session};

/// One version of pi.
pub(crate) struct Pi {
    name: &'static str,
    preset: &'static str,
    /// True if messages of extensions count their text, so that they are like the user's.
    extensions: bool,
    profile: Profile,
    classes: &'static [Class],
}

pub(crate) const V0_73: Pi = Pi {
    name: "pi-0.73",
    preset: "pi@0.73",
    extensions: false,
    // A session's instructions to the model are not entries in this version.
    profile: Profile { system: false, ..PROFILE },
    classes: &[
        UNANSWERED,
        NOTHING,
        RECORDS,
        PAIRED,
        OPENING,
        questions::STOPPED,
        questions::UNREPORTED,
        questions::REFUSED,
        scenarios::WHOLE,
    ],
};

pub(crate) const V1_5: Pi = Pi {
    name: "pi-1.5",
    preset: "pi@1.5",
    extensions: true,
    profile: PROFILE,
    classes: &[UNANSWERED, RECORDS, PAIRED, OPENING, questions::STOPPED, questions::REFUSED],
};

const PROFILE: Profile = Profile {
    turns: 0..=7,
    text_max: 1_500,
    output_max: 9_000,
    results: Results::MessageEach,
    tools: &["read", "write", "edit", "bash", "grep", "Read"],
    ..Profile::FULL
};

const UNANSWERED: Class = Class {
    name: "what nobody has answered stays",
    reason: Reason::P9,
    explanation: "pi summarizes requests whose reply failed, and results that no reply has read; we cut before them.",
    test: ("crates/core/src/policy/select/tests.rs", "no_boundary_does_harm"),
};

const OPENING: Class = Class {
    name: "a view begins with the user",
    reason: Reason::P9,
    explanation: "pi's context may begin with a reply; we put a line of the user before it.",
    test: ("crates/core/src/policy/render/tests.rs", "nobody_but_the_user_begins"),
};

const NOTHING: Class = Class {
    name: "nothing to do starts nothing",
    reason: Reason::P7,
    explanation: "pi 0.73 prepares a compaction of no messages; with us there is none.",
    test: ("crates/core/src/policy/select/recent.rs", "nothing_is_summarized_where_everything_stays"),
};

const RECORDS: Class = Class {
    name: "records split no turn",
    reason: Reason::Named("do not influence where a turn is split"),
    explanation: "pi takes a cut behind an entry that no view shows for one inside the turn before; we look at views \
                  only.",
    test: ("crates/core/src/policy/select/recent.rs", "a_boundary_before_a_request_splits_no_turn"),
};

const PAIRED: Class = Class {
    name: "every call has a result",
    reason: Reason::P9,
    explanation: "pi's context leaves a call that was interrupted without a result; a view says that it was, and these \
                  words count.",
    test: ("crates/core/src/policy/pairing/tests.rs", "an_interrupted_call_says_so"),
};

impl System for Pi {
    fn name(&self) -> &'static str {
        self.name
    }

    fn classes(&self) -> &'static [Class] {
        self.classes
    }

    fn run(&self, peer: &mut Peer, run: Run<'_>, report: &mut Report) -> Result<(), PeerFailure> {
        let policy = presets::policy(self.preset);
        for batch in run.batches() {
            let conversations = batch.map(|index| Conversation::generate(run.seed, index, &self.profile));
            let sessions: Vec<Session> =
                conversations.map(|conversation| Session::draw(conversation, &policy, self.extensions)).collect();
            let questions: [Ask; 11] = [
                Self::estimates,
                Self::usage,
                Self::due,
                Self::files,
                Self::branch,
                Self::boundary,
                Self::view,
                Self::transcript,
                Self::context_usage,
                Self::refusal,
                Self::branch_summary,
            ];
            // Before 0.87 a context does not state the origin of its messages.
            let since: &[Ask] = if self.extensions { &[Self::projection] } else { &[] };
            for ask in questions.iter().chain(since) {
                let questions: Vec<Question> = sessions.iter().map(|session| ask(&policy, session)).collect();
                let calls = questions.iter().map(|question| (question.function, question.input.clone())).collect();
                for (question, theirs) in questions.iter().zip(peer.call_all(calls)?) {
                    let Question { session, function, input, ours, read, explain } = question;
                    let theirs = theirs.map(|value| read(session, value));
                    let why = |ours: &Value, theirs: &Value| explain(session, ours, theirs);
                    report.compare(function, session.index(), input, ours, &theirs, why);
                }
            }
        }
        Ok(())
    }
}

/// A function that makes a question about a session.
type Ask = for<'a> fn(&Policy, &'a Session) -> Question<'a>;

/// A question to both sides, our answer, and the reading of theirs.
struct Question<'a> {
    session: &'a Session,
    function: &'static str,
    input: Value,
    ours: Value,
    read: fn(&Session, Value) -> Value,
    explain: fn(&Session, &Value, &Value) -> Option<&'static Class>,
}

impl<'a> Question<'a> {
    /// A question whose answers must be equal.
    fn exact(session: &'a Session, function: &'static str, input: Value, ours: Value) -> Self {
        Self { session, function, input, ours, read: |_, value| value, explain: |_, _, _| None }
    }
}

impl Pi {
    /// Asks for the estimate of each message.
    fn estimates<'a>(policy: &Policy, session: &'a Session) -> Question<'a> {
        let estimates = session.messages().iter().map(|source| tokens::estimate_source(policy, source));
        let input = json!({ "messages": session.raw_messages() });
        Question::exact(session, "estimateTokens", input, estimates.collect())
    }

    /// Asks for the context usage according to reported usage.
    fn usage<'a>(policy: &Policy, session: &'a Session) -> Question<'a> {
        let replies = session.messages().iter().filter_map(|source| source.message.finish.usage.as_ref());
        let usages: Vec<Value> = replies.clone().map(|usage| session::usage(Some(usage))).collect();
        let tokens = replies.map(|usage| policy.counting.usage.tokens(usage));
        Question::exact(session, "calculateContextTokens", json!({ "usages": usages }), tokens.collect())
    }

    /// Asks if a summary is due.
    fn due<'a>(policy: &Policy, session: &'a Session) -> Question<'a> {
        let mut dice = session.dice("due");
        let context = dice.random_range(1..400_000);
        let near = context - 16_384 + dice.random_range(-2..=2);
        let tokens = if dice.random_bool(0.5) { near.max(1) } else { dice.random_range(1..400_000) };
        let window = longhand::model::usage::ModelWindow { context, output: Some(1), ..Default::default() };
        let is_due = overflow::due_at(policy, &window).is_some_and(|due| tokens >= due);
        let settings = json!({ "enabled": true, "reserveTokens": 16_384, "keepRecentTokens": 20_000 });
        let input = json!({ "contextTokens": tokens, "contextWindow": context, "settings": settings });
        Question::exact(session, "shouldCompact", input, json!(is_due))
    }

    /// Asks for the files that were read and modified, and for their lists in a summary.
    fn files<'a>(_policy: &Policy, session: &'a Session) -> Question<'a> {
        let mut operations = FileOperations::collect(FileTools::Pi, session.messages());
        let (read, modified) = session.earlier_files();
        operations.inherit(read.clone(), modified.clone());
        let (read_now, modified_now) = operations.lists();
        let text = files::tags(&read_now, &modified_now);
        let ours = json!({ "readFiles": read_now, "modifiedFiles": modified_now, "text": text });
        let details = json!({ "readFiles": read, "modifiedFiles": modified });
        let input = json!({ "messages": session.raw_messages(), "details": details });
        Question::exact(session, "fileOperations", input, ours)
    }

    /// Asks for the messages that the summary of a branch covers.
    fn branch<'a>(policy: &Policy, session: &'a Session) -> Question<'a> {
        let (messages, entries) = session.branch();
        let total: i64 = messages.iter().map(|source| tokens::estimate_source(policy, source)).sum();
        let budget = session.dice("branch").random_range(0..=total + 100);
        let mut inherited = FileOperations::default();
        if session.branch_inherits() {
            let (read, modified) = session.earlier_files();
            inherited.inherit(read, modified);
        }
        let plan = BranchRules::default().plan(policy, budget, &messages, inherited);
        let covered: Vec<i64> = plan.covered.iter().map(|&index| messages[index].message.revision).collect();
        let operations = session::file_sets(&plan.files);
        let ours = json!({ "messages": covered, "fileOps": operations, "totalTokens": plan.tokens });
        let input = json!({ "entries": entries, "budget": budget, "brief": true });
        Question::exact(session, "prepareBranchEntries", input, ours)
    }

    /// Asks for the boundary of a compaction.
    fn boundary<'a>(policy: &Policy, session: &'a Session) -> Question<'a> {
        Question {
            session,
            function: "prepareCompaction",
            input: json!({ "entries": session.entries(), "settings": session.settings(), "brief": true }),
            ours: session.prepare(policy).map_or(Value::Null, |prepared| prepared.to_json()),
            read: |session, value| session.read_preparation(&value).map_or(Value::Null, |prepared| prepared.to_json()),
            explain: explain_boundary,
        }
    }

    /// Asks for the messages sent to a model.
    fn view<'a>(policy: &Policy, session: &'a Session) -> Question<'a> {
        Question {
            session,
            function: "contextForModel",
            input: json!({ "entries": session.entries() }),
            ours: session::flat_view(&plan::view(policy, session.sources())),
            read: |_, value| session::flat_context(&value),
            explain: |_, ours, theirs| explain_view(ours, theirs),
        }
    }
}

fn explain_boundary(session: &Session, ours: &Value, theirs: &Value) -> Option<&'static Class> {
    let (ours, theirs) = (Prepared::from_json(ours), Prepared::from_json(theirs)?);
    if theirs.head().is_empty() {
        return ours.is_none().then_some(&NOTHING);
    }
    let cut = session.boundary_before(theirs.first);
    let harmless = harm::nearest(session.inline(), cut);
    if ours != session.prepared_at(harmless) {
        return None;
    }
    if harmless != cut {
        return Some(&UNANSWERED);
    }
    (ours? == theirs.unsplit() && session.has_record_before_request(theirs.first)).then_some(&RECORDS)
}

/// Explains views that are equal without the results and the line of the user that Longhand adds.
fn explain_view(ours: &Value, theirs: &Value) -> Option<&'static Class> {
    let (ours, theirs) = (ours.as_array()?, theirs.as_array()?);
    let theirs_has = |line: &Value| theirs.iter().any(|other| other == line);
    let is_made_up = |line: &&Value| line["kind"] == "paired" && !theirs_has(line);
    let rest: Vec<&Value> = ours.iter().filter(|line| !is_made_up(line)).collect();
    let opening = json!({ "role": "user", "kind": "text", "text": RESUME_TEXT });
    // It comes after the system's messages.
    let at = rest.iter().position(|line| line["role"] != "system");
    match at.filter(|at| *rest[*at] == opening) {
        Some(at) => {
            let whole = rest[..at].iter().chain(&rest[at + 1..]);
            whole.copied().eq(theirs).then_some(&OPENING)
        }
        None => (rest.len() < ours.len() && rest.into_iter().eq(theirs)).then_some(&PAIRED),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::Conversation;

    fn session(index: u64) -> Session {
        let profile = V1_5.profile.clone();
        Session::draw(Conversation::generate(1, index, &profile), &presets::policy("pi@1.5"), true)
    }

    #[test]
    fn only_what_we_made_up_is_explained() {
        let call = json!({ "kind": "call", "id": "c" });
        let paired = json!({ "kind": "paired", "id": "c" });
        let result = json!({ "kind": "result", "id": "c" });
        let opening = json!({ "role": "user", "kind": "text", "text": RESUME_TEXT });
        for (ours, theirs, explained) in [
            (json!([call, paired]), json!([call]), true),
            (json!([call, paired, result]), json!([call, result]), true),
            (json!([call, result]), json!([call]), false),
            (json!([call, paired]), json!([call, result]), false),
            (json!([paired]), json!([call]), false),
            (json!([call]), json!([]), false),
            (json!([opening, call]), json!([call]), true),
            (json!([opening, call, result]), json!([call]), false),
            (json!([call, opening]), json!([call]), false),
        ] {
            assert_eq!(explain_view(&ours, &theirs).is_some(), explained, "{ours} {theirs}");
        }
    }

    #[test]
    fn another_boundary_is_explained_only_where_theirs_does_harm() {
        let mut seen = Vec::new();
        for session in (0..25).map(session).filter(|session| !session.inline().is_empty()) {
            for cut in 1..=session.inline().len() {
                let Some(theirs) = session.prepared_at(cut) else { continue };
                let (harmless, theirs) = (harm::nearest(session.inline(), cut), theirs.to_json());
                let class = |ours: usize| {
                    let ours = session.prepared_at(ours).map_or(Value::Null, |ours| ours.to_json());
                    explain_boundary(&session, &ours, &theirs).map(|class| class.name)
                };
                if harmless != cut {
                    assert_eq!(class(harmless), Some(UNANSWERED.name), "{cut} in {}", session.index());
                }
                // No other boundary is explained, in particular not a missing one.
                let others = (0..=session.inline().len()).filter(|other| ![cut, harmless].contains(other));
                let alike = session.prepared_at(harmless);
                for other in others.filter(|other| session.prepared_at(*other) != alike) {
                    assert_eq!(class(other), None, "{other} for {cut} in {}", session.index());
                }
                seen.push(harmless != cut);
            }
        }
        assert!(seen.iter().filter(|forced| **forced).count() > 20 && seen.contains(&false));
    }

    #[test]
    fn sessions_hold_what_pi_has_besides_messages() {
        let sessions: Vec<Session> = (0..200).map(session).collect();
        let of = |kind: &str| {
            let has = |session: &&Session| session.entries().iter().any(|entry| entry["type"] == kind);
            sessions.iter().filter(has).count()
        };
        for kind in ["message", "custom_message", "compaction", "model_change", "label"] {
            assert!(of(kind) > 10, "{kind} is in {} sessions", of(kind));
        }
        let prepared = sessions.iter().filter_map(|session| session.prepare(&presets::policy("pi@1.5")));
        let split = prepared.clone().filter(|prepared| !prepared.prefix.is_empty()).count();
        assert!(prepared.count() > 60 && split > 20, "{split} split turns");
    }
}
