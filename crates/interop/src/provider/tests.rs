//! Conversations in each format, read and written again, through the views that Longhand makes of them.

mod cases;
mod compactions;
mod cuts;
mod laws;
mod valid;

use super::{Format, Refusal, WrittenView, read, write};
use longhand_core::fold::form::{Form, FormedView};
use longhand_core::fold::{Fold, FoldInput};
use longhand_core::policy::Policy;
use longhand_model::layout::Layout;
use longhand_model::message::{Finish, Message, NewMessage};
use longhand_model::part::Part;
use longhand_model::time::Timestamp;
use longhand_model::usage::ModelWindow;
use longhand_model::view::{SourceMessage, ViewMessage};
use serde_json::Value;

/// The view of messages as a daemon would show them once they are stored.
fn view(messages: Vec<NewMessage>) -> Vec<ViewMessage> {
    view_in(Form::Newest, messages)
}

/// The same in a form.
fn view_in(form: Form, messages: Vec<NewMessage>) -> Vec<ViewMessage> {
    let mut number = 0_u128;
    let mut next = || {
        number += 1;
        format!("{number:032x}")
    };
    let sources: Vec<SourceMessage> =
        (1..).zip(messages).map(|(revision, given)| source(revision, given, &mut next)).collect();
    let (policy, window) = (Policy::default(), ModelWindow::default());
    let formed = FormedView::new(form, &Layout::everything(), &sources);
    let messages = formed.shown(&sources);
    let input = FoldInput { policy: &policy, messages, changed_revision: 0, window: &window };
    Fold::new(input, None).view.messages
}

fn source(revision: i64, given: NewMessage, next: &mut impl FnMut() -> String) -> SourceMessage {
    let parts = given.parts.into_iter().map(|part| Part {
        id: format!("prt_{}", next()).parse().expect("an id"),
        client_id: part.client_id,
        revision,
        body: part.body,
        metadata_json: part.metadata_json,
    });
    let message = Message {
        parts: parts.collect(),
        id: format!("msg_{}", next()).parse().expect("an id"),
        session_id: format!("ses_{:032x}", 1).parse().expect("an id"),
        client_id: given.client_id,
        revision,
        role: given.role,
        kind: given.kind,
        sealed_revision: Some(revision),
        finish: given.finish.map(|finish| finish.with_view(None)).unwrap_or_else(Finish::default),
        model: given.model,
        provider: given.provider,
        create_time: Timestamp(0),
        origin_time: given.origin_time,
        actor: String::new(),
        metadata_json: given.metadata_json,
        replaces: None,
    };
    SourceMessage { message: message.into(), placement: None, pruned: Vec::new(), counts: None }
}

/// The form of a view in a format.
fn form_of(format: Format) -> Form {
    format.compactor().map_or(Form::Originals, Form::Of)
}

/// What texts become in a format, one after the other in one session.
fn translated(from: Format, texts: &[&str], to: Format) -> Result<WrittenView, Refusal> {
    let messages = texts.iter().flat_map(|text| read(from, text).expect("a text of the format"));
    write(to, &view_in(form_of(to), messages.collect()))
}

/// The messages as one JSON list.
fn list(written: &WrittenView) -> Value {
    Value::Array(written.messages.iter().map(|message| serde_json::from_str(&message.json).expect("JSON")).collect())
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}
