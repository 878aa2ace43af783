//! The rules for secrets on what callers send: every text that is stored passes a `Screen`, behind its other checks.
//!
//! Names and ids are no texts: a placeholder in place of one would break what it joins.

use super::Caller;
use super::error::{Error, Reason, Result};
pub use super::secrets_found::SecretFinding;
use super::secrets_found::{Findings, Found};
use crate::model::approval::{Answer, Question};
use crate::model::message::NewMessage;
use crate::model::part::{Media, MediaSource, NewPart, PartBody};
pub use crate::secrets::Action;
use crate::secrets::{Hit, Rules, Syntax};
use crate::store::{self, OpenPart, Secrets};
use std::fmt::Display;

/// A rule with its use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretRule {
    /// Its name.
    pub name: String,
    /// Its action.
    pub action: Action,
    /// What it found since the start of the daemon.
    pub found: i64,
}

/// The texts of one call on their way through the rules.
pub(super) struct Screen<'a> {
    secrets: &'a Secrets,
    rules: Option<&'a Rules>,
    found: &'a Found,
    /// True if a text was changed: limits are checked again, because placeholders can be longer.
    pub(super) has_changed: bool,
}

impl Caller {
    /// The rules, for the texts of one operation.
    pub(super) fn screen(&self) -> Screen<'_> {
        let secrets = self.store().secrets();
        if secrets.rules().is_some() {
            self.found.with(Findings::begin);
        }
        Screen { secrets, rules: secrets.rules(), found: &self.found, has_changed: false }
    }

    /// What the rules found in the texts of the last operation, in their order.
    pub fn secrets_found(&self) -> Vec<SecretFinding> {
        self.found.with(|findings| findings.list.clone())
    }

    /// The rules with their use.
    pub(super) fn secret_rules(&self) -> Vec<SecretRule> {
        let rule = |(name, action, found): (String, Action, u64)| SecretRule {
            name,
            action,
            found: i64::try_from(found).unwrap_or(i64::MAX),
        };
        self.store().secrets().counts().into_iter().map(rule).collect()
    }

    /// Adds what the store found in the text of a draft.
    pub(super) fn found_in_draft(&self, field: &str, hits: &[Hit]) {
        if let Some(rules) = self.store().secrets().rules() {
            self.found.with(|findings| hits.iter().for_each(|hit| findings.add(field, rules.name(hit.rule), *hit)));
        }
    }

    /// Gathers what all further operations of the call find.
    pub(super) fn gather_found(&self) {
        self.found.with(|findings| *findings = Findings { is_gathered: true, ..Findings::default() });
    }
}

