//! Validation of policies.

use super::violation::{Check, Violation};
use super::{
    LevelPolicy, Limit, Notice, Omission, PROMPT_BYTES_MAX, Policy, PolicyStep, RENDER_VERSION, Section, Summarize,
    Summary, SummaryFormat, Tail, Truncate,
};
use crate::model::limits::BREAKER_FAILURES_MAX;
use crate::model::usage::ModelWindow;
use std::collections::HashSet;

/// All violations in the policy; empty if it can be used.
pub fn validate(policy: &Policy) -> Vec<Violation> {
    let mut check = Check::default();
    check.that(!policy.preset.is_empty(), "preset", "must name a preset");
    let versions = 1..=RENDER_VERSION;
    check.that(versions.contains(&policy.render_version), "render_version", "must be a version that there is");
    check.that(policy.counting.units_per_token >= 1, "counting.units_per_token", "must be at least 1");
    if let Some(rule) = &policy.truncate {
        check_truncate(&mut check, rule, "truncate");
    }
    check.wait(policy.guards.cooldown_seconds, "guards.cooldown_seconds");
    check_steps(&mut check, &policy.maintenance, "maintenance");
    for (level, level_policy) in policy.levels() {
        check_level(&mut check, level_policy, level.name());
    }
    if let Some(retrieval) = &policy.retrieval {
        check.that(retrieval.budget_tokens >= 1, "retrieval.budget_tokens", "must be at least 1");
        let fits = (1..=retrieval.budget_tokens).contains(&retrieval.passage_tokens);
        check.that(fits, "retrieval.passage_tokens", "must be between 1 and budget_tokens");
    }
    let says_something = policy.auto_continue.as_ref().is_none_or(|words| !words.trim().is_empty());
    check.that(says_something, "auto_continue", "must have words in it");
    let says_something = policy.view.resume_text.as_ref().is_none_or(|words| !words.trim().is_empty());
    check.that(says_something, "view.resume_text", "must have words in it");
    check.not_negative(policy.guards.minimum_gain_tokens.unwrap_or(0), "guards.minimum_gain_tokens");
    let breaker = 1..=BREAKER_FAILURES_MAX;
    check.that(breaker.contains(&policy.guards.breaker_failures), "guards.breaker_failures", "must be from 1 to 32");
    check.that(policy.guards.max_attempts >= 1, "guards.max_attempts", "must be at least 1");
    check.share(policy.guards.rearm_ratio, "guards.rearm_ratio");
    check.violations
}

/// The violations of the policy under a window: a tail that leaves no room in it. Empty if the window is unknown.
///
/// A preset has the values of its agent, whatever the window, so only values chosen by a person are checked: those that
/// differ from `start`.
pub fn validate_for(policy: &Policy, start: Option<&Policy>, window: &ModelWindow) -> Vec<Violation> {
    let mut check = Check::default();
    let Some(room) = window.input_max() else { return check.violations };
    let given = |level, index: usize| match start?.level(level)?.steps.get(index)? {
        PolicyStep::Summarize(rule) => Some(&rule.tail),
        PolicyStep::Prune(_) | PolicyStep::Omit(_) => None,
    };
    for (level, level_policy) in policy.levels() {
        for (index, step) in level_policy.steps.iter().enumerate() {
            let PolicyStep::Summarize(rule) = step else { continue };
            if given(level, index) == Some(&rule.tail) {
                continue;
            }
            let (field, tokens) = match &rule.tail {
                Tail::Recent(tail) => ("recent.keep_tokens", tail.keep_tokens),
                Tail::Turns(tail) => ("turns.minimum_budget_tokens", tail.minimum_budget_tokens),
                Tail::Requests(tail) => ("requests.keep_tokens", tail.keep_tokens.unwrap_or(0)),
                Tail::Nothing | Tail::Whole { .. } | Tail::Fraction(_) | Tail::Last(_) => continue,
            };
            let path = format!("{}.steps.{index}.summarize.tail.{field}", level.name());
            check.that(tokens < room, &path, &format!("must be less than the {room} tokens of the window"));
        }
    }
    check.violations
}

