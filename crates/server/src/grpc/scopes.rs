//! Scopes on the wire, and the scope that each method declares.

use crate::model::access::Scope;
use crate::pb::DESCRIPTORS;
use crate::pb::Scope as Wire;
use prost_reflect::{MessageDescriptor, MethodDescriptor};
use std::collections::{BTreeSet, HashMap, HashSet};

/// A scope from the wire; none for none.
pub fn read_scope(scope: Wire) -> Option<Scope> {
    Some(match scope {
        Wire::Unspecified => return None,
        Wire::Read => Scope::Read,
        Wire::Write => Scope::Write,
        Wire::Compact => Scope::Compact,
        Wire::Erase => Scope::Erase,
        Wire::Admin => Scope::Admin,
    })
}

/// A scope on the wire.
pub fn scope(scope: Scope) -> Wire {
    match scope {
        Scope::Read => Wire::Read,
        Scope::Write => Wire::Write,
        Scope::Compact => Wire::Compact,
        Scope::Erase => Wire::Erase,
        Scope::Admin => Wire::Admin,
    }
}

/// What has content of sessions in it.
const CONTENT: [&str; 4] =
    ["longhand.v1.CheckSummaryTaskResponse", "longhand.v1.Part", "longhand.v1.Question", "longhand.v1.SummaryTask"];

/// The messages that an answer may have in it, itself included, by their names.
fn parts_of(message: &MessageDescriptor, found: &mut BTreeSet<String>) {
    if found.insert(message.full_name().to_owned()) {
        for field in message.fields() {
            field.kind().as_message().into_iter().for_each(|inner| parts_of(inner, found));
        }
    }
}

fn path(method: &MethodDescriptor) -> String {
    format!("/{}/{}", method.parent_service().full_name(), method.name())
}

/// The methods that may hand content of sessions out, whatever their scope, by their paths.
pub fn handing_out() -> HashSet<String> {
    let methods = DESCRIPTORS.services().flat_map(|service| service.methods().collect::<Vec<_>>());
    let hands_out = |method: &MethodDescriptor| {
        let mut found = BTreeSet::new();
        parts_of(&method.output(), &mut found);
        CONTENT.iter().any(|content| found.contains(*content))
    };
    methods.filter(hands_out).map(|method| path(&method)).collect()
}

/// The scope of every method that declares one, by the method's path.
///
/// # Panics
///
/// If the descriptors that were compiled into the program cannot be read, which no input can cause.
pub fn scopes() -> HashMap<String, Scope> {
    let extension = DESCRIPTORS.get_extension_by_name("longhand.v1.scope").expect("the protos declare it");
    let methods = DESCRIPTORS.services().flat_map(|service| service.methods().collect::<Vec<_>>());
    let declared = methods.filter_map(|method| {
        let number = method.options().get_extension(&extension).as_enum_number()?;
        let scope = read_scope(Wire::try_from(number).ok()?)?;
        Some((path(&method), scope))
    });
    declared.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What answers to writes have besides content: a new type is to be one of both.
    const NO_CONTENT: [&str; 22] = [
        "Change",
        "Compaction",
        "CompactionFailure",
        "CompactionOutcome",
        "CompactionPlan",
        "CompactionTruncation",
        "ContextUsage",
        "Contradiction",
        "GuardState",
        "LevelThreshold",
        "ModelWindow",
        "PlannedRequest",
        "RevisionRange",
        "Rewrite",
        "Run",
        "RunEnd",
        "SecretFinding",
        "Session",
        "SummarySpending",
        "Usage",
        "UsageTotals",
        "WrittenDraft",
    ];

    #[test]
    fn every_answer_to_a_write_has_content_or_has_none() {
        let handing_out = handing_out();
        let scopes = scopes();
        let mut writes = BTreeSet::new();
        for method in DESCRIPTORS.services().flat_map(|service| service.methods().collect::<Vec<_>>()) {
            let path = path(&method);
            let Some(Scope::Write | Scope::Compact) = scopes.get(&path) else { continue };
            if handing_out.contains(&path) {
                writes.insert(method.name().to_owned());
                continue;
            }
            let mut found = BTreeSet::new();
            parts_of(&method.output(), &mut found);
            // Its own texts are ids.
            let answer = method.output();
            let own = answer.fields().filter(|field| matches!(field.kind(), prost_reflect::Kind::String));
            let own = own.map(|field| field.name().trim_end_matches('s').to_owned());
            let texts: Vec<String> = own.filter(|name| !name.ends_with("_id")).collect();
            assert_eq!(texts, [""; 0], "{path}");
            found.remove(method.output().full_name());
            let names = found.iter().filter_map(|name| name.strip_prefix("longhand.v1."));
            let unknown: Vec<_> = names.filter(|name| !NO_CONTENT.contains(name)).collect();
            assert_eq!(unknown, [""; 0], "{path}");
        }
        let expected = [
            "AcquireRun",
            "AnswerApproval",
            "CheckSummaryTask",
            "EditSummaryTask",
            "LeaseSummaryTask",
            "RequestApproval",
            "TakePrompt",
        ];
        assert_eq!(writes.iter().map(String::as_str).collect::<Vec<_>>(), expected);
    }
}
