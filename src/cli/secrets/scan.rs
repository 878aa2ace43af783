//! `longhand secrets scan`: applies rules to what is stored, and erases what they find.

use super::rules::RuleArguments;
use crate::cli::erase::confirm;
use crate::cli::failure::{FINDINGS, Usage};
use crate::cli::output::{Output, count};
use crate::cli::{Globals, ids};
use crate::pb;
use crate::pb::erase_content_request::Target;
use crate::pb::media_part::Source;
use crate::pb::part::Body;
use crate::secrets::{Rules, Syntax};
use longhand_client::Client;
use serde::Serialize;
use std::collections::BTreeMap;
use std::process::ExitCode;

/// Sessions or messages requested per page.
const PAGE_SIZE: i32 = 200;

#[derive(Debug, clap::Args)]
pub(super) struct Scan {
    /// Only these sessions, by id, client id, or the last or first digits of an id; default: all of the tenant
    sessions: Vec<String>,
    #[command(flatten)]
    rules: RuleArguments,
    /// Erase the parts in which something is found, and of messages with findings elsewhere all of them
    #[arg(long, requires = "reason")]
    erase: bool,
    /// Reason of the erasures, which stays in the log: write nothing in it of what is to be erased
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Say what would be erased, and change nothing
    #[arg(long, requires = "erase")]
    dry_run: bool,
    /// Do not ask before
    #[arg(long, short, requires = "erase")]
    yes: bool,
}

/// What a rule finds in a text of the store.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
struct StoredSecret {
    session_id: String,
    revision: i64,
    /// Empty for a text of the session itself.
    message_id: String,
    /// Empty for a text of the message itself.
    part_id: String,
    field: &'static str,
    rule: String,
    count: usize,
}

type Field<'m> = (&'static str, Syntax, &'m str);

pub(super) async fn run(globals: &Globals, arguments: Scan) -> anyhow::Result<ExitCode> {
    let Scan { sessions, rules, erase, reason, dry_run, yes } = arguments;
    let rules = rules.read_rules()?;
    let client = globals.client().await?;
    let mut output = globals.output();
    let mut secrets: Vec<StoredSecret> = Vec::new();
    for session in chosen(&client, &sessions).await? {
        let of_session = scan(&client, &rules, &session).await?;
        of_session.iter().try_for_each(|secret| print(&mut output, secret))?;
        output.flush()?;
        secrets.extend(of_session);
    }
    let total = i64::try_from(secrets.iter().map(|secret| secret.count).sum::<usize>()).unwrap_or(i64::MAX);
    if !output.json() {
        let rules = count(i64::try_from(rules.count()).unwrap_or(i64::MAX), "rule");
        output.line(&format!("{} by {rules}", count(total, "finding")))?;
    }
    output.flush()?;
    if !erase || secrets.is_empty() {
        return Ok(if secrets.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(FINDINGS) });
    }
    let targets = targets(&secrets);
    let is_part = |(_, target): &&(String, Target)| matches!(target, Target::PartId(_));
    let parts = targets.iter().filter(is_part).count();
    let counts = [(parts, "part"), (targets.len() - parts, "message")];
    let counts = counts.iter().filter(|(number, _)| *number > 0);
    let counts: Vec<String> =
        counts.map(|(number, thing)| count(i64::try_from(*number).unwrap_or(i64::MAX), thing)).collect();
    let what = counts.join(" and ");
    if !dry_run && !yes {
        confirm(&format!("erase {what} for good, with the summaries of them?"))?;
    }
    let reason = reason.ok_or_else(|| Usage("--reason is missing".to_owned()))?;
    for (session_id, target) in targets {
        let request = pb::EraseContentRequest {
            session_id,
            target: Some(target),
            reason: reason.clone(),
            dry_run,
            ..pb::EraseContentRequest::default()
        };
        let erased = client.call(request).await?;
        if output.json() {
            output.message(&erased)?;
        }
    }
    let of_sessions = secrets.iter().filter(|secret| secret.message_id.is_empty()).count();
    if !output.json() {
        output.line(&format!("{} {what}", if dry_run { "would erase" } else { "erased" }))?;
        if of_sessions > 0 {
            output.line("titles and metadata of sessions stay until they are changed, or their session is erased")?;
        }
    }
    output.flush()?;
    Ok(ExitCode::from(FINDINGS))
}

/// The sessions that are named, or all, archived ones too.
async fn chosen(client: &Client, named: &[String]) -> anyhow::Result<Vec<pb::Session>> {
    let mut sessions = Vec::new();
    for name in named {
        let session_id = ids::session(client, name).await?;
        let request = pb::GetSessionRequest { session_id };
        sessions.extend(client.call(request).await?.session);
    }
    if !named.is_empty() {
        return Ok(sessions);
    }
    let request =
        pb::ListSessionsRequest { page_size: PAGE_SIZE, include_archived: true, ..pb::ListSessionsRequest::default() };
    let mut pages = client.pages(request);
    while let Some(page) = pages.next().await? {
        sessions.extend(page.sessions);
    }
    Ok(sessions)
}

