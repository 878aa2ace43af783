//! What clients send, on its way into the store: every text of it passes a `SecretScreen`, behind its other checks.
//!
//! Names and ids are no texts: a placeholder in place of one would break what it joins.

use super::ledger::open_drafts::OpenPart;
use super::ledger::received::{received_part, received_rest};
use super::ledger::secrets::Secrets;
use super::ledger::tx::Requester;
use crate::model::message::NewMessage;
use crate::model::part::{
    Marker, Media, MediaSource, NewPart, Opaque, PartBody, Record, ReplyStep, ToolCall, ToolResult,
};
use crate::secrets::{Action, Hit, Rules, Syntax};
use std::fmt::Display;
use std::ops::Deref;
use std::sync::Arc;

/// Secrets that a rule found in a text of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretFinding {
    /// The text, as errors name fields.
    pub field: String,
    /// The rule.
    pub rule: String,
    /// What happened to them.
    pub action: Action,
    /// Their number.
    pub count: i64,
}

/// What the rules for secrets found, in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    list: Vec<SecretFinding>,
    /// True if a text was changed.
    has_changed: bool,
}

/// A rule refuses what a text has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedSecret {
    /// The text, as errors name fields.
    pub field: String,
    /// The rule.
    pub rule: String,
}

/// The outcome of reading a text by the rules.
pub type ScreenResult<T = ()> = Result<T, RefusedSecret>;

/// What a client sent, within its limits and screened for secrets. The store writes nothing of a client's without it.
#[derive(Debug, Clone)]
pub struct CheckedInput<T> {
    value: T,
    findings: Findings,
}

/// The texts of one request on their way through the rules.
pub struct SecretScreen<'a> {
    secrets: &'a Secrets,
    rules: Option<&'a Rules>,
    findings: Findings,
}

impl Findings {
    fn add(&mut self, field: impl Display, rule: &str, hit: Hit) {
        let finding = SecretFinding { field: field.to_string(), rule: rule.to_owned(), action: hit.action, count: 1 };
        self.join_one(finding);
    }

    fn join_one(&mut self, more: SecretFinding) {
        match self.list.iter_mut().find(|known| known.field == more.field && known.rule == more.rule) {
            Some(known) => known.count += more.count,
            None => self.list.push(more),
        }
    }

    /// Adds what the store found in the text of drafts.
    pub fn add_hits(&mut self, secrets: &Secrets, field: &str, hits: &[Hit]) {
        if let Some(rules) = secrets.rules() {
            hits.iter().for_each(|hit| self.add(field, rules.name(hit.rule), *hit));
        }
    }

    /// Adds what was found in another part of the request.
    pub fn join(&mut self, more: Vec<SecretFinding>) {
        more.into_iter().for_each(|finding| self.join_one(finding));
    }

    /// All of them.
    pub fn into_list(self) -> Vec<SecretFinding> {
        self.list
    }
}

impl<T> CheckedInput<T> {
    /// What a client sent, validated and then screened. Limits are checked again if a text was changed, because
    /// placeholders can be longer.
    ///
    /// # Errors
    ///
    /// Those of the checks, and a refusal by a rule.
    pub fn new<E: From<RefusedSecret>>(
        secrets: &Secrets,
        mut value: T,
        validate: impl Fn(&T) -> Result<(), E>,
        screen: impl FnOnce(&mut T, &mut SecretScreen<'_>) -> ScreenResult,
    ) -> Result<Self, E> {
        validate(&value)?;
        let mut screening = SecretScreen { secrets, rules: secrets.rules(), findings: Findings::default() };
        screen(&mut value, &mut screening)?;
        let findings = screening.findings;
        if findings.has_changed {
            validate(&value)?;
        }
        Ok(Self { value, findings })
    }

    /// Input that the daemon makes itself, without a text of a client.
    pub fn trusted(value: T) -> Self {
        Self { value, findings: Findings::default() }
    }

    /// The same findings for another form of the input.
    pub fn with<U>(&self, value: U) -> CheckedInput<U> {
        CheckedInput { value, findings: self.findings.clone() }
    }

    /// Splits it into the input and what was found.
    pub fn into_parts(self) -> (T, Findings) {
        (self.value, self.findings)
    }

    /// What was found.
    pub fn findings(&self) -> &Findings {
        &self.findings
    }

    /// True if a text was changed. Then only a salted hash of the request is kept: a guess at the secret could be
    /// tested against a plain one.
    pub fn has_changed(&self) -> bool {
        self.findings.has_changed
    }

    /// Splits it into the input and the author of its mutation.
    pub(crate) fn with_author(self, caller: Requester) -> (T, Requester) {
        (self.value, Requester { keeps_salted_hash: self.findings.has_changed, ..caller })
    }
}

impl<T> Deref for CheckedInput<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl SecretScreen<'_> {
    /// Reads a text.
    ///
    /// # Errors
    ///
    /// `SECRET_REFUSED` if a rule refuses it.
    pub fn text(&mut self, field: impl Display + Copy, text: &mut String) -> ScreenResult {
        self.set(field, Syntax::Text, text)
    }