impl Screen<'_> {
    /// Reads a text.
    ///
    /// # Errors
    ///
    /// `SECRET_REFUSED` if a rule refuses it.
    pub(super) fn text(&mut self, field: impl Display + Copy, text: &mut String) -> Result<()> {
        self.read(field, Syntax::Text, text)
    }

    /// Reads JSON, or what is meant to be JSON.
    pub(super) fn json(&mut self, field: impl Display + Copy, json: &mut String) -> Result<()> {
        self.read(field, Syntax::Json, json)
    }

    /// The same for a field that may be absent.
    pub(super) fn optional_json(&mut self, field: impl Display + Copy, json: &mut Option<String>) -> Result<()> {
        json.as_mut().map_or(Ok(()), |json| self.json(field, json))
    }

    /// The same for a text that may be absent.
    pub(super) fn optional_text(&mut self, field: impl Display + Copy, text: &mut Option<String>) -> Result<()> {
        text.as_mut().map_or(Ok(()), |text| self.text(field, text))
    }

    fn read(&mut self, field: impl Display + Copy, syntax: Syntax, text: &mut String) -> Result<()> {
        let Some(rules) = self.rules else { return Ok(()) };
        let redacted = rules.redact(self.secrets.salt(), syntax, text);
        if redacted.hits.is_empty() {
            return Ok(());
        }
        if let Some(hit) = redacted.hits.iter().find(|hit| hit.action == Action::Refuse) {
            self.secrets.count_refused(hit.rule);
            let rule = rules.name(hit.rule);
            return Err(Error::new(Reason::SecretRefused, format!("the rule {rule:?} refuses what {field} has"))
                .with("field", field)
                .with("rule", rule));
        }
        self.secrets.count(&redacted.hits);
        self.found.with(|findings| {
            redacted.hits.iter().for_each(|hit| findings.add(field, rules.name(hit.rule), *hit));
            findings.has_changed |= redacted.text.is_some();
        });
        if let Some(redacted) = redacted.text {
            *text = redacted;
            self.has_changed = true;
        }
        Ok(())
    }

    /// Reads bytes that are a text.
    fn bytes(&mut self, field: impl Display + Copy, syntax: Syntax, bytes: &mut Vec<u8>) -> Result<()> {
        let Ok(text) = std::str::from_utf8(bytes) else { return Ok(()) };
        let (mut text, had_changed) = (text.to_owned(), std::mem::take(&mut self.has_changed));
        self.read(field, syntax, &mut text)?;
        if self.has_changed {
            *bytes = text.into_bytes();
        }
        self.has_changed |= had_changed;
        Ok(())
    }

    fn media(&mut self, field: impl Display + Copy, media: &mut Media) -> Result<()> {
        self.text(format_args!("{field}.name"), &mut media.name)?;
        let is_text = is_text(&media.mime_type);
        match &mut media.source {
            MediaSource::Bytes(bytes) if is_text => self.bytes(format_args!("{field}.data"), Syntax::Text, bytes),
            // Characters of encoded bytes are no text.
            MediaSource::Uri(uri) if !uri.starts_with("data:") => self.text(format_args!("{field}.uri"), uri),
            MediaSource::Bytes(_) | MediaSource::Uri(_) => Ok(()),
        }
    }

    /// Reads a part. What is changed keeps a digest of what was received.
    fn part(&mut self, field: impl Display + Copy, part: &mut NewPart) -> Result<()> {
        let had_changed = std::mem::take(&mut self.has_changed);
        let (mut body, mut metadata_json) = (PartBody::clone(&part.body), part.metadata_json.clone());
        self.optional_json(format_args!("{field}.metadata_json"), &mut metadata_json)?;
        match &mut body {
            PartBody::Text(text) => self.text(format_args!("{field}.text"), text)?,
            PartBody::Reasoning(text) => self.text(format_args!("{field}.reasoning"), text)?,
            PartBody::ToolCall(call) => {
                self.json(format_args!("{field}.tool_call.input_json"), &mut call.input_json)?;
            }
            PartBody::ToolResult(result) => {
                self.text(format_args!("{field}.tool_result.output"), &mut result.output)?;
                for (index, media) in result.attachments.iter_mut().enumerate() {
                    self.media(format_args!("{field}.tool_result.attachments[{index}]"), media)?;
                }
            }
            PartBody::Media(media) => self.media(format_args!("{field}.media"), media)?,
            PartBody::Marker(marker) => self.text(format_args!("{field}.marker.text"), &mut marker.text)?,
            PartBody::Step(step) => {
                self.text(format_args!("{field}.step.finish_reason"), &mut step.finish_reason)?;
            }
            PartBody::Opaque(opaque) => {
                self.bytes(format_args!("{field}.opaque.data"), Syntax::Json, &mut opaque.data)?;
            }
            PartBody::Record(record) => self.json(format_args!("{field}.record.data"), &mut record.data)?,
        }
        if self.has_changed {
            let digest = store::received_part(self.secrets, &part.body, part.metadata_json.as_deref());
            (part.body, part.metadata_json, part.received) = (body.into(), metadata_json, Some(digest));
        }
        self.has_changed |= had_changed;
        Ok(())
    }

    /// Reads the parts of a message.
    pub(super) fn parts(&mut self, field: impl Display + Copy, parts: &mut [NewPart]) -> Result<()> {
        if self.rules.is_none() {
            return Ok(());
        }
        parts
            .iter_mut()
            .enumerate()
            .try_for_each(|(index, part)| self.part(format_args!("{field}.parts[{index}]"), part))
    }

    /// The same of content that is only sent again with its request.
    pub(super) fn parts_of_request(&mut self, field: impl Display + Copy, parts: &mut [NewPart]) -> Result<()> {
        self.parts(field, parts)?;
        parts.iter_mut().for_each(|part| part.received = None);
        Ok(())
    }

    /// Reads what joins an open message.
    pub(super) fn open_parts(&mut self, parts: &mut [OpenPart]) -> Result<()> {
        if self.rules.is_none() {
            return Ok(());
        }
        parts.iter_mut().enumerate().try_for_each(|(index, part)| {
            let field = format_args!("parts[{index}]");
            match part {
                OpenPart::Whole(part) => self.part(field, part),
                OpenPart::Draft(_, metadata_json) => {
                    self.optional_json(format_args!("{field}.metadata_json"), metadata_json)
                }
                OpenPart::Ended(end) => {
                    self.optional_json(format_args!("{field}.metadata_json"), &mut end.metadata_json)
                }
            }
        })
    }

    /// Reads the messages of an append.
    pub(super) fn messages(&mut self, messages: &mut [NewMessage]) -> Result<Vec<Option<[u8; 32]>>> {
        let read =
            |(index, message): (usize, &mut NewMessage)| self.message(format_args!("messages[{index}]"), message);
        messages.iter_mut().enumerate().map(read).collect()
    }

    /// Reads a message. Returns the digest of what was received beside its parts, if that is changed.
    pub(super) fn message(&mut self, field: impl Display + Copy, message: &mut NewMessage) -> Result<Option<[u8; 32]>> {
        if self.rules.is_none() {
            return Ok(None);
        }
        let had_changed = std::mem::take(&mut self.has_changed);
        let detail =
            |message: &NewMessage| message.finish.as_ref().map(|finish| finish.detail.clone()).unwrap_or_default();
        let received = store::received_rest(self.secrets, message.metadata_json.as_deref(), &detail(message));
        self.optional_json(format_args!("{field}.metadata_json"), &mut message.metadata_json)?;
        if let Some(finish) = &mut message.finish {
            self.text(format_args!("{field}.finish.detail"), &mut finish.detail)?;
        }
        let is_changed = self.has_changed;
        self.parts(field, &mut message.parts)?;
        self.has_changed |= had_changed;
        Ok(is_changed.then_some(received))
    }

    /// Reads a question. Names of its choices are texts for people.
    pub(super) fn question(&mut self, question: &mut Question) -> Result<()> {
        self.text("question.text", &mut question.text)?;
        self.optional_json("question.input_json", &mut question.input_json)?;
        question.choices.iter_mut().enumerate().try_for_each(|(index, choice)| {
            self.text(format_args!("question.choices[{index}].label"), &mut choice.label)
        })
    }

    /// Reads an answer.
    pub(super) fn answer(&mut self, answer: &mut Answer) -> Result<()> {
        self.text("text", &mut answer.text)
    }
}

/// True for the MIME types of texts.
fn is_text(mime_type: &str) -> bool {
    let mime_type = mime_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let kinds = ["json", "xml", "yaml", "toml", "javascript", "sql", "x-sh", "x-pem-file", "x-www-form-urlencoded"];
    mime_type.starts_with("text/")
        || mime_type.strip_prefix("application/").is_some_and(|kind| {
            kinds.iter().any(|text| kind == *text || kind.strip_prefix("x-") == Some(text))
                || kind.ends_with("+json")
                || kind.ends_with("+xml")
        })
}
