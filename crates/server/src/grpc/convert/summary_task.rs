//! Conversion of summary tasks.

use super::compaction::trigger;
use super::message::read_finish_reason;
use super::session::{level, read_level};
use super::{count, id, range, read_duration, read_enum};
use crate::app::summary_tasks::{LeaseClaim, LeaseRequest, NewEdit, Prompt, Release, Task, TaskReply};
use crate::app::{Error, Result};
use crate::grpc::wire;
use crate::pb;

/// A summary that is to be written, with the prompt for a model.
pub(in crate::grpc) fn task(task: &Task, prompt: Prompt) -> pb::SummaryTask {
    pb::SummaryTask {
        compaction_id: task.compaction.to_string(),
        session_id: task.session.to_string(),
        level: level(task.level).into(),
        trigger: trigger(task.trigger).into(),
        attempt: count(task.attempt),
        base_revision: task.base,
        window_tokens: task.window_tokens,
        covered_ranges: task.covered.iter().copied().map(range).collect(),
        tail_start_message_id: id(task.tail_start),
        retained_message_ids: task.retained.iter().map(ToString::to_string).collect(),
        system: prompt.system,
        prompt: prompt.user,
        max_summary_tokens: task.input.budget_tokens,
        instructions: task.input.instructions.clone(),
        details_json: task.details_json.clone(),
        checked: task.input.rules.verify,
    }
}

/// A request to lease a task.
pub(in crate::grpc) fn read_lease(request: pb::LeaseSummaryTaskRequest) -> Result<LeaseRequest> {
    let levels = request.levels.iter().enumerate().map(|(index, level)| {
        let missing = || Error::field(format_args!("levels[{index}]"), "is unspecified; leave the list empty for all");
        read_level(*level)?.ok_or_else(missing)
    });
    Ok(LeaseRequest {
        levels: levels.collect::<Result<_>>()?,
        sessions: request.session_ids,
        wait: request.wait_timeout.map(|wait| read_duration("wait_timeout", wait)).transpose()?,
        lease: request.lease_timeout.map(|lease| read_duration("lease_timeout", lease)).transpose()?,
        window_tokens: request.window_tokens,
    })
}

/// A client's changes to a task.
pub(in crate::grpc) fn read_edit(request: pb::EditSummaryTaskRequest) -> (LeaseClaim, NewEdit) {
    let hold = LeaseClaim {
        compaction: request.compaction_id,
        token: request.lease_token,
        base_revision: request.base_revision,
    };
    let edit = NewEdit {
        tail_start: request.tail_start_message_id,
        retained: request.retained.map(|retained| retained.message_ids),
        instructions: request.instructions,
        details_json: request.details_json,
        window_tokens: request.window_tokens,
    };
    (hold, edit)
}

/// A client's summary.
pub(in crate::grpc) fn read_reply(request: pb::CompleteSummaryTaskRequest) -> Result<(LeaseClaim, TaskReply)> {
    let hold = LeaseClaim {
        compaction: request.compaction_id,
        token: request.lease_token,
        base_revision: request.base_revision,
    };
    let reply = TaskReply {
        text: request.text,
        model: request.model,
        reason: read_finish_reason("reason", request.reason)?,
        usage: request.usage.map(wire::read_usage),
        supplied: request.supplied,
    };
    Ok((hold, reply))
}

/// Reason for giving a task back.
pub(in crate::grpc) fn read_failure(number: i32) -> Result<Release> {
    Ok(match read_enum("failure", number)? {
        pb::SummaryTaskFailure::Unspecified | pb::SummaryTaskFailure::Transient => Release::Transient,
        pb::SummaryTaskFailure::Permanent => Release::Permanent,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::compaction::Level;

    #[test]
    fn an_unspecified_level_is_refused() {
        let lease = |levels: &[pb::CompactionLevel]| {
            let levels = levels.iter().map(|level| (*level).into()).collect();
            read_lease(pb::LeaseSummaryTaskRequest { levels, ..Default::default() })
        };
        assert_eq!(lease(&[pb::CompactionLevel::Deep]).expect("a request").levels, [Level::Deep]);
        assert_eq!(lease(&[]).expect("a request").levels, []);
        let refused = lease(&[pb::CompactionLevel::Deep, pb::CompactionLevel::Unspecified]).expect_err("a refusal");
        assert_eq!(refused.metadata["field"], "levels[1]");
    }
}