/// What the rules find in a session: in what was written, in records, and in what was derived from it.
async fn scan(client: &Client, rules: &Rules, session: &pb::Session) -> anyhow::Result<Vec<StoredSecret>> {
    let id = &session.session_id;
    let own = [("title", Syntax::Text, session.title.as_str())];
    let metadata = session.metadata_json.as_deref().map(|json| ("metadata_json", Syntax::Json, json));
    let mut secrets = Vec::new();
    let place = StoredSecret {
        session_id: id.clone(),
        revision: session.revision,
        message_id: String::new(),
        part_id: String::new(),
        field: "",
        rule: String::new(),
        count: 0,
    };
    add(&mut secrets, rules, &place, own.into_iter().chain(metadata));
    let request = pb::ListMessagesRequest {
        session_id: id.clone(),
        page_size: PAGE_SIZE,
        include_derived: true,
        ..pb::ListMessagesRequest::default()
    };
    let mut pages = client.pages(request);
    while let Some(page) = pages.next().await? {
        for message in &page.messages {
            let (message_id, revision) = (message.message_id.clone(), message.revision);
            let place = StoredSecret { message_id, revision, ..place.clone() };
            let metadata = message.metadata_json.as_deref().map(|json| ("metadata_json", Syntax::Json, json));
            let detail = message.finish.as_ref().map(|finish| ("finish.detail", Syntax::Text, finish.detail.as_str()));
            add(&mut secrets, rules, &place, metadata.into_iter().chain(detail));
            for part in &message.parts {
                let place = StoredSecret { part_id: part.part_id.clone(), ..place.clone() };
                add(&mut secrets, rules, &place, texts(part));
            }
        }
    }
    Ok(secrets)
}

fn add<'m>(
    found: &mut Vec<StoredSecret>,
    rules: &Rules,
    place: &StoredSecret,
    fields: impl IntoIterator<Item = Field<'m>>,
) {
    for (field, syntax, text) in fields {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for (_, hit) in rules.positions(syntax, text) {
            *counts.entry(rules.name(hit.rule)).or_default() += 1;
        }
        let counts = counts.into_iter();
        found.extend(counts.map(|(rule, count)| StoredSecret { field, rule: rule.to_owned(), count, ..place.clone() }));
    }
}

/// The texts of a part that the rules read in requests as well.
fn texts(part: &pb::Part) -> Vec<Field<'_>> {
    let metadata = part.metadata_json.as_deref().map(|json| ("metadata_json", Syntax::Json, json));
    let mut texts: Vec<Field<'_>> = metadata.into_iter().collect();
    let bytes = |bytes| std::str::from_utf8(bytes).ok();
    match part.body.as_ref() {
        Some(Body::Text(text)) => texts.push(("text", Syntax::Text, &text.text)),
        Some(Body::Reasoning(reasoning)) => texts.push(("reasoning", Syntax::Text, &reasoning.text)),
        Some(Body::ToolCall(call)) => texts.push(("input_json", Syntax::Json, &call.input_json)),
        Some(Body::ToolResult(result)) => {
            texts.push(("output", Syntax::Text, &result.output));
            result.attachments.iter().for_each(|media| texts.extend(of_media(media)));
        }
        Some(Body::Media(media)) => texts.extend(of_media(media)),
        Some(Body::Marker(marker)) => texts.push(("marker", Syntax::Text, &marker.text)),
        Some(Body::Opaque(opaque)) => texts.extend(bytes(&opaque.data).map(|text| ("opaque", Syntax::Json, text))),
        Some(Body::Record(record)) => texts.push(("record", Syntax::Json, &record.data)),
        Some(Body::Step(_)) | None => {}
    }
    texts
}

fn of_media(media: &pb::MediaPart) -> Vec<Field<'_>> {
    let source = match &media.source {
        Some(Source::Data(data)) => std::str::from_utf8(data).ok().map(|text| ("data", Syntax::Text, text)),
        Some(Source::Uri(uri)) => Some(("uri", Syntax::Uri, uri.as_str())),
        None => None,
    };
    source.into_iter().chain([("name", Syntax::Text, media.name.as_str())]).collect()
}

fn print(output: &mut Output, secret: &StoredSecret) -> anyhow::Result<()> {
    if output.json() {
        return output.value(secret);
    }
    let StoredSecret { session_id, revision, message_id, part_id, field, rule, count } = secret;
    let place = [part_id, message_id].into_iter().find(|id| !id.is_empty());
    let place = place.map_or("the session", String::as_str);
    let times = if *count > 1 { format!(", {count} times") } else { String::new() };
    Ok(output.line(&format!("{session_id} #{revision} {place} {field}: {rule}{times}"))?)
}

/// What is to be erased: each part once, and a message that has a finding beside its parts as a whole.
fn targets(found: &[StoredSecret]) -> Vec<(String, Target)> {
    let mut messages: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for secret in found.iter().filter(|secret| !secret.message_id.is_empty()) {
        messages.entry((&secret.session_id, &secret.message_id)).or_default().push(&secret.part_id);
    }
    let mut targets = Vec::new();
    for ((session, message), mut parts) in messages {
        if parts.contains(&"") {
            let message_ids = vec![message.to_owned()];
            targets.push((session.to_owned(), Target::MessageSet(pb::MessageSet { message_ids })));
            continue;
        }
        parts.dedup();
        targets.extend(parts.into_iter().map(|part| (session.to_owned(), Target::PartId(part.to_owned()))));
    }
    targets
}
