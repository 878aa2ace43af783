//! Views in the messages of a format.

use super::degraded::DegradedView;
use super::format::Format;
use super::written::{Refusal, WrittenView};
use super::{ai_sdk, anthropic, gemini, openai_chat, openai_responses, prepared, strings};
use longhand_model::view::ViewMessage;

/// Writes the messages of a view.
///
/// # Errors
///
/// The view has something that the format cannot carry.
pub fn write(format: Format, view: &[ViewMessage]) -> Result<WrittenView, Refusal> {
    let (messages, left_out) = prepared::prepare(format, view)?;
    let mut written = match format {
        Format::OpenAiChat => openai_chat::write(&messages),
        Format::OpenAiResponses => openai_responses::write(&messages),
        Format::Anthropic => anthropic::write(&messages),
        Format::Gemini => gemini::write(&messages),
        Format::AiSdk => ai_sdk::write(&messages),
    }?;
    written.left_out = left_out;
    // What is kept as it was written can have halves of letters.
    written.system_json = written.system_json.map(strings::paired);
    for message in &mut written.messages {
        message.json = strings::paired(std::mem::take(&mut message.json));
    }
    Ok(written)
}

/// As `write`, but with a line of text for what the format cannot carry.
///
/// # Errors
///
/// The view cannot be written that way either.
pub fn write_degraded(format: Format, view: &[ViewMessage]) -> Result<WrittenView, Refusal> {
    let mut degraded = DegradedView::new(format, view);
    loop {
        match write(format, &degraded.view) {
            Ok(mut written) => {
                degraded.left_out.append(&mut written.left_out);
                written.left_out = degraded.left_out;
                return Ok(written);
            }
            Err(refusal) if !degraded.replace(&refusal) => return Err(refusal),
            Err(_) => {}
        }
    }
}
