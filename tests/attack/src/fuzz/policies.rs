//! Policies and overrides. Decisions of a valid policy must not fail, whatever the history.

use super::mutate::Shape;
use super::{Decoder, Input, Outcome};
use anyhow::Result;
use longhand::fold::guards::{self, GuardInput, Guards};
use longhand::fold::{Fold, FoldInput, wake};
use longhand::model::ids::{CompactionId, MessageId, PartId, SessionId};
use longhand::model::layout::Layout;
use longhand::model::message::{Finish, FinishReason, Message, MessageKind, Role};
use longhand::model::part::{Answers, Media, MediaSource, Part, PartBody, ResultStatus, ToolCall, ToolResult};
use longhand::model::time::Timestamp;
use longhand::model::usage::{ModelWindow, Usage};
use longhand::model::view::SourceMessage;
use longhand::policy::plan::{self, Boundary, PlanningInput};
use longhand::policy::provider_errors::Recovery;
use longhand::policy::{Policy, replay, validate};
use longhand::presets;
use uuid::Uuid;

/// The readers of policies. The head is `whole`, or the name of a preset for an override of it.
pub(super) struct Policies {
    sources: Vec<SourceMessage>,
    windows: [ModelWindow; 3],
}

impl Policies {
    pub(super) fn open() -> Self {
        let window = |context, input, output, overhead| ModelWindow {
            model: "m".to_owned(),
            context,
            input,
            output,
            overhead,
            ..ModelWindow::default()
        };
        let windows = [
            window(0, None, None, 0),
            window(2_000, None, Some(200), 100),
            window(200_000, Some(150_000), Some(32_000), 20_000),
        ];
        Self { sources: history(), windows }
    }

    /// Makes all decisions of a policy for a session, on one history.
    fn decide(&self, policy: &Policy) {
        let layout = Layout::everything();
        let base = i64::try_from(self.sources.len()).unwrap_or(i64::MAX);
        let view = plan::view(policy, &self.sources);
        for window in &self.windows {
            if !validate::validate_for(policy, None, window).is_empty() {
                continue;
            }
            let (sources, now) = (self.sources.as_slice(), Timestamp(1_800_000_000_000_000));
            let fold = Fold::new(FoldInput { policy, messages: sources, changed_revision: 0, window }, None);
            let planning = PlanningInput { policy, window, layout: &layout, sources, covered: &[], base, now };
            for tokens in [0, view.estimated_tokens, window.context, i64::MAX / 4] {
                for recovery in [Recovery::Compaction, Recovery::MediaFirst, Recovery::Media] {
                    replay::recovery_request(planning, tokens, recovery, &[]);
                }
                let Some(decision) = plan::decide(planning, tokens, |_| true, |_, _| true) else { continue };
                let work = plan::work_of(planning, decision, tokens);
                let after = plan::with_removals(&self.sources, &work.removals, CompactionId(Uuid::nil()));
                plan::first_changed(&view, &plan::view(policy, &after));
            }
            let guards = Guards::new(planning, &fold, GuardInput::default());
            guards::decide(planning, &fold, &guards);
            wake::condition(planning, &fold, &guards);
            plan::maintenance(planning);
            plan::prune_all(planning);
            let boundary = Boundary { tail_start: 5, retained: &[], retained_first: false };
            let after = plan::with_summary(policy, &layout, &self.sources, &boundary, "what was", &[]);
            plan::view(policy, &after);
        }
    }
}

/// A history with everything that strategies act on.
fn history() -> Vec<SourceMessage> {
    let words = |count: usize| "words of some length, größer 漢字 ".repeat(count);
    let call = |id: &str, tool: &str| {
        PartBody::ToolCall(ToolCall {
            call_id: id.to_owned(),
            tool: tool.to_owned(),
            input_json: format!("{{\"file_path\":\"/a/{id}.rs\",\"content\":\"{}\"}}", "y".repeat(500)),
            start_time: None,
            end_time: None,
        })
    };
    let result = |id: &str, output: String| {
        let source = MediaSource::Bytes(vec![7; 3_000]);
        let attachments = vec![Media { mime_type: "image/png".to_owned(), name: "a.png".to_owned(), source }];
        PartBody::ToolResult(ToolResult {
            call_id: id.to_owned(),
            answers: Answers::Nearest,
            status: ResultStatus::Completed,
            output,
            attachments,
            start_time: None,
            end_time: None,
        })
    };
    let mut contents: Vec<(Role, Vec<PartBody>)> = vec![(Role::System, vec![PartBody::Text("be good".to_owned())])];
    for turn in 0..6 {
        contents.push((Role::User, vec![PartBody::Text(words(turn * 7))]));
        for step in 0..3 {
            let id = format!("c{turn}{step}");
            let tool = ["read", "bash", "edit"][step];
            let reply = vec![PartBody::Reasoning(words(20)), PartBody::Text(words(3)), call(&id, tool)];
            contents.push((Role::Assistant, reply));
            contents.push((Role::Tool, vec![result(&id, words(turn * step * 60))]));
        }
        contents.push((Role::Assistant, vec![PartBody::Text(words(2))]));
    }
    contents.push((Role::User, vec![PartBody::Text(String::new())]));
    contents.push((Role::Assistant, vec![call("open", "read")]));
    (1..).zip(contents).map(|(revision, (role, bodies))| message(revision, role, bodies)).collect()
}

