//! `longhand create`, `append`, `finish`, `title`, `archive`, `fork`, `rewind`, `edit` and `pin`: changes of sessions.
//!
//! Each prints the ids that it made, one per line, so that a script can use them: `session=$(longhand create)`.

use super::failure::{self, Usage};
use super::policy_file::PolicyChoice;
use super::provider_format::ProviderFormat;
use super::tokens::tokens;
use super::{Globals, ids, json};
use crate::interop::provider::received;
use crate::pb;
use crate::pb::fork_session_request::Point;
use crate::pb::rewind::Target as End;
use crate::pb::rewind_session_request::Target;
use anyhow::Context as _;
use longhand_client::Client;
use longhand_client::message::{batches, text_part};
use std::io::{IsTerminal as _, Read as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
pub(super) struct CreateArguments {
    /// Id of your own; the same command again returns the same session
    #[arg(long, value_name = "ID")]
    client_id: Option<String>,
    /// Title for people
    #[arg(long, default_value = "")]
    title: String,
    /// Preset, with or without its version, or a file with a policy (.toml or .json); default: the daemon's default
    #[arg(long, value_name = "NAME", default_value = "")]
    preset: String,
    /// JSON object that is merged over the preset's policy
    #[arg(long = "override", value_name = "JSON", default_value = "")]
    policy_override: String,
    /// Model window, in tokens; default: that of the model, or unknown, without automatic compactions
    #[arg(long, value_name = "TOKENS", default_value_t = 0, value_parser = tokens)]
    window: i64,
    /// Maximum output of one reply, in tokens
    #[arg(long, value_name = "TOKENS", value_parser = tokens)]
    max_output: Option<i64>,
    /// Name of the model, whose limits the daemon's table of models has
    #[arg(long, value_name = "NAME", default_value = "")]
    model: String,
    /// Free JSON
    #[arg(long, value_name = "JSON")]
    metadata: Option<String>,
    /// Parent session, by id, client id, or the last or first digits of its id
    #[arg(long, value_name = "SESSION")]
    parent: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(super) struct AppendArguments {
    /// Session, by id, client id, or the last or first digits of its id
    session: String,
    /// Text of the message, or with --format the file; default: standard input
    #[arg(conflicts_with = "messages")]
    text: Option<String>,
    /// Role of its speaker
    #[arg(long, value_name = "ROLE", default_value = "user", conflicts_with = "messages")]
    role: Role,
    /// Id of your own for the message; the same command again appends nothing
    #[arg(long, value_name = "ID", conflicts_with = "messages")]
    client_id: Option<String>,
    /// File of messages, one `NewMessage` of the protocol per line in the protobuf JSON mapping; - for standard input
    #[arg(long, value_name = "FILE")]
    messages: Option<PathBuf>,
    /// Append a provider's request or reply, whole or streamed, from a file; - for standard input
    #[arg(long, value_name = "FORMAT", conflicts_with_all = ["messages", "role", "client_id"])]
    format: Option<ProviderFormat>,
    /// Leave everything after this message out of views first, by id, client id or revision
    #[arg(long, value_name = "MESSAGE")]
    rewind_to: Option<String>,
    /// Leave all messages out of views first
    #[arg(long, conflicts_with = "rewind_to")]
    rewind_all: bool,
    /// Refuse unless the conversation ends with this message, by id, client id or revision
    #[arg(long, value_name = "MESSAGE")]
    expect_last: Option<String>,
    /// Refuse unless the conversation has no message
    #[arg(long, conflicts_with = "expect_last")]
    expect_empty: bool,
    /// New title of the session
    #[arg(long, value_name = "TITLE")]
    title: Option<String>,
    /// New metadata of the session: a JSON object
    #[arg(long, value_name = "JSON")]
    metadata: Option<String>,
}

/// Role of a speaker.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Role {
    User,
    Assistant,
    System,
}

#[derive(Debug, clap::Args)]
pub(super) struct FinishArguments {
    /// Session, by id, client id, or the last or first digits of its id
    session: String,
    /// Open message, by id, client id or revision
    message: String,
    /// Reason of the end
    #[arg(long, value_name = "REASON", default_value = "stop")]
    reason: Reason,
}

/// Reason of the end of a message.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Reason {
    Stop,
    ToolCalls,
    Length,
    ContentFilter,
    Error,
    Aborted,
}

#[derive(Debug, clap::Args)]
pub(super) struct TitleArguments {
    /// Session, by id, client id, or the last or first digits of its id
    session: String,
    /// New title
    title: String,
}

