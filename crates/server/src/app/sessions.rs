//! Sessions: creating, finding, changing, archiving and forking them.

use super::error::{Error, Reason, Result};
use super::nouns::Sessions;
use super::secrets::{ClientInput, InputText, ScreenedAnswer};
use super::{DefaultPolicy, validate};
use crate::limits;
use crate::model::Revision;
use crate::model::compaction::LevelThreshold;
use crate::model::ids::MessageId;
use crate::model::mark::WordsStance;
use crate::model::part::{Part, PartBody};
use crate::model::provider_compaction::ProviderCompaction;
use crate::model::session::{OverWindow, Session, SessionState};
use crate::model::usage::ModelWindow;
use crate::policy::summary::SAID_HEADING;
use crate::policy::{Policy, TextUnits, overflow};
use crate::presets;
use crate::store::{
    self, CheckedInput, ForkAt, LabelChange, NewClientId, PolicyText, Receipt, ScreenResult, SecretScreen, SessionKey,
};

/// A session with its policy as text.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionInfo {
    /// The session.
    pub session: Session,
    /// The active policy, as JSON; empty in lists.
    pub policy_json: String,
    /// The reason for which the view exceeds the session's window. None if it does not, if the session is not in memory
    /// and large, and in lists.
    pub over_window: Option<OverWindow>,
    /// The tokens at which each level is due, lowest level first; empty in lists and snapshots.
    pub thresholds: Vec<LevelThreshold>,
    /// The provider's own compaction that the view begins with; as for `over_window`.
    pub provider_compaction: Option<ProviderCompaction>,
}

/// The words of people beside a session's active summary.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PeopleWords {
    /// The lines that follow the summary, each with its message, if that is known.
    pub lines: Vec<(String, Option<MessageId>)>,
    /// The messages whose words were struck or kept.
    pub marked: Vec<(MessageId, WordsStance)>,
}

/// The properties of a new session.
#[derive(Debug, Clone, Default)]
pub struct NewSession {
    /// The client's own id.
    pub client_id: Option<String>,
    /// Title for people.
    pub title: String,
    /// The preset, with or without its version; empty for the default of the model and the project.
    pub preset: String,
    /// A whole policy instead of a preset; empty for none.
    pub policy_json: String,
    /// JSON merged over the preset's policy; empty for none.
    pub policy_override_json: String,
    /// The model window, which alone decides when the session's views are compacted.
    pub window: ModelWindow,
    /// The client's metadata: free JSON.
    pub metadata_json: Option<String>,
    /// The parent session.
    pub parent: Option<String>,
    /// Refuses the session if its metadata name the source of one that was erased.
    pub keep_erased: bool,
}

/// A change of a session; fields that are unset stay as they are.
#[derive(Debug, Clone, Default)]
pub struct SessionChange {
    /// The new title.
    pub title: Option<String>,
    /// The new metadata: free JSON.
    pub metadata_json: Option<String>,
    /// The new window.
    pub window: Option<ModelWindow>,
    /// The new preset.
    pub preset: Option<String>,
    /// A whole policy instead of a preset.
    pub policy_json: Option<String>,
    /// JSON merged over the active policy, or over the new preset.
    pub policy_override_json: Option<String>,
    /// Refuses the change if history, marks, policy or window changed after this revision.
    pub expected_revision: Option<Revision>,
}

/// The point at which a fork begins; the newest revision if neither is set.
#[derive(Debug, Clone, Default)]
pub struct ForkPoint {
    /// Forks after this sealed message, with the view up to it.
    pub message_id: Option<String>,
    /// Forks at this revision.
    pub as_of_revision: Option<Revision>,
}

/// The answer of a mutation of a session.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionChanged {
    /// The session after the change.
    pub info: SessionInfo,
    /// The session's revision after the change.
    pub revision: Revision,
    /// The store's sequence number of the change.
    pub seq: crate::model::Seq,
}

