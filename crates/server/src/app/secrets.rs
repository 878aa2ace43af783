//! The rules for secrets on what callers send: every text that is stored passes a `Screen`, behind its other checks.
//!
//! Names and ids are no texts: a placeholder in place of one would break what it joins.

use super::Caller;
use super::error::{Error, Reason, Result};
pub use super::secrets_found::SecretFinding;
use super::secrets_found::{Findings, Found};
use crate::model::approval::{Answer, Question};
use crate::model::message::NewMessage;
use crate::model::part::{Marker, Media, MediaSource, NewPart, Opaque, PartBody, Record, Step, ToolCall, ToolResult};
pub use crate::secrets::Action;
use crate::secrets::{Hit, Rules, Syntax};
use crate::store::{self, OpenPart, Secrets};
use std::fmt::Display;
use std::sync::Arc;

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

    /// Adds what the store found in the text of drafts.
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
        self.set(field, Syntax::Text, text)
    }

    /// Reads JSON, or what is meant to be JSON.
    pub(super) fn json(&mut self, field: impl Display + Copy, json: &mut String) -> Result<()> {
        self.set(field, Syntax::Json, json)
    }

    /// The same for a field that may be absent.
    pub(super) fn optional_json(&mut self, field: impl Display + Copy, json: &mut Option<String>) -> Result<()> {
        json.as_mut().map_or(Ok(()), |json| self.json(field, json))
    }

    /// The same for a text that may be absent.
    pub(super) fn optional_text(&mut self, field: impl Display + Copy, text: &mut Option<String>) -> Result<()> {
        text.as_mut().map_or(Ok(()), |text| self.text(field, text))
    }

    fn set(&mut self, field: impl Display + Copy, syntax: Syntax, text: &mut String) -> Result<()> {
        if let Some(redacted) = self.read(field, syntax, text)? {
            *text = redacted;
        }
        Ok(())
    }

    /// What is to be stored in place of a text; none if it stays as it is.
    fn read(&mut self, field: impl Display + Copy, syntax: Syntax, text: &str) -> Result<Option<String>> {
        let Some(rules) = self.rules else { return Ok(None) };
        let redacted = rules.redact(self.secrets.salt(), syntax, text);
        if redacted.hits.is_empty() {
            return Ok(None);
        }
        if let Some(hit) = redacted.hits.iter().find(|hit| hit.action == Action::Refuse) {
            self.secrets.count_refused(hit.rule);
            let rule = rules.name(hit.rule);
            return Err(Error::new(Reason::SecretRefused, format!("the rule {rule:?} refuses what {field} has"))
                .with("field", field)
                .with("rule", rule));
        }
        self.secrets.count(&redacted.hits);
        self.has_changed |= redacted.text.is_some();
        self.found.with(|findings| {
            redacted.hits.iter().for_each(|hit| findings.add(field, rules.name(hit.rule), *hit));
            findings.has_changed |= redacted.text.is_some();
        });
        Ok(redacted.text)
    }

    /// The same for JSON that may be absent.
    fn read_json(&mut self, field: impl Display + Copy, json: Option<&str>) -> Result<Option<String>> {
        json.map_or(Ok(None), |json| self.read(field, Syntax::Json, json))
    }

    /// The same for bytes that are a text.
    fn bytes(&mut self, field: impl Display + Copy, syntax: Syntax, bytes: &[u8]) -> Result<Option<Vec<u8>>> {
        let Ok(text) = std::str::from_utf8(bytes) else { return Ok(None) };
        Ok(self.read(field, syntax, text)?.map(String::into_bytes))
    }

    fn media(&mut self, field: impl Display + Copy, media: &Media) -> Result<Option<Media>> {
        let Media { name, source, .. } = media;
        let new_name = self.read(format_args!("{field}.name"), Syntax::Text, name)?;
        let new_source = match source {
            // What is declared says little about what is text.
            MediaSource::Bytes(bytes) => {
                self.bytes(format_args!("{field}.data"), Syntax::Text, bytes)?.map(MediaSource::Bytes)
            }
            MediaSource::Uri(uri) => self.read(format_args!("{field}.uri"), Syntax::Uri, uri)?.map(MediaSource::Uri),
        };
        let is_changed = new_name.is_some() || new_source.is_some();
        Ok(is_changed.then(|| Media {
            mime_type: media.mime_type.clone(),
            name: new_name.unwrap_or_else(|| name.clone()),
            source: new_source.unwrap_or_else(|| source.clone()),
        }))
    }

    fn result(&mut self, field: impl Display + Copy, result: &ToolResult) -> Result<Option<ToolResult>> {
        let output = self.read(format_args!("{field}.output"), Syntax::Text, &result.output)?;
        let attachments = result.attachments.iter().enumerate();
        let attachments: Vec<Option<Media>> = attachments
            .map(|(index, media)| self.media(format_args!("{field}.attachments[{index}]"), media))
            .collect::<Result<_>>()?;
        if output.is_none() && attachments.iter().all(Option::is_none) {
            return Ok(None);
        }
        let mut result = result.clone();
        result.output = output.unwrap_or(result.output);
        let changed = result.attachments.iter_mut().zip(attachments);
        changed.for_each(|(media, new)| *media = new.unwrap_or_else(|| std::mem::take(media)));
        Ok(Some(result))
    }

    fn body(&mut self, field: impl Display + Copy, body: &PartBody) -> Result<Option<PartBody>> {
        Ok(match body {
            PartBody::Text(text) => self.read(format_args!("{field}.text"), Syntax::Text, text)?.map(PartBody::Text),
            PartBody::Reasoning(text) => {
                self.read(format_args!("{field}.reasoning"), Syntax::Text, text)?.map(PartBody::Reasoning)
            }
            PartBody::ToolCall(call) => self
                .read(format_args!("{field}.tool_call.input_json"), Syntax::Json, &call.input_json)?
                .map(|input_json| PartBody::ToolCall(ToolCall { input_json, ..call.clone() })),
            PartBody::ToolResult(result) => {
                self.result(format_args!("{field}.tool_result"), result)?.map(PartBody::ToolResult)
            }
            PartBody::Media(media) => self.media(format_args!("{field}.media"), media)?.map(PartBody::Media),
            PartBody::Marker(marker) => self
                .read(format_args!("{field}.marker.text"), Syntax::Text, &marker.text)?
                .map(|text| PartBody::Marker(Marker { text, ..marker.clone() })),
            PartBody::Step(step) => self
                .read(format_args!("{field}.step.finish_reason"), Syntax::Text, &step.finish_reason)?
                .map(|finish_reason| PartBody::Step(Step { finish_reason, ..step.clone() })),
            PartBody::Opaque(opaque) => self
                .bytes(format_args!("{field}.opaque.data"), Syntax::Json, &opaque.data)?
                .map(|data| PartBody::Opaque(Opaque { data, ..opaque.clone() })),
            PartBody::Record(record) => self
                .read(format_args!("{field}.record.data"), Syntax::Json, &record.data)?
                .map(|data| PartBody::Record(Record { data, ..record.clone() })),
        })
    }

    /// Reads a part. What is changed keeps a digest of what was received.
    fn part(&mut self, field: impl Display + Copy, part: &mut NewPart) -> Result<()> {
        let metadata_json = self.read_json(format_args!("{field}.metadata_json"), part.metadata_json.as_deref())?;
        let body = self.body(field, &part.body)?;
        if metadata_json.is_some() || body.is_some() {
            let digest = store::received_part(self.secrets, &part.body, part.metadata_json.as_deref());
            part.received = Some(digest);
            part.metadata_json = metadata_json.or_else(|| part.metadata_json.take());
            part.body = body.map_or_else(|| Arc::clone(&part.body), Arc::new);
        }
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
                OpenPart::Ended(end) => {
                    let Some(json) = &mut end.metadata_json else { return Ok(()) };
                    if let Some(redacted) = self.read_json(format_args!("{field}.metadata_json"), Some(json))? {
                        end.received = Some(self.secrets.salt().digest(json.as_bytes()));
                        *json = redacted;
                    }
                    Ok(())
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
        let detail = message.finish.as_ref().map(|finish| finish.detail.as_str());
        let metadata_json = self.read_json(format_args!("{field}.metadata_json"), message.metadata_json.as_deref())?;
        let new_detail = match detail {
            Some(detail) => self.read(format_args!("{field}.finish.detail"), Syntax::Text, detail)?,
            None => None,
        };
        let received = (metadata_json.is_some() || new_detail.is_some())
            .then(|| store::received_rest(self.secrets, message.metadata_json.as_deref(), detail.unwrap_or_default()));
        message.metadata_json = metadata_json.or_else(|| message.metadata_json.take());
        if let (Some(finish), Some(detail)) = (&mut message.finish, new_detail) {
            finish.detail = detail;
        }
        self.parts(field, &mut message.parts)?;
        Ok(received)
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