    /// Reads JSON, or what is meant to be JSON.
    pub fn json(&mut self, field: impl Display + Copy, json: &mut String) -> ScreenResult {
        self.set(field, Syntax::Json, json)
    }

    /// The same for a field that may be absent.
    pub fn optional_json(&mut self, field: impl Display + Copy, json: &mut Option<String>) -> ScreenResult {
        json.as_mut().map_or(Ok(()), |json| self.json(field, json))
    }

    /// The same for a text that may be absent.
    pub fn optional_text(&mut self, field: impl Display + Copy, text: &mut Option<String>) -> ScreenResult {
        text.as_mut().map_or(Ok(()), |text| self.text(field, text))
    }

    fn set(&mut self, field: impl Display + Copy, syntax: Syntax, text: &mut String) -> ScreenResult {
        if let Some(redacted) = self.redact(field, syntax, text)? {
            *text = redacted;
        }
        Ok(())
    }

    /// What is to be stored in place of a text; none if it stays as it is.
    fn redact(&mut self, field: impl Display + Copy, syntax: Syntax, text: &str) -> ScreenResult<Option<String>> {
        let Some(rules) = self.rules else { return Ok(None) };
        let redacted = rules.redact(self.secrets.salt(), syntax, text);
        if redacted.hits.is_empty() {
            return Ok(None);
        }
        if let Some(hit) = redacted.hits.iter().find(|hit| hit.action == Action::Refuse) {
            self.secrets.count_refused(hit.rule);
            let rule = rules.name(hit.rule);
            return Err(RefusedSecret { field: field.to_string(), rule: rule.to_owned() });
        }
        self.secrets.count(&redacted.hits);
        self.findings.has_changed |= redacted.text.is_some();
        redacted.hits.iter().for_each(|hit| self.findings.add(field, rules.name(hit.rule), *hit));
        Ok(redacted.text)
    }

    /// The same for JSON that may be absent.
    fn read_json(&mut self, field: impl Display + Copy, json: Option<&str>) -> ScreenResult<Option<String>> {
        json.map_or(Ok(None), |json| self.redact(field, Syntax::Json, json))
    }

    /// The same for bytes that are a text.
    fn bytes(&mut self, field: impl Display + Copy, syntax: Syntax, bytes: &[u8]) -> ScreenResult<Option<Vec<u8>>> {
        let Ok(text) = std::str::from_utf8(bytes) else { return Ok(None) };
        Ok(self.redact(field, syntax, text)?.map(String::into_bytes))
    }

    fn media(&mut self, field: impl Display + Copy, media: &Media) -> ScreenResult<Option<Media>> {
        let Media { name, source, .. } = media;
        let new_name = self.redact(format_args!("{field}.name"), Syntax::Text, name)?;
        let new_source = match source {
            // The declared type says little: it may be text all the same.
            MediaSource::Bytes(bytes) => {
                self.bytes(format_args!("{field}.data"), Syntax::Text, bytes)?.map(MediaSource::Bytes)
            }
            MediaSource::Uri(uri) => self.redact(format_args!("{field}.uri"), Syntax::Uri, uri)?.map(MediaSource::Uri),
        };
        let is_changed = new_name.is_some() || new_source.is_some();
        Ok(is_changed.then(|| Media {
            mime_type: media.mime_type.clone(),
            name: new_name.unwrap_or_else(|| name.clone()),
            source: new_source.unwrap_or_else(|| source.clone()),
        }))
    }

    fn result(&mut self, field: impl Display + Copy, result: &ToolResult) -> ScreenResult<Option<ToolResult>> {
        let output = self.redact(format_args!("{field}.output"), Syntax::Text, &result.output)?;
        let attachments = result.attachments.iter().enumerate();
        let attachments: Vec<Option<Media>> = attachments
            .map(|(index, media)| self.media(format_args!("{field}.attachments[{index}]"), media))
            .collect::<ScreenResult<_>>()?;
        if output.is_none() && attachments.iter().all(Option::is_none) {
            return Ok(None);
        }
        let mut result = result.clone();
        result.output = output.unwrap_or(result.output);
        let changed = result.attachments.iter_mut().zip(attachments);
        changed.for_each(|(media, new)| *media = new.unwrap_or_else(|| std::mem::take(media)));
        Ok(Some(result))
    }