/// A hash over the values of a request, each with its length, so that no two requests have the same bytes.
fn hash_of(values: &[Option<&[u8]>]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    for value in values {
        let length = value.map_or(-1, |value| i64::try_from(value.len()).unwrap_or(i64::MAX));
        hasher.update(&length.to_le_bytes());
        hasher.update(value.unwrap_or_default());
    }
    *hasher.finalize().as_bytes()
}

impl NewSession {
    /// A hash of everything besides the client id, as the client sent it: a repetition gets the same session, although
    /// the session and the defaults of the daemon may have changed.
    fn hash(&self) -> [u8; 32] {
        let Self {
            client_id: _,
            title,
            preset,
            policy_json,
            policy_override_json,
            window,
            metadata_json,
            parent,
            // A condition is no property.
            keep_erased: _,
        } = self;
        let ModelWindow { model, context, input, output, overhead, source: _ } = window;
        let [context, input, output, overhead] =
            [Some(*context), *input, *output, Some(*overhead)].map(|count| count.map(i64::to_le_bytes));
        hash_of(&[
            Some(b"create"),
            Some(title.as_bytes()),
            Some(preset.as_bytes()),
            Some(policy_json.as_bytes()),
            Some(policy_override_json.as_bytes()),
            Some(model.as_bytes()),
            context.as_ref().map(<[u8; 8]>::as_slice),
            input.as_ref().map(<[u8; 8]>::as_slice),
            output.as_ref().map(<[u8; 8]>::as_slice),
            overhead.as_ref().map(<[u8; 8]>::as_slice),
            metadata_json.as_ref().map(String::as_bytes),
            parent.as_ref().map(String::as_bytes),
        ])
    }
}

/// A hash of a request to fork a session.
fn hash_of_fork(from: SessionKey, at: &ForkAt, title: &str) -> [u8; 32] {
    let (revision, message) = match at {
        ForkAt::Newest => (None, None),
        ForkAt::Revision(revision) => (Some(revision.to_le_bytes()), None),
        ForkAt::Behind(message) => (None, Some(message.as_bytes())),
    };
    let revision = revision.as_ref().map(<[u8; 8]>::as_slice);
    hash_of(&[Some(b"fork"), Some(&from.0.to_le_bytes()), revision, message, Some(title.as_bytes())])
}

fn preset(name: &str) -> Result<Policy> {
    presets::find(name)
        .map(|preset| preset.policy())
        .ok_or_else(|| Error::new(Reason::PresetNotFound, format!("there is no preset {name}")).with("preset", name))
}

/// Parses a whole policy from a client, and refuses an invalid one.
fn whole_policy(json: &str) -> Result<Policy> {
    crate::app::validate::policy_override(json)?;
    let invalid = |field: &str, message: String| {
        Error::new(Reason::PolicyInvalid, format!("policy_json: {field}: {message}")).with("field", field.to_owned())
    };
    let policy = presets::read_policy(json).map_err(|error| invalid("", error.to_string()))?;
    match crate::policy::validate::validate(&policy).into_iter().next() {
        Some(violation) => Err(invalid(&violation.field, violation.message)),
        None => Ok(policy),
    }
}

/// The policy to start from: a preset by its name, or a whole policy, but not both.
fn start_policy(name: &str, whole: &str) -> Result<Policy> {
    match (name, whole) {
        (name, "") => preset(name),
        ("", whole) => whole_policy(whole),
        _ => Err(Error::field("policy_json", "does not go with preset")),
    }
}

/// True if a text matches a pattern, in which `*` stands for any characters.
fn matches(pattern: &str, text: &str) -> bool {
    let mut pieces = pattern.split('*');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let pieces: Vec<&str> = pieces.collect();
    let Some((last, middle)) = pieces.split_last() else { return rest.is_empty() };
    for piece in middle {
        let Some(at) = rest.find(piece) else { return false };
        rest = &rest[at + piece.len()..];
    }
    rest.len() >= last.len() && rest.ends_with(last)
}

