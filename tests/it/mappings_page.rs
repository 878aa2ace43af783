//! The tables of other protocols in `docs/mappings.json`, against the protos: they name only what exists, and leave out no
//! event without a reason. That the protocols take what the tables make is checked by `tests/mappings/run`.

use crate::tidy::root;
use prost_reflect::{DescriptorPool, MessageDescriptor};
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// Steps that are not events, with the messages whose fields they have.
const STEPS: [(&str, &[&str]); 4] =
    [("PartBegun", PART), ("PartGrown", PART), ("PartEnded", PART), ("InterruptedCall", &["InterruptedCall", "Event"])];
const PART: &[&str] = &["Part", "DraftDelta", "TextPart", "ReasoningPart", "ToolCallPart", "ToolResultPart", "Message"];

/// What other calls return for an event, by the message that it is.
const LOOKED_UP: [(&str, &str, &str); 4] = [
    ("ApprovalRequested", "approval", "Approval"),
    ("ApprovalEnded", "approval", "Approval"),
    ("PromptTaken", "prompt", "Prompt"),
    ("UsageRecorded", "session", "Session"),
];

/// A row of a protocol's table.
#[derive(serde::Deserialize)]
pub(crate) struct Row {
    pub(crate) step: String,
    #[serde(rename = "where")]
    pub(crate) conditions: Vec<String>,
    pub(crate) target: String,
    pub(crate) fields: Vec<String>,
}

/// Steps that a protocol does not get, with the reason.
#[derive(serde::Deserialize)]
pub(crate) struct NotSent {
    pub(crate) steps: Vec<String>,
    pub(crate) reason: String,
}

/// What is sent for the steps of a stream.
#[derive(serde::Deserialize)]
pub(crate) struct Table {
    pub(crate) rows: Vec<Row>,
    pub(crate) not_sent: Vec<NotSent>,
}

/// The tables by their protocols.
pub(crate) fn tables() -> BTreeMap<String, Table> {
    let text = fs::read_to_string(root().join("docs/mappings.json")).expect("the tables");
    serde_json::from_str(&text).expect("tables")
}

struct Page {
    tables: BTreeMap<String, Table>,
    pool: DescriptorPool,
}

impl Page {
    fn read() -> Self {
        Self { tables: tables(), pool: longhand::pb::DESCRIPTORS.clone() }
    }

    fn message(&self, name: &str) -> MessageDescriptor {
        self.pool.get_message_by_name(&format!("longhand.v1.{name}")).unwrap_or_else(|| panic!("no message {name}"))
    }

    /// The messages of events, by their names in the steps.
    fn events(&self) -> BTreeSet<String> {
        let event = self.message("Event");
        let body = event.oneofs().find(|oneof| oneof.name() == "body").expect("a body");
        body.fields().map(|field| field.kind().as_message().expect("a message").name().to_owned()).collect()
    }

    /// A finding if a step has no such field, or the field has none of these values.
    fn check(&self, step: &str, path: &str, values: &[&str]) -> Option<String> {
        let mut names = path.split('.');
        let first = names.next().unwrap_or_default();
        let looked_up = LOOKED_UP.iter().find(|(of, name, _)| (*of, *name) == (step, first));
        let mut at: Vec<MessageDescriptor> = match (looked_up, STEPS.iter().find(|(name, _)| *name == step)) {
            (Some((_, _, message)), _) => vec![self.message(message)],
            (None, Some((_, messages))) => messages.iter().map(|name| self.message(name)).collect(),
            (None, None) => vec![self.message(step), self.message("Event")],
        };
        let rest: Vec<&str> = if looked_up.is_some() { names.collect() } else { path.split('.').collect() };
        let (last, inner) = rest.split_last()?;
        for name in inner {
            let next = at.iter().find_map(|message| message.get_field_by_name(name)?.kind().as_message().cloned());
            let Some(next) = next else { return Some(format!("{step} has no message {name} ({path})")) };
            at = vec![next];
        }
        if path == "part" && STEPS.iter().any(|(name, _)| *name == step) {
            let part = self.message("Part");
            return values.iter().find_map(|value| {
                let known = part.get_field_by_name(value).is_some_and(|field| field.containing_oneof().is_some());
                (!known).then(|| format!("no part is a {value}"))
            });
        }
        let fields: Vec<_> = at.iter().filter_map(|message| message.get_field_by_name(last)).collect();
        if fields.is_empty() {
            return Some(format!("{step} has no field {path}"));
        }
        let has = |value: &str| {
            let enums = fields.iter().filter_map(|field| field.kind().as_enum().cloned());
            enums
                .flat_map(|kind| kind.values().map(|of| of.name().to_owned()).collect::<Vec<_>>())
                .any(|of| of == value)
        };
        values.iter().find(|value| !has(value)).map(|value| format!("{path} of {step} is never {value}"))
    }

