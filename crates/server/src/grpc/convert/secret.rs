//! What rules for secrets found.

use super::count;
use crate::app::secrets::{Action, SecretFinding, SecretRule};
use crate::pb;

/// What the rules found in the texts of a request.
pub(in crate::grpc) fn secret_findings(found: Vec<SecretFinding>) -> Vec<pb::SecretFinding> {
    let finding = |found: SecretFinding| pb::SecretFinding {
        field: found.field,
        rule: found.rule,
        action: action(found.action).into(),
        found_count: count(found.count),
    };
    found.into_iter().map(finding).collect()
}

pub(in crate::grpc) fn secret_rule(rule: SecretRule) -> pb::SecretRule {
    let SecretRule { name, action: of, found } = rule;
    pb::SecretRule { rule: name, action: action(of).into(), found_count: found }
}

fn action(action: Action) -> pb::SecretAction {
    match action {
        Action::Warn => pb::SecretAction::Warn,
        Action::Redact => pb::SecretAction::Redact,
        Action::Refuse => pb::SecretAction::Refuse,
    }
}