/// True if a session belongs to a project: its metadata name the project, or a `cwd` that is the project's directory or
/// below it.
fn is_about(project: &str, metadata_json: Option<&str>) -> bool {
    let metadata: serde_json::Value =
        metadata_json.and_then(|json| serde_json::from_str(json).ok()).unwrap_or(serde_json::Value::Null);
    let directory = metadata["cwd"].as_str();
    let beneath = |path: &str| {
        path.strip_prefix(project.trim_end_matches('/')).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    metadata["project"].as_str() == Some(project) || directory.is_some_and(beneath)
}

/// Merges an override over a policy, and refuses an invalid result.
fn with_override(policy: Policy, json: &str) -> Result<Policy> {
    if json.is_empty() {
        return Ok(policy);
    }
    validate::policy_override(json)?;
    policy.with_overrides(json).map_err(|error| {
        Error::new(Reason::PolicyInvalid, format!("{}: {}", error.field, error.message)).with("field", error.field)
    })
}

/// Refuses values that a caller chose and that are invalid in the window.
fn fits(policy: &Policy, start: Option<&Policy>, window: &ModelWindow) -> Result<()> {
    match crate::policy::validate::validate_for(policy, start, window).into_iter().next() {
        Some(violation) => {
            let message = format!("{}: {}", violation.field, violation.message);
            Err(Error::new(Reason::PolicyInvalid, message).with("field", violation.field))
        }
        None => Ok(()),
    }
}

fn policy_text(policy: &Policy) -> Result<PolicyText> {
    let json = serde_json::to_string(policy).map_err(Error::internal)?;
    Ok(PolicyText { preset: policy.preset.clone(), json })
}

impl ClientInput for NewSession {
    fn validate(&self) -> Result<()> {
        validate::client_id("client_id", self.client_id.as_deref())?;
        validate::title(&self.title)?;
        validate::window("window", &self.window)?;
        validate::object("metadata_json", self.metadata_json.as_deref(), limits::SESSION_METADATA_BYTES_MAX)
    }

    fn screen(&mut self, screen: &mut SecretScreen<'_>) -> ScreenResult {
        screen.text("title", &mut self.title)?;
        screen.optional_json("metadata_json", &mut self.metadata_json)?;
        screen.json("policy_json", &mut self.policy_json)?;
        screen.json("policy_override_json", &mut self.policy_override_json)
    }
}

impl ClientInput for SessionChange {
    fn validate(&self) -> Result<()> {
        self.title.as_ref().map_or(Ok(()), |title| validate::title(title))?;
        self.window.as_ref().map_or(Ok(()), |window| validate::window("window", window))?;
        validate::object("metadata_json", self.metadata_json.as_deref(), limits::SESSION_METADATA_BYTES_MAX)
    }

    fn screen(&mut self, screen: &mut SecretScreen<'_>) -> ScreenResult {
        screen.optional_text("title", &mut self.title)?;
        screen.optional_json("metadata_json", &mut self.metadata_json)?;
        screen.optional_json("policy_json", &mut self.policy_json)?;
        screen.optional_json("policy_override_json", &mut self.policy_override_json)
    }
}

impl Sessions<'_> {
    /// Creates a session, or finds the one with the same client id and properties. The flag is true if it existed.
    pub async fn create(self, new: NewSession) -> Result<ScreenedAnswer<(SessionInfo, bool)>> {
        let request_hash = new.hash();
        let sent = self.caller.check(new)?;
        let checked = sent.with(());
        let (mut new, found) = sent.into_parts();
        self.caller.shared.models.complete(&mut new.window);
        let start = if new.preset.is_empty() && new.policy_json.is_empty() {
            self.default_policy(&new)?
        } else {
            start_policy(&new.preset, &new.policy_json)?
        };
        let preset_policy = new.policy_json.is_empty().then(|| start.clone());
        let policy = self.usable(with_override(start, &new.policy_override_json)?)?;
        fits(&policy, preset_policy.as_ref(), &new.window)?;
        let parent = match &new.parent {
            Some(parent) => Some(self.caller.session_key(parent).await?),
            None => None,
        };
        self.caller.require_inside(new.metadata_json.as_deref(), parent)?;
        let create = store::CreateSession {
            tenant: self.caller.visibility.tenant.clone(),
            client_id: new.client_id.map(|id| self.new_client_id(id, request_hash, &checked)),
            title: new.title,
            policy: policy_text(&policy)?,
            window: new.window,
            metadata_json: new.metadata_json,
            parent,
            keeps_erased: new.keep_erased,
        };
        let client_id = create.client_id.as_ref().map(|client| client.id.clone());
        let (key, existed) =
            self.caller.store().sessions().create(checked.with(create), self.caller.requester()).await?;
        self.require_made(key, existed, client_id).await?;
        Ok(ScreenedAnswer::new((Error::answer(self.info(key).await)?, existed), found))
    }

    /// The client id of a new session with the hash to keep of its request: that of a request in which a rule found a
    /// secret would tell whether a guess is right.
    fn new_client_id<T>(self, id: String, request_hash: [u8; 32], checked: &CheckedInput<T>) -> NewClientId {
        let salted = self.caller.store().secrets().salt().digest(&request_hash);
        match checked.has_changed() {
            true => NewClientId { id, request_hash: salted, other_hash: Some(request_hash) },
            false => NewClientId { id, request_hash, other_hash: Some(salted) },
        }
    }

    /// Refuses the client id of a session that was made inside of what the caller is bound to, and has left it since.
    async fn require_made(self, key: SessionKey, existed: bool, client_id: Option<String>) -> Result<()> {
        if !existed || self.caller.visibility.is_unbound() || self.caller.sees(key).await? {
            return Ok(());
        }
        Err(store::Error::ClientIdReused { client_id: client_id.unwrap_or_default() }.into())
    }

    /// The policy of a session that names none: the first default that matches its model and project.
    fn default_policy(self, new: &NewSession) -> Result<Policy> {
        let fits = |default: &&DefaultPolicy| {
            default.model.as_ref().is_none_or(|model| matches(model, &new.window.model))
                && default.project.as_ref().is_none_or(|project| is_about(project, new.metadata_json.as_deref()))
        };
        let default = self.caller.shared.defaults.iter().find(fits);
        let name = default.and_then(|default| default.preset.as_ref()).unwrap_or(&self.caller.shared.default_preset);
        with_override(preset(name)?, default.map_or("", |default| &default.override_json))
    }

    /// Refuses a policy that counts by a vocabulary which the daemon has not loaded.
    fn usable(self, policy: Policy) -> Result<Policy> {
        let TextUnits::Vocabulary { name, .. } = &policy.counting.text else { return Ok(policy) };
        if self.caller.shared.vocabularies.iter().any(|vocabulary| vocabulary.name() == name) {
            return Ok(policy);
        }
        let field = "counting.text.vocabulary.name";
        let message = format!("{field}: the daemon has no vocabulary {name:?}; its configuration names those it reads");
        Err(Error::new(Reason::PolicyInvalid, message).with("field", field))
    }

    pub(super) async fn info(self, key: SessionKey) -> Result<SessionInfo> {
        let (session, policy) = self.caller.store().sessions().get(key).await?;
        self.info_of(key, session, policy).await
    }

    async fn info_of(self, key: SessionKey, mut session: Session, policy: PolicyText) -> Result<SessionInfo> {
        let (mut over_window, mut provider_compaction) = (None, None);
        match self.caller.views().loaded_or_small(key).await {
            Ok(Some(loaded)) => {
                session.context = Some(loaded.context());
                provider_compaction = loaded.formed.compaction().cloned();
                over_window = self.caller.views().over_window(&loaded, loaded.source.pending).await?;
            }
            Ok(None) => {}
            // The context usage in the session's row is valid too.
            Err(error) => tracing::warn!(%error, "the newest context usage of a session is not known"),
        }
        let thresholds = match self.caller.parse_policy(&policy) {
            Ok(policy) => overflow::level_thresholds(&policy, &session.window),
            Err(error) => {
                tracing::warn!(%error, "the thresholds of a session are not known");
                Vec::new()
            }
        };
        Ok(SessionInfo { session, policy_json: policy.json, over_window, thresholds, provider_compaction })
    }

    /// The answer of a change that is committed.
    async fn changed(self, key: SessionKey, receipt: &Receipt) -> Result<SessionChanged> {
        let info = Error::answer(self.info(key).await)?;
        Ok(SessionChanged { info, revision: receipt.revision, seq: receipt.seq })
    }

    /// The current state of a session.
    pub async fn get(self, id: &str) -> Result<SessionInfo> {
        let key = self.caller.session_key(id).await?;
        self.info(key).await
    }

    /// The current state of a session, with the words of people beside its active summary.
    pub async fn with_words(self, id: &str) -> Result<(SessionInfo, PeopleWords)> {
        let key = self.caller.session_key(id).await?;
        let (session, policy, words) = self.caller.store().views().session(key).await?;
        let lines = |part: &Part| match &*part.body {
            PartBody::Text(text) => text.strip_prefix(SAID_HEADING).map(|lines| {
                let lines = lines.lines().filter(|line| !line.is_empty());
                lines.map(|line| line.strip_prefix("- ").unwrap_or(line).to_owned()).collect::<Vec<_>>()
            }),
            _ => None,
        };
        // The text of the summary itself comes first.
        let parts = words.summary.iter().flat_map(|summary| summary.parts.iter().skip(1));
        let lines = parts.into_iter().find_map(lines).unwrap_or_default();
        let messages = words.said_in.into_iter().chain(std::iter::repeat(None));
        let people = PeopleWords { lines: lines.into_iter().zip(messages).collect(), marked: words.marked };
        Ok((self.info_of(key, session, policy).await?, people))
    }

    /// Changes a session.
    pub async fn update(self, id: &str, change: SessionChange) -> Result<ScreenedAnswer<SessionChanged>> {
        let sent = self.caller.check(change)?;
        let checked = sent.with(());
        let (mut change, found) = sent.into_parts();
        if let Some(window) = &mut change.window {
            self.caller.shared.models.complete(window);
        }
        let key = self.caller.session_key(id).await?;
        self.caller.require_to_stay(change.metadata_json.as_deref())?;
        // The new policy is derived from the active one, over which the change may no longer be valid: a repeated
        // request is answered before that.
        if let Some(receipt) = self.caller.store().sessions().kept_answer(key, &self.caller.requester).await? {
            return Ok(ScreenedAnswer::new(self.changed(key, &receipt).await?, found));
        }
        let receipt = loop {
            let update = checked.with(self.update_of(key, &change).await?);
            match self.caller.store().sessions().update(key, update, self.caller.requester()).await {
                // Another caller changed the policy since it was read: the override is merged over the new one.
                Err(store::Error::PolicyChanged) => {}
                done => break done?,
            }
        };
        Ok(ScreenedAnswer::new(self.changed(key, &receipt).await?, found))
    }

    /// A change with the resulting policy, derived from the active one.
    async fn update_of(self, key: SessionKey, change: &SessionChange) -> Result<store::UpdateSession> {
        let mut update = store::UpdateSession {
            title: change.title.clone(),
            metadata_json: change.metadata_json.clone(),
            window: change.window.clone(),
            policy: None,
            policy_base: None,
            expected_revision: change.expected_revision,
        };
        if change.preset.is_none() && change.policy_json.is_none() && change.policy_override_json.is_none() {
            return Ok(update);
        }
        let start = match (&change.preset, &change.policy_json) {
            (Some(name), None) => preset(name)?,
            (name, Some(whole)) => start_policy(name.as_deref().unwrap_or_default(), whole)?,
            (None, None) => {
                let base = self.caller.store().sessions().get(key).await?.1;
                let start = self.caller.parse_policy(&base)?;
                update.policy_base = Some(base);
                start
            }
        };
        let preset_policy = change.policy_json.is_none().then(|| start.clone());
        let policy = with_override(start, change.policy_override_json.as_deref().unwrap_or_default())?;
        let policy = self.usable(policy)?;
        match &change.window {
            Some(window) => fits(&policy, preset_policy.as_ref(), window)?,
            None => fits(&policy, preset_policy.as_ref(), &self.caller.store().sessions().get(key).await?.0.window)?,
        }
        update.policy = Some(policy_text(&policy)?);
        Ok(update)
    }

    /// Archives a session: it takes no writes until it is restored.
    pub async fn archive(self, id: &str) -> Result<SessionChanged> {
        self.set_state(id, SessionState::Archived).await
    }

    /// Restores an archived session.
    pub async fn restore(self, id: &str) -> Result<SessionChanged> {
        self.set_state(id, SessionState::Active).await
    }

    async fn set_state(self, id: &str, state: SessionState) -> Result<SessionChanged> {
        let key = self.caller.session_key(id).await?;
        let receipt = self.caller.store().sessions().set_state(key, state, self.caller.requester()).await?;
        self.changed(key, &receipt).await
    }

    /// Adds a label to a session; one that it has stays.
    pub async fn add_label(self, id: &str, label: String) -> Result<SessionChanged> {
        self.change_label(id, LabelChange::Add(label)).await
    }

    /// Removes a label from a session; one that it has not is no error.
    pub async fn remove_label(self, id: &str, label: String) -> Result<SessionChanged> {
        self.change_label(id, LabelChange::Remove(label)).await
    }

    async fn change_label(self, id: &str, change: LabelChange) -> Result<SessionChanged> {
        let (LabelChange::Add(label) | LabelChange::Remove(label)) = &change;
        validate::label("label", label)?;
        let key = self.caller.session_key(id).await?;
        let receipt = self.caller.store().sessions().change_label(key, change, self.caller.requester()).await?;
        self.changed(key, &receipt).await
    }

    /// Creates a session that shares another session's history up to a point.
    pub async fn fork(
        self,
        id: &str,
        point: ForkPoint,
        client_id: Option<String>,
        title: String,
    ) -> Result<ScreenedAnswer<(SessionInfo, bool)>> {
        validate::client_id("client_id", client_id.as_deref())?;
        let sent = self.caller.check(InputText { field: "title", text: title.clone(), check: validate::title })?;
        let key = self.caller.session_key(id).await?;
        let at = match (point.message_id, point.as_of_revision) {
            (Some(_), Some(_)) => return Err(Error::field("as_of_revision", "does not go with message_id")),
            (Some(message), None) => ForkAt::Behind(message),
            (None, Some(revision)) => ForkAt::Revision(revision),
            (None, None) => ForkAt::Newest,
        };
        let request_hash = hash_of_fork(key, &at, &title);
        let client_id = client_id.map(|id| self.new_client_id(id, request_hash, &sent));
        let named = client_id.as_ref().map(|client| client.id.clone());
        let fork = sent.with(store::ForkSession { client_id, at, title: sent.text.clone() });
        let (fork, existed) = self.caller.store().sessions().fork(key, fork, self.caller.requester()).await?;
        self.require_made(fork, existed, named).await?;
        Ok(ScreenedAnswer::new((Error::answer(self.info(fork).await)?, existed), sent.into_parts().1))
    }
}