pub(super) fn check_truncate(check: &mut Check, rule: &Truncate, path: &str) {
    check.share(rule.head_ratio, &format!("{path}.head_ratio"));
}

fn check_level(check: &mut Check, level_policy: &LevelPolicy, path: &str) {
    let threshold = format!("{path}.threshold");
    check.not_negative(level_policy.threshold.minimum_tokens, &format!("{threshold}.minimum_tokens"));
    check_limit(check, &level_policy.threshold.limit, &format!("{threshold}.limit"));
    if let Notice::Confirm { wait_seconds, .. } = &level_policy.notice {
        check.wait(*wait_seconds, &format!("{path}.notice.confirm.wait_seconds"));
    }
    check.that(!level_policy.steps.is_empty(), &format!("{path}.steps"), "must have a step");
    check_steps(check, &level_policy.steps, &format!("{path}.steps"));
}

fn check_limit(check: &mut Check, limit: &Limit, path: &str) {
    match limit {
        Limit::Usable { buffer_tokens, output_cap_tokens, reserved_tokens } => {
            check.not_negative(*buffer_tokens, &format!("{path}.usable.buffer_tokens"));
            check.not_negative(reserved_tokens.unwrap_or(0), &format!("{path}.usable.reserved_tokens"));
            check.not_negative(*output_cap_tokens, &format!("{path}.usable.output_cap_tokens"));
        }
        Limit::Reserve(tokens) => check.not_negative(*tokens, &format!("{path}.reserve_tokens")),
        Limit::Ratio(ratio) => check.share(*ratio, &format!("{path}.ratio")),
        Limit::Tokens(tokens) => check.not_negative(*tokens, &format!("{path}.tokens")),
        Limit::Buffered { ratio, reserve_tokens, floor_ratio } => {
            check.share(*ratio, &format!("{path}.buffered.ratio"));
            check.not_negative(*reserve_tokens, &format!("{path}.buffered.reserve_tokens"));
            check.share(*floor_ratio, &format!("{path}.buffered.floor_ratio"));
        }
        Limit::Relative { limit, offset_tokens: _, reserve_tokens } => {
            check_limit(check, limit, &format!("{path}.relative.limit"));
            check.not_negative(reserve_tokens.unwrap_or(0), &format!("{path}.relative.reserve_tokens"));
        }
        Limit::Models { models, otherwise_tokens } => {
            for (index, model) in models.iter().enumerate() {
                check.not_negative(model.tokens, &format!("{path}.models.models.{index}.tokens"));
            }
            check.not_negative(*otherwise_tokens, &format!("{path}.models.otherwise_tokens"));
        }
        Limit::Steps { steps, otherwise_reserve_tokens } => {
            for (index, step) in steps.iter().enumerate() {
                check.not_negative(step.reserve_tokens, &format!("{path}.steps.steps.{index}.reserve_tokens"));
            }
            let falling = steps.windows(2).all(|pair| pair[0].context_tokens > pair[1].context_tokens);
            check.that(falling, &format!("{path}.steps.steps"), "must begin with the largest context");
            check.not_negative(*otherwise_reserve_tokens, &format!("{path}.steps.otherwise_reserve_tokens"));
        }
    }
}

fn check_steps(check: &mut Check, steps: &[PolicyStep], path: &str) {
    for (index, step) in steps.iter().enumerate() {
        match step {
            PolicyStep::Prune(prune) => prune.check(check, &format!("{path}.{index}.prune")),
            PolicyStep::Omit(omission) => check_omission(check, omission, &format!("{path}.{index}.omit")),
            PolicyStep::Summarize(rule) => check_summarize(check, rule, &format!("{path}.{index}.summarize")),
        }
    }
}

fn check_omission(check: &mut Check, omission: &Omission, path: &str) {
    match omission {
        Omission::Last(rule) => check.that(rule.messages >= 1, &format!("{path}.last.messages"), "must be at least 1"),
        Omission::Named(named) => {
            if let Some(strategy) = named.omission() {
                strategy.check(check, path);
            }
        }
    }
}