#[derive(Debug, clap::Args)]
pub(super) struct ArchiveArguments {
    /// Session, by id, client id, or the last or first digits of its id
    session: String,
    /// Restore it from the archive instead
    #[arg(long)]
    restore: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct ForkArguments {
    /// Session, by id, client id, or the last or first digits of its id
    session: String,
    /// Last message that the fork shares, by id, client id or revision; default: the newest
    #[arg(long, value_name = "MESSAGE", conflicts_with = "as_of")]
    after: Option<String>,
    /// Revision at which to fork
    #[arg(long, value_name = "REVISION")]
    as_of: Option<i64>,
    /// Id of your own for the fork; the same command again returns the same fork
    #[arg(long, value_name = "ID")]
    client_id: Option<String>,
    /// Title of the fork; default: the original's
    #[arg(long, default_value = "")]
    title: String,
}

#[derive(Debug, clap::Args)]
pub(super) struct RewindArguments {
    /// Session, by id, client id, or the last or first digits of its id
    session: String,
    /// Last message that stays in views, by id, client id or revision
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    message: Option<String>,
    /// Leave all messages out
    #[arg(long)]
    all: bool,
    /// Record a summary of what is left out
    #[arg(long)]
    summarize: bool,
    /// Topics that this summary emphasizes
    #[arg(long, value_name = "TEXT", requires = "summarize", default_value = "")]
    instructions: String,
}

#[derive(Debug, clap::Args)]
pub(super) struct EditArguments {
    /// Session, by id, client id, or the last or first digits of its id
    session: String,
    /// Message, by id, client id or revision; its original stays in the history
    message: String,
    /// Text that replaces it in views; default: standard input
    #[arg(conflicts_with = "remove")]
    text: Option<String>,
    /// Leave the message out of views
    #[arg(long)]
    remove: bool,
    /// Free JSON of the replacement
    #[arg(long, value_name = "JSON", conflicts_with = "remove")]
    metadata: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(super) struct PinArguments {
    /// Session, by id, client id, or the last or first digits of its id
    session: String,
    /// Message, by id, client id or revision
    message: String,
    /// Remove the pin
    #[arg(long)]
    remove: bool,
}

/// The text of an argument, or of standard input without its last line break.
pub(super) fn text_or_input(text: Option<String>) -> anyhow::Result<String> {
    let is_given = text.is_some();
    if !is_given && std::io::stdin().is_terminal() {
        failure::note("reads the text from standard input; Ctrl-D ends it");
    }
    let mut input = text.map_or_else(|| read_text(Path::new("-")), Ok)?;
    if !is_given && input.ends_with('\n') {
        input.pop();
    }
    if input.is_empty() {
        return Err(Usage("there is no text, neither as an argument nor on standard input".to_owned()).into());
    }
    Ok(input)
}

/// The content of a file; `-` is standard input.
fn read_text(path: &Path) -> anyhow::Result<String> {
    String::from_utf8(read_bytes(path)?).with_context(|| path.display().to_string())
}

/// What came from a provider, without a letter that broke off at its end; `-` is standard input.
fn read_received(path: &Path) -> anyhow::Result<String> {
    let bytes = read_bytes(path)?;
    Ok(received(&bytes).with_context(|| path.display().to_string())?.to_owned())
}

fn read_bytes(path: &Path) -> anyhow::Result<Vec<u8>> {
    if path == Path::new("-") {
        let mut input = Vec::new();
        std::io::stdin().read_to_end(&mut input).context("standard input")?;
        return Ok(input);
    }
    std::fs::read(path).with_context(|| path.display().to_string())
}

/// The messages of a file, one per line.
fn parse_messages(lines: &str) -> anyhow::Result<Vec<pb::NewMessage>> {
    let filled = (1..).zip(lines.lines()).filter(|(_, line)| !line.trim().is_empty());
    let parse = |(number, line)| json::decode(line).map_err(|error| Usage(format!("line {number}: {error:#}")));
    Ok(filled.map(parse).collect::<Result<_, _>>()?)
}

/// The messages in requests of a size that the daemon takes.
fn requests(session: &str, messages: Vec<pb::NewMessage>) -> Vec<pb::AppendMessagesRequest> {
    let request = |messages| {
        let session_id = session.to_owned();
        pb::AppendMessagesRequest { session_id, messages, ..pb::AppendMessagesRequest::default() }
    };
    batches(messages).into_iter().map(request).collect()
}

pub(super) async fn create(globals: &Globals, arguments: CreateArguments) -> anyhow::Result<ExitCode> {
    let choice = PolicyChoice::from_name(arguments.preset)?;
    let client = globals.client().await?;
    let mut output = globals.output();
    let window = pb::ModelWindow {
        model: arguments.model,
        max_context_tokens: arguments.window,
        max_output_tokens: arguments.max_output,
        ..pb::ModelWindow::default()
    };
    let request = pb::CreateSessionRequest {
        client_id: arguments.client_id,
        title: arguments.title,
        preset: choice.preset(),
        policy_override_json: arguments.policy_override,
        policy_json: choice.policy_json,
        window: Some(window),
        metadata_json: arguments.metadata,
        parent_session_id: ids::optional_session(&client, arguments.parent).await?,
        keep_erased: false,
    };
    let created = client.call(request).await?;
    failure::note_secrets(&created.secret_findings);
    for threshold in created.session.iter().flat_map(|session| &session.thresholds) {
        threshold.unmet_message.iter().for_each(|message| failure::note(&format!("longhand: {message}")));
    }
    if let Some(window) = created.session.as_ref().and_then(|session| session.window.as_ref()) {
        failure::note_unknown_model(window);
    }
    match output.json() {
        true => output.message(&created)?,
        false => output.line(&created.session.unwrap_or_default().session_id)?,
    }
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// The rewind that comes with an append or a prompt.
pub(super) async fn rewind_before(
    client: &Client,
    session: &str,
    to: Option<String>,
    all: bool,
) -> anyhow::Result<Option<pb::Rewind>> {
    let to = ids::optional_message(client, session, to).await?;
    let target = to.map(End::MessageId).or(all.then_some(End::ToStart(true)));
    Ok(target.map(|target| pb::Rewind { target: Some(target) }))
}

pub(super) async fn append(globals: &Globals, arguments: AppendArguments) -> anyhow::Result<ExitCode> {
    let mut provider_content = None;
    let messages = match (&arguments.messages, arguments.format) {
        (Some(file), _) => parse_messages(&read_text(file)?)?,
        (None, Some(format)) => {
            let json = read_received(Path::new(arguments.text.as_deref().unwrap_or("-")))?;
            let format = pb::MessageFormat::from(format).into();
            provider_content = Some(pb::ProviderContent { format, json, ..pb::ProviderContent::default() });
            Vec::new()
        }
        (None, None) => {
            let role = match arguments.role {
                Role::User => pb::Role::User,
                Role::Assistant => pb::Role::Assistant,
                Role::System => pb::Role::System,
            };
            let parts = vec![text_part(text_or_input(arguments.text)?)];
            let client_id = arguments.client_id;
            vec![pb::NewMessage { client_id, role: role.into(), parts, ..pb::NewMessage::default() }]
        }
    };
    let client = globals.client().await?;
    let mut output = globals.output();
    let session = ids::session(&client, &arguments.session).await?;
    let mut requests = match provider_content {
        None => requests(&session, messages),
        Some(_) => vec![pb::AppendMessagesRequest {
            session_id: session.clone(),
            provider_content,
            ..pb::AppendMessagesRequest::default()
        }],
    };
    // Of many messages, only the first request can expect what was there before it.
    if let Some(first) = requests.first_mut() {
        first.rewind = rewind_before(&client, &session, arguments.rewind_to, arguments.rewind_all).await?;
        let last = ids::optional_message(&client, &session, arguments.expect_last).await?;
        first.expected_last_message_id = last.or(arguments.expect_empty.then(String::new));
        (first.title, first.metadata_json) = (arguments.title, arguments.metadata);
    }
    for request in requests {
        let appended = client.call(request).await?;
        failure::note_secrets(&appended.secret_findings);
        match output.json() {
            true => output.message(&appended)?,
            false => appended.message_ids.iter().try_for_each(|id| output.line(id))?,
        }
        // Appended messages stay, even if a later request is refused.
        output.flush()?;
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn finish(globals: &Globals, arguments: FinishArguments) -> anyhow::Result<ExitCode> {
    let client = globals.client().await?;
    let mut output = globals.output();
    let reason = match arguments.reason {
        Reason::Stop => pb::FinishReason::Stop,
        Reason::ToolCalls => pb::FinishReason::ToolCalls,
        Reason::Length => pb::FinishReason::Length,
        Reason::ContentFilter => pb::FinishReason::ContentFilter,
        Reason::Error => pb::FinishReason::Error,
        Reason::Aborted => pb::FinishReason::Aborted,
    };
    let session_id = ids::session(&client, &arguments.session).await?;
    let message_id = ids::message(&client, &session_id, &arguments.message).await?;
    let request = pb::FinishMessageRequest {
        session_id,
        message_id,
        finish: Some(pb::Finish { reason: reason.into(), ..pb::Finish::default() }),
        ..pb::FinishMessageRequest::default()
    };
    let finished = client.call(request).await?;
    match output.json() {
        true => output.message(&finished)?,
        false => output.line(&format!("finished {}, at revision {}", arguments.message, finished.revision))?,
    }
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn title(globals: &Globals, arguments: TitleArguments) -> anyhow::Result<ExitCode> {
    let client = globals.client().await?;
    let mut output = globals.output();
    let TitleArguments { session, title } = arguments;
    let session_id = ids::session(&client, &session).await?;
    let request = pb::UpdateSessionRequest { session_id, title: Some(title), ..pb::UpdateSessionRequest::default() };
    let updated = client.call(request).await?;
    failure::note_secrets(&updated.secret_findings);
    match output.json() {
        true => output.message(&updated)?,
        false => output.line(&format!("titled, at revision {}", updated.revision))?,
    }
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn archive(globals: &Globals, arguments: ArchiveArguments) -> anyhow::Result<ExitCode> {
    let client = globals.client().await?;
    let mut output = globals.output();
    let ArchiveArguments { session, restore } = arguments;
    let session_id = ids::session(&client, &session).await?;
    let request = pb::ArchiveSessionRequest { session_id, restore, ..pb::ArchiveSessionRequest::default() };
    let archived = client.call(request).await?;
    let done = if restore { "restored" } else { "archived" };
    match output.json() {
        true => output.message(&archived)?,
        false => output.line(&format!("{done}, at revision {}", archived.revision))?,
    }
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn fork(globals: &Globals, arguments: ForkArguments) -> anyhow::Result<ExitCode> {
    let client = globals.client().await?;
    let mut output = globals.output();
    let session_id = ids::session(&client, &arguments.session).await?;
    let message_id = ids::optional_message(&client, &session_id, arguments.after).await?;
    let request = pb::ForkSessionRequest {
        session_id,
        point: message_id.map(Point::MessageId).or(arguments.as_of.map(Point::AsOfRevision)),
        client_id: arguments.client_id,
        title: arguments.title,
    };
    let forked = client.call(request).await?;
    failure::note_secrets(&forked.secret_findings);
    match output.json() {
        true => output.message(&forked)?,
        false => output.line(&forked.session.unwrap_or_default().session_id)?,
    }
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn rewind(globals: &Globals, arguments: RewindArguments) -> anyhow::Result<ExitCode> {
    let client = globals.client().await?;
    let mut output = globals.output();
    let instruction = arguments.instructions;
    let session_id = ids::session(&client, &arguments.session).await?;
    let message_id = ids::optional_message(&client, &session_id, arguments.message).await?;
    let request = pb::RewindSessionRequest {
        session_id,
        target: Some(message_id.map_or(Target::ToStart(true), Target::MessageId)),
        branch_summary: arguments.summarize.then_some(pb::BranchSummary { instructions: instruction }),
        ..pb::RewindSessionRequest::default()
    };
    let rewound = client.call(request).await?;
    failure::note_secrets(&rewound.secret_findings);
    if output.json() {
        output.message(&rewound)?;
    } else {
        let summary = rewound.summary_message_id.map(|id| format!(", with summary {id}")).unwrap_or_default();
        output.line(&format!("rewound{summary}, at revision {}", rewound.revision))?;
    }
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn edit(globals: &Globals, arguments: EditArguments) -> anyhow::Result<ExitCode> {
    let parts = match arguments.remove {
        true => Vec::new(),
        false => vec![text_part(text_or_input(arguments.text)?)],
    };
    let client = globals.client().await?;
    let mut output = globals.output();
    let session_id = ids::session(&client, &arguments.session).await?;
    let message_id = ids::message(&client, &session_id, &arguments.message).await?;
    let request = pb::EditMessageRequest {
        session_id,
        message_id,
        parts,
        remove: arguments.remove,
        metadata_json: arguments.metadata,
        ..pb::EditMessageRequest::default()
    };
    let edited = client.call(request).await?;
    failure::note_secrets(&edited.secret_findings);
    match output.json() {
        true => output.message(&edited)?,
        false if arguments.remove => output.line(&format!("removed, at revision {}", edited.revision))?,
        false => output.line(edited.replacement_message_id())?,
    }
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn pin(globals: &Globals, arguments: PinArguments) -> anyhow::Result<ExitCode> {
    let client = globals.client().await?;
    let mut output = globals.output();
    let PinArguments { session, message, remove } = arguments;
    let session_id = ids::session(&client, &session).await?;
    let message_id = ids::message(&client, &session_id, &message).await?;
    let request = pb::PinMessageRequest { session_id, message_id, unpin: remove, ..pb::PinMessageRequest::default() };
    let pinned = client.call(request).await?;
    let done = if remove { "unpinned" } else { "pinned" };
    match output.json() {
        true => output.message(&pinned)?,
        false => output.line(&format!("{done}, at revision {}", pinned.revision))?,
    }
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_no_message_is_named() {
        let lines = "{\"role\":\"ROLE_USER\",\"parts\":[{\"text\":{\"text\":\"hi\"}}]}\n\n{\"rolle\":1}\n";
        let error = parse_messages(lines).expect_err("the third line is none").to_string();
        assert!(error.starts_with("line 3: "), "{error}");
        assert_eq!(parse_messages(&lines[..lines.len() - 13]).expect("one message").len(), 1);
    }
}