    /// Findings about the fields that a row reads.
    fn check_row(&self, row: &Row) -> Vec<String> {
        let mut findings = Vec::new();
        for condition in &row.conditions {
            let (path, values) = condition.split_once('=').unwrap_or((condition, ""));
            let values: Vec<&str> = values.split(',').filter(|value| !value.is_empty()).collect();
            findings.extend(self.check(&row.step, path.trim_start_matches('!'), &values));
        }
        let constant = Regex::new(r#"^("|true$|false$|\d)"#).expect("a pattern");
        let function = Regex::new(r"^\w+\((.+)\)$").expect("a pattern");
        for source in row.fields.iter().flat_map(|field| {
            let (_, sources) = field.split_once('=').unwrap_or_else(|| panic!("{field} has no source"));
            sources.split(" ?? ")
        }) {
            if !constant.is_match(source) {
                let path = function.captures(source).map_or(source, |found| found.get(1).map_or("", |of| of.as_str()));
                findings.extend(self.check(&row.step, path, &[]));
            }
        }
        findings
    }
}

#[test]
fn mapping_tables_name_only_what_the_protos_have() {
    let page = Page::read();
    let rows: Vec<&Row> = page.tables.values().flat_map(|table| &table.rows).collect();
    assert!(rows.len() > 60, "{} rows", rows.len());
    let findings: Vec<String> = rows.into_iter().flat_map(|row| page.check_row(row)).collect();
    assert_eq!(findings, Vec::<String>::new());
}

#[test]
fn every_event_is_in_each_mapping_or_in_its_list_of_what_is_not_sent() {
    let page = Page::read();
    let mut known = page.events();
    assert!(known.contains("RunStarted") && known.len() > 30);
    known.extend(STEPS.iter().map(|(name, _)| (*name).to_owned()));
    assert_eq!(page.tables.len(), 3);
    for (protocol, table) in &page.tables {
        let sent: BTreeSet<&String> = table.rows.iter().map(|row| &row.step).collect();
        let not_sent: Vec<&String> = table.not_sent.iter().flat_map(|list| &list.steps).collect();
        let listed: BTreeSet<&String> = not_sent.iter().copied().collect();
        assert!(table.not_sent.iter().all(|list| list.reason.len() > 10), "{protocol}: no reason");
        assert_eq!(listed.len(), not_sent.len(), "{protocol}: listed twice");
        assert_eq!(sent.intersection(&listed).next(), None, "{protocol}: sent and not sent");
        assert_eq!(sent.union(&listed).copied().collect::<BTreeSet<_>>(), known.iter().collect(), "{protocol}");
    }
}

#[test]
fn a_wrong_field_of_a_mapping_is_found() {
    let page = Page::read();
    for (step, path, values, finding) in [
        ("RunEnded", "reasons", &[][..], Some("RunEnded has no field reasons")),
        ("RunEnded", "reason", &["RUN_END_REASON_GONE"][..], Some("reason of RunEnded is never RUN_END_REASON_GONE")),
        ("PartEnded", "part", &["tool"][..], Some("no part is a tool")),
        (
            "ApprovalEnded",
            "approval.question.title",
            &[][..],
            Some("ApprovalEnded has no field approval.question.title"),
        ),
        (
            "RunStarted",
            "approval.question.text",
            &[][..],
            Some("RunStarted has no message approval (approval.question.text)"),
        ),
        ("MessageFinished", "message.role", &["ROLE_ASSISTANT"][..], None),
        ("UsageRecorded", "session.window.max_context_tokens", &[][..], None),
    ] {
        assert_eq!(page.check(step, path, values).as_deref(), finding);
    }
}