fn check_summarize(check: &mut Check, rule: &Summarize, path: &str) {
    match &rule.tail {
        Tail::Turns(tail) => {
            let path = format!("{path}.tail.turns");
            check.share(tail.budget_ratio, &format!("{path}.budget_ratio"));
            check.not_negative(tail.minimum_budget_tokens, &format!("{path}.minimum_budget_tokens"));
            let ordered = tail.max_budget_tokens >= tail.minimum_budget_tokens;
            check.that(ordered, &format!("{path}.max_budget_tokens"), "must not be less than minimum_budget_tokens");
        }
        Tail::Recent(tail) => check.not_negative(tail.keep_tokens, &format!("{path}.tail.recent.keep_tokens")),
        Tail::Fraction(tail) => tail.check(check, &format!("{path}.tail.fraction")),
        Tail::Requests(tail) => {
            let tokens = tail.keep_tokens.unwrap_or(1);
            check.that(tokens >= 1, &format!("{path}.tail.requests.keep_tokens"), "must be at least 1");
        }
        Tail::Nothing | Tail::Whole { .. } | Tail::Last(_) => {}
    }
    for (index, omission) in rule.fallback.iter().enumerate() {
        check_omission(check, omission, &format!("{path}.fallback.{index}"));
    }
    check_summary(check, &rule.summary, &format!("{path}.summary"));
}

fn check_summary(check: &mut Check, summary: &Summary, path: &str) {
    check.that(summary.max_tokens >= 1, &format!("{path}.max_tokens"), "must be at least 1");
    let has_topic = summary.sections.iter().any(|section| section.topic.is_some());
    check.that(has_topic, &format!("{path}.sections"), "must have a section with a topic");
    if let SummaryFormat::Elements { root } = &summary.format {
        check.that(is_name(root), &format!("{path}.format.elements.root"), "must be the name of an element");
    }
    check.not_negative(summary.facts_tokens, &format!("{path}.facts_tokens"));
    check.not_negative(summary.words_tokens, &format!("{path}.words_tokens"));
    let style = &summary.prompt;
    let names = [("thoughts_tag", style.thoughts_tag.as_ref()), ("answer_tag", style.answer_tag.as_ref())];
    for (field, name) in names {
        let usable = name.is_none_or(|name| is_name(name));
        check.that(usable, &format!("{path}.prompt.{field}"), "must be the name of an element");
    }
    let is_task = |task: &String| !task.trim().is_empty() && task.len() <= PROMPT_BYTES_MAX;
    let says = format!("must have words, {} bytes of them at most", PROMPT_BYTES_MAX);
    check.that(style.task.as_ref().is_none_or(is_task), &format!("{path}.prompt.task"), &says);
    let is_rule = |rule: &String| !rule.trim().is_empty() && !rule.contains('\n');
    let length: usize = style.rules.iter().map(String::len).sum();
    let are_rules = style.rules.iter().all(is_rule) && length <= PROMPT_BYTES_MAX;
    let says = format!("must be lines with words, {} bytes at most", PROMPT_BYTES_MAX);
    check.that(are_rules, &format!("{path}.prompt.rules"), &says);
    check_sections(check, &summary.sections, &format!("{path}.sections"));
    if let Some(split_turn) = &summary.split_turn {
        let has_topic = split_turn.sections.iter().any(|section| section.topic.is_some());
        let path = format!("{path}.split_turn.sections");
        check.that(has_topic, &path, "must have a section with a topic");
        check_sections(check, &split_turn.sections, &path);
    }
}

fn check_sections(check: &mut Check, sections: &[Section], path: &str) {
    let mut topics = HashSet::new();
    for (index, section) in sections.iter().enumerate() {
        let path = format!("{path}.{index}");
        let heading = section.heading.trim();
        let one_line = !heading.is_empty() && !heading.contains('\n');
        check.that(one_line, &format!("{path}.heading"), "must be one line with words in it");
        let repeated = section.topic.is_some_and(|topic| !topics.insert(topic));
        check.that(!repeated, &format!("{path}.topic"), "must not repeat an earlier section's");
    }
}