fn message(revision: i64, role: Role, bodies: Vec<PartBody>) -> SourceMessage {
    let id = Uuid::from_u128(u128::from(revision.unsigned_abs()));
    let part = |(index, body): (usize, PartBody)| Part {
        id: PartId(Uuid::from_u128(id.as_u128() * 100 + index as u128)),
        client_id: None,
        revision,
        body: body.into(),
        metadata_json: None,
    };
    let usage = Usage { input: 100 * revision, output: 20, ..Usage::default() };
    let reason = (role == Role::Assistant).then_some(FinishReason::Stop);
    let message = Message {
        id: MessageId(id),
        session_id: SessionId(Uuid::nil()),
        client_id: None,
        revision,
        role,
        kind: MessageKind::Normal,
        parts: bodies.into_iter().enumerate().map(part).collect(),
        sealed_revision: Some(revision),
        finish: Finish { reason, usage: reason.map(|_| usage), ..Finish::default() },
        model: "m".to_owned(),
        provider: String::new(),
        create_time: Timestamp(1_700_000_000_000_000 + revision * 1_000_000),
        origin_time: None,
        actor: String::new(),
        metadata_json: None,
        replaces: None,
    };
    SourceMessage { message: message.into(), placement: None, pruned: Vec::new(), counts: None }
}

impl Decoder for Policies {
    fn seeds(&mut self) -> Result<Vec<Input>> {
        let mut seeds = Vec::new();
        for preset in presets::all() {
            let json = serde_json::to_string(&preset.policy())?;
            seeds.push(Input::new("whole", json));
            let name = preset.policy().preset;
            for change in [
                r#"{"trigger":{"auto":false}}"#,
                r#"{"guards":{"minimum_gain_tokens":5,"rearm_ratio":0.1,"breaker_failures":2}}"#,
                r#"{"auto_continue":"go on","retrieval":null}"#,
            ] {
                seeds.push(Input::new(name.clone(), change));
            }
        }
        // A seed need not be a valid override of its preset: only the outcome is checked.
        Ok(seeds)
    }

    fn shape(&self, _: &str) -> Shape {
        Shape::Json
    }

    fn words(&self) -> &'static [&'static str] {
        &[
            "trigger",
            "guards",
            "levels",
            "steps",
            "maintenance",
            "counting",
            "prune",
            "omit",
            "select",
            "summarize",
            "auto",
            "micro",
            "deep",
            "ratio",
            "tokens",
            "chars",
            "keep",
            "0",
            "max_tokens",
            "turns",
            "fraction",
            "render_version",
            "tools",
            "read",
            "bash",
            "placeholder",
            "head",
            "tail",
            "least",
            "share",
            "window",
            "condition",
            "kind",
            "type",
        ]
    }

    fn attempt(&mut self, input: &Input) -> Result<Outcome, String> {
        let text = String::from_utf8_lossy(&input.body);
        let policy = if input.head == "whole" {
            let Ok(policy) = presets::read_policy(&text) else { return Ok(Outcome::Refused) };
            if !validate::validate(&policy).is_empty() {
                return Ok(Outcome::Refused);
            }
            policy
        } else {
            let Some(preset) = presets::find(&input.head) else { return Ok(Outcome::Refused) };
            let Ok(policy) = preset.policy().with_overrides(&text) else { return Ok(Outcome::Refused) };
            policy
        };
        let kept = serde_json::to_string(&policy).map_err(|error| error.to_string())?;
        let again = presets::read_policy(&kept)
            .map_err(|error| format!("a policy that was taken is not read again: {error}"))?;
        if again != policy {
            return Err("a policy that was taken is read again as another one".to_owned());
        }
        self.decide(&policy);
        Ok(Outcome::Taken)
    }
}