    fn body(&mut self, field: impl Display + Copy, body: &PartBody) -> ScreenResult<Option<PartBody>> {
        Ok(match body {
            PartBody::Text(text) => self.redact(format_args!("{field}.text"), Syntax::Text, text)?.map(PartBody::Text),
            PartBody::Reasoning(text) => {
                self.redact(format_args!("{field}.reasoning"), Syntax::Text, text)?.map(PartBody::Reasoning)
            }
            PartBody::ToolCall(call) => self
                .redact(format_args!("{field}.tool_call.input_json"), Syntax::Json, &call.input_json)?
                .map(|input_json| PartBody::ToolCall(ToolCall { input_json, ..call.clone() })),
            PartBody::ToolResult(result) => {
                self.result(format_args!("{field}.tool_result"), result)?.map(PartBody::ToolResult)
            }
            PartBody::Media(media) => self.media(format_args!("{field}.media"), media)?.map(PartBody::Media),
            PartBody::Marker(marker) => self
                .redact(format_args!("{field}.marker.text"), Syntax::Text, &marker.text)?
                .map(|text| PartBody::Marker(Marker { text, ..marker.clone() })),
            PartBody::Step(step) => self
                .redact(format_args!("{field}.step.finish_reason"), Syntax::Text, &step.finish_reason)?
                .map(|finish_reason| PartBody::Step(ReplyStep { finish_reason, ..step.clone() })),
            PartBody::Opaque(opaque) => self
                .bytes(format_args!("{field}.opaque.data"), Syntax::Json, &opaque.data)?
                .map(|data| PartBody::Opaque(Opaque { data, ..opaque.clone() })),
            PartBody::Record(record) => self
                .redact(format_args!("{field}.record.data"), Syntax::Json, &record.data)?
                .map(|data| PartBody::Record(Record { data, ..record.clone() })),
        })
    }

    /// Reads a part. What is changed keeps a digest of what was received.
    fn part(&mut self, field: impl Display + Copy, part: &mut NewPart) -> ScreenResult {
        let metadata_json = self.read_json(format_args!("{field}.metadata_json"), part.metadata_json.as_deref())?;
        let body = self.body(field, &part.body)?;
        if metadata_json.is_some() || body.is_some() {
            let digest = received_part(self.secrets, &part.body, part.metadata_json.as_deref());
            part.received = Some(digest);
            part.metadata_json = metadata_json.or_else(|| part.metadata_json.take());
            part.body = body.map_or_else(|| Arc::clone(&part.body), Arc::new);
        }
        Ok(())
    }

    /// Reads the parts of a message.
    pub fn parts(&mut self, field: impl Display + Copy, parts: &mut [NewPart]) -> ScreenResult {
        if self.rules.is_none() {
            return Ok(());
        }
        parts
            .iter_mut()
            .enumerate()
            .try_for_each(|(index, part)| self.part(format_args!("{field}.parts[{index}]"), part))
    }

    /// The same of content that is only sent again with its request.
    pub fn parts_of_request(&mut self, field: impl Display + Copy, parts: &mut [NewPart]) -> ScreenResult {
        self.parts(field, parts)?;
        parts.iter_mut().for_each(|part| part.received = None);
        Ok(())
    }

    /// Reads what joins an open message.
    pub fn open_parts(&mut self, parts: &mut [OpenPart]) -> ScreenResult {
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
    pub fn messages(&mut self, messages: &mut [NewMessage]) -> ScreenResult<Vec<Option<[u8; 32]>>> {
        let read =
            |(index, message): (usize, &mut NewMessage)| self.message(format_args!("messages[{index}]"), message);
        messages.iter_mut().enumerate().map(read).collect()
    }

    /// Reads a message. Returns the digest of what was received beside its parts, if that is changed.
    pub fn message(&mut self, field: impl Display + Copy, message: &mut NewMessage) -> ScreenResult<Option<[u8; 32]>> {
        if self.rules.is_none() {
            return Ok(None);
        }
        let detail = message.finish.as_ref().map(|finish| finish.detail.as_str());
        let metadata_json = self.read_json(format_args!("{field}.metadata_json"), message.metadata_json.as_deref())?;
        let new_detail = match detail {
            Some(detail) => self.redact(format_args!("{field}.finish.detail"), Syntax::Text, detail)?,
            None => None,
        };
        let received = (metadata_json.is_some() || new_detail.is_some())
            .then(|| received_rest(self.secrets, message.metadata_json.as_deref(), detail.unwrap_or_default()));
        message.metadata_json = metadata_json.or_else(|| message.metadata_json.take());
        if let (Some(finish), Some(detail)) = (&mut message.finish, new_detail) {
            finish.detail = detail;
        }
        self.parts(field, &mut message.parts)?;
        Ok(received)
    }
}