/// True if a text can be the name of an element.
fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|character| character.is_ascii_alphanumeric() || "_-".contains(character))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::LargeResults;
    use crate::policy::Tools;
    use crate::policy::{LastTurns, Recent};
    use crate::policy::{Prune, samples};

    /// Applies a change to a preset and checks the names of the fields with violations.
    fn check(preset: &str, change: fn(&mut Policy), expected: &[&str]) {
        let mut policy = samples::policy(preset);
        change(&mut policy);
        let fields: Vec<_> = validate(&policy).into_iter().map(|violation| violation.field).collect();
        assert_eq!(fields, expected);
    }

    /// Names of tools, one of them invalid.
    fn unnamed() -> Vec<String> {
        vec!["read".to_owned(), String::new()]
    }

    fn prune(policy: &mut Policy) -> &mut Prune {
        let Some(PolicyStep::Prune(prune)) = policy.maintenance.first_mut() else { panic!("a prune") };
        prune
    }

    fn summarize(policy: &mut Policy) -> &mut Summarize {
        let steps = policy.auto.iter_mut().flat_map(|level_policy| &mut level_policy.steps);
        let rules = steps.filter_map(|step| match step {
            PolicyStep::Summarize(rule) => Some(rule.as_mut()),
            PolicyStep::Prune(_) | PolicyStep::Omit(_) => None,
        });
        rules.last().expect("a summary")
    }

    fn limit(policy: &mut Policy) -> &mut Limit {
        &mut policy.auto.as_mut().expect("a level").threshold.limit
    }

    #[test]
    fn each_bad_value_is_named_by_its_field() {
        let summary = "auto.steps.0.summarize.summary";
        check("pi@1.5", |policy| policy.counting.units_per_token = 0, &["counting.units_per_token"]);
        check("pi@1.5", |policy| policy.render_version = 0, &["render_version"]);
        check("pi@1.5", |policy| policy.preset.clear(), &["preset"]);
        check("pi@1.5", |policy| policy.guards.minimum_gain_tokens = Some(-1), &["guards.minimum_gain_tokens"]);
        check("opencode@seed", |policy| policy.auto_continue = Some(" ".into()), &["auto_continue"]);
        check("pi@1.5", |policy| policy.guards.max_attempts = 0, &["guards.max_attempts"]);
        check("pi@1.5", |policy| policy.guards.breaker_failures = 0, &["guards.breaker_failures"]);
        check("pi@1.5", |policy| policy.guards.breaker_failures = 33, &["guards.breaker_failures"]);
        check("pi@1.5", |policy| policy.auto.as_mut().expect("a level").steps.clear(), &["auto.steps"]);
        check(
            "opencode@seed",
            |policy| prune(policy).tools = Tools::Except(unnamed()),
            &["maintenance.0.prune.tools.except"],
        );
        check(
            "opencode@seed",
            |policy| prune(policy).tools = Tools::Only(unnamed()),
            &["maintenance.0.prune.tools.only"],
        );
        check(
            "opencode@seed",
            |policy| prune(policy).tools = Tools::Only(Vec::new()),
            &["maintenance.0.prune.tools.only"],
        );
        check("pi@1.5", |policy| summarize(policy).summary.max_tokens = 0, &[&format!("{summary}.max_tokens")]);
        check("pi@1.5", |policy| summarize(policy).summary.sections.clear(), &[&format!("{summary}.sections")]);
        check(
            "pi@1.5",
            |policy| summarize(policy).summary.sections[1].heading = " ".into(),
            &[&format!("{summary}.sections.1.heading")],
        );
        check(
            "pi@1.5",
            |policy| {
                let sections = &mut summarize(policy).summary.sections;
                sections[1].topic = sections[0].topic;
            },
            &[&format!("{summary}.sections.1.topic")],
        );
        check(
            "pi@1.5",
            |policy| {
                let summary = &mut summarize(policy).summary;
                (summary.facts_tokens, summary.words_tokens) = (-1, -1);
                summary.prompt.task = Some(" ".into());
                summary.prompt.rules = vec!["a\nb".into()];
                summary.prompt.thoughts_tag = Some(String::new());
                summary.prompt.answer_tag = Some("<x>".into());
                summary.split_turn.iter_mut().for_each(|split_turn| split_turn.sections.clear());
            },
            &[
                "facts_tokens",
                "words_tokens",
                "prompt.thoughts_tag",
                "prompt.answer_tag",
                "prompt.task",
                "prompt.rules",
                "split_turn.sections",
            ]
            .map(|field| format!("{summary}.{field}"))
            .each_ref()
            .map(String::as_str),
        );
        check(
            "pi@1.5",
            |policy| {
                summarize(policy).tail = Tail::Recent(Recent { keep_tokens: -1, large_results: LargeResults::WithCall })
            },
            &["auto.steps.0.summarize.tail.recent.keep_tokens"],
        );
        check("pi@1.5", |policy| *limit(policy) = Limit::Reserve(-1), &["auto.threshold.limit.reserve_tokens"]);
        check("pi@1.5", |policy| *limit(policy) = Limit::Ratio(1.5), &["auto.threshold.limit.ratio"]);
        check(
            "opencode@seed",
            |policy| {
                *limit(policy) = Limit::Usable { buffer_tokens: -1, output_cap_tokens: -2, reserved_tokens: Some(-3) }
            },
            &[
                "auto.threshold.limit.usable.buffer_tokens",
                "auto.threshold.limit.usable.reserved_tokens",
                "auto.threshold.limit.usable.output_cap_tokens",
            ],
        );
        check(
            "opencode@seed",
            |policy| {
                let Some(PolicyStep::Prune(prune)) = policy.maintenance.first_mut() else { panic!("a prune") };
                (prune.keep.tokens, prune.minimum_tokens) = (-1, -1);
            },
            &["maintenance.0.prune.keep.tokens", "maintenance.0.prune.minimum_tokens"],
        );
    }

    #[test]
    fn a_tail_budget_is_a_share_and_its_bounds_are_in_order() {
        let path = |field: &str| format!("auto.steps.0.summarize.tail.turns.{field}");
        for (budget_ratio, minimum_budget_tokens, max_budget_tokens, expected) in [
            (1.5, 0, 1, Some("budget_ratio")),
            (-0.1, 0, 1, Some("budget_ratio")),
            (f64::NAN, 0, 1, Some("budget_ratio")),
            (0.5, -1, 1, Some("minimum_budget_tokens")),
            (0.5, 2, 1, Some("max_budget_tokens")),
            (0.0, 0, 0, None),
            (1.0, 5, 5, None),
        ] {
            let mut policy = samples::policy("opencode@seed");
            summarize(&mut policy).tail = Tail::Turns(LastTurns {
                turns: Some(1),
                budget_ratio,
                minimum_budget_tokens,
                max_budget_tokens,
                whole: false,
            });
            let fields: Vec<_> = validate(&policy).into_iter().map(|violation| violation.field).collect();
            assert_eq!(fields, expected.map(path).into_iter().collect::<Vec<_>>(), "{budget_ratio}");
        }
    }

    #[test]
    fn a_tail_must_leave_room_in_the_window() {
        let field = |preset: &str, tokens: &str| format!("{preset} auto.steps.0.summarize.tail.{tokens}");
        for (preset, context, expected) in [
            ("pi@1.5", 20_000, vec![field("pi@1.5", "recent.keep_tokens")]),
            ("pi@1.5", 20_001, vec![]),
            ("codex@2026-08", 20_000, vec![field("codex@2026-08", "requests.keep_tokens")]),
            ("opencode@1.18", 2_000, vec![field("opencode@1.18", "turns.minimum_budget_tokens")]),
            ("opencode@1.18", 2_001, vec![]),
            ("claude-code@seed", 17_000, vec![]),
            ("pi@1.5", 0, vec![]),
        ] {
            let policy = samples::policy(preset);
            let window = ModelWindow { context, output: Some(16_001.min(context)), ..ModelWindow::default() };
            assert_eq!(validate_for(&policy, Some(&policy), &window), [], "{preset} is as it is");
            let found =
                validate_for(&policy, None, &window).into_iter().map(|found| format!("{preset} {}", found.field));
            assert_eq!(found.collect::<Vec<_>>(), expected, "{preset} in {context}");
        }
    }
}
