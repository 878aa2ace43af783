//! The operator's configuration: defaults, then the file, then the command line.

use crate::limits;
use crate::model::usage::Usage;
use crate::policy::bpe::Vocabulary;
use crate::policy::models::Models;
use crate::presets;
use crate::secrets::{Rule, Rules};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

mod cluster;
mod retention;
mod secrets;

pub use cluster::ClusterSettings;
pub use retention::RetentionRule;
pub use secrets::{KnownSecrets, SecretSettings};

/// Error of the configuration. The process exits with code 64 before it changes anything.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The file cannot be parsed.
    #[error("{path}: {message}")]
    Parse {
        /// The file.
        path: PathBuf,
        /// The error with its line.
        message: String,
    },
    /// The values are inconsistent.
    #[error("{0}")]
    Invalid(String),
}

/// Durability of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Durability {
    /// A crash of the machine: every commit is fsynced.
    #[default]
    Full,
    /// A crash of the daemon only: commits reach the disk when the system writes them back.
    ProcessCrash,
}

/// Name of the built-in summarizer, which is always available.
pub const BUILT_IN: &str = "extractive";

/// Kind of a summarizer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SummarizerKind {
    /// A model behind OpenAI's chat completions, which Ollama, vLLM, llama.cpp, LM Studio and OpenRouter support too.
    OpenaiChat,
    /// A model behind OpenAI's responses.
    OpenaiResponses,
    /// A model behind Anthropic's messages.
    Anthropic,
    /// A model behind Gemini's generateContent.
    Gemini,
    /// The built-in summarizer: extracts text from the history, without a model.
    Extractive,
}

/// Prices of a model in US dollars per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Prices {
    /// Input tokens.
    pub input: f64,
    /// Output tokens, reasoning included.
    pub output: f64,
    /// Tokens read from the provider's cache.
    pub cache_read: f64,
    /// Tokens written to the provider's cache.
    pub cache_write: f64,
}

impl Prices {
    /// Cost of a reply in US dollars.
    pub fn cost_usd(&self, usage: &Usage) -> f64 {
        let cost = |tokens: i64, price: f64| tokens as f64 * price / 1e6;
        cost(usage.input, self.input)
            + cost(usage.output.saturating_add(usage.reasoning), self.output)
            + cost(usage.cache_read, self.cache_read)
            + cost(usage.cache_write, self.cache_write)
    }
}

/// Timeouts of requests to a provider, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Timeouts {
    /// For the connection.
    pub connect_ms: u64,
    /// For the first byte, and between two bytes. A long request is processed before the first byte comes.
    pub idle_ms: u64,
    /// For the whole reply.
    pub total_ms: u64,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { connect_ms: 10_000, idle_ms: 120_000, total_ms: 300_000 }
    }
}

/// A configured summarizer.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SummarizerSettings {
    /// Kind of the summarizer.
    pub kind: SummarizerKind,
    /// Base URL of the provider, with the version in the path; absent: the provider's own URL.
    #[serde(default)]
    pub base_url: Option<String>,
    /// The model's name, as the provider spells it.
    #[serde(default)]
    pub model: String,
    /// The environment variable with the key.
    #[serde(default)]
    pub api_key_env: Option<String>,
    /// The file with the key and nothing else.
    #[serde(default)]
    pub api_key_file: Option<PathBuf>,
    /// The model's window, input and output together, in tokens. Set it for servers that run a model with a smaller
    /// window than the model's own and silently cut longer input.
    #[serde(default)]
    pub window: i64,
    /// Maximum output of one reply, reasoning included, in tokens.
    #[serde(default = "default_max_output")]
    pub max_output: i64,
    /// Prices of the model; absent: unknown, unless the provider reports costs.
    #[serde(default)]
    pub prices: Option<Prices>,
    /// Timeouts of its requests.
    #[serde(default)]
    pub timeouts: Timeouts,
    /// Maximum number of its requests at the same time, for all sessions together.
    #[serde(default = "default_concurrency")]
    pub concurrency: usize,
    /// Records the texts of requests and replies, in addition to their hashes.
    #[serde(default)]
    pub record_text: bool,
    /// Fields that are added to every request, such as a temperature, or the reasoning effort.
    #[serde(default)]
    pub extra: toml::Table,
}

fn default_max_output() -> i64 {
    8_192
}

fn default_concurrency() -> usize {
    4
}

impl SummarizerSettings {
    /// Refuses inconsistent values.
    fn validate(&self) -> Result<(), String> {
        if self.kind == SummarizerKind::Extractive {
            return Ok(());
        }
        if self.model.is_empty() {
            return Err("model is missing".to_owned());
        }
        if self.max_output < 256 {
            return Err(format!("max_output is {}, too little for a summary", self.max_output));
        }
        if self.window == 0 {
            return Err("window is missing: the model's window in tokens".to_owned());
        }
        if self.window / 2 < self.max_output {
            let Self { window, max_output, .. } = self;
            return Err(format!("a window of {window} tokens is too small for {max_output} of output and a history"));
        }
        if self.concurrency == 0 || self.concurrency > 1_024 {
            return Err(format!("concurrency is {}, not 1 to 1024", self.concurrency));
        }
        if [self.timeouts.connect_ms, self.timeouts.idle_ms, self.timeouts.total_ms].contains(&0) {
            return Err("a timeout of 0 leaves no time for anything".to_owned());
        }
        Ok(())
    }
}

/// The summarizers to use, by name. If all of them fail, the built-in one writes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SummarizerChoice {
    /// For ordinary summaries; absent: the built-in one.
    pub auto: Option<String>,
    /// For thorough summaries; absent: the one for ordinary summaries.
    pub deep: Option<String>,
    /// Fallbacks after it, in order. A summary waits for a provider that asks for a delay, until the last attempt or
    /// until the view exceeds its window; with `extractive` in this list the built-in one writes at once instead.
    pub fallback: Vec<String>,
    /// Time that each summary first waits for a client that leases it, in seconds, at most 3600; 0 for none. The wait
    /// occupies one of the workers.
    pub client_wait_seconds: u64,
}

/// A program that is notified of compactions.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hook {
    /// The program and its arguments. It is started directly, without a shell.
    pub command: Vec<String>,
    /// Maximum time that it may run, in seconds, 1 to 600; then it is killed with all its child processes.
    #[serde(default = "default_hook_timeout")]
    pub timeout_seconds: u64,
    /// If true, no compaction is made when the program fails.
    #[serde(default)]
    pub required: bool,
    /// If true, the program gets the messages that the summarizer is to read.
    #[serde(default)]
    pub messages: bool,
}

fn default_hook_timeout() -> u64 {
    10
}

impl Hook {
    fn validate(&self) -> Result<(), String> {
        if self.command.first().is_none_or(String::is_empty) {
            return Err("command names no program".to_owned());
        }
        if self.timeout_seconds == 0 || self.timeout_seconds > 600 {
            return Err(format!("timeout_seconds is {}, not 1 to 600", self.timeout_seconds));
        }
        Ok(())
    }
}

/// Where the daemon listens on TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(try_from = "String")]
pub enum ListenAddress {
    /// A free port of the loopback address, that of the last time if it is free; `longhand.url` in the data directory has
    /// it.
    #[default]
    Free,
    /// Nowhere.
    Off,
    /// An address.
    Address(SocketAddr),
}

impl ListenAddress {
    /// The address to bind; none for nowhere.
    pub fn address(self) -> Option<SocketAddr> {
        match self {
            Self::Free => Some(SocketAddr::from(([127, 0, 0, 1], 0))),
            Self::Off => None,
            Self::Address(address) => Some(address),
        }
    }
}

impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "free" => Ok(Self::Free),
            "off" => Ok(Self::Off),
            address => {
                let address = address.replacen("localhost:", "127.0.0.1:", 1);
                address.parse().map(Self::Address).map_err(|_| {
                    format!(
                        "{text:?} is no address: an IP address with a port, such as 127.0.0.1:4747, or free, or off"
                    )
                })
            }
        }
    }
}

impl TryFrom<String> for ListenAddress {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// TLS on TCP. The files are read again when they change.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// The certificate chain in PEM, the daemon's own certificate first.
    pub certificate: PathBuf,
    /// The key of the certificate in PEM.
    pub key: PathBuf,
    /// Authorities in PEM: every client must have a certificate of one of them, besides its access token. Absent: none
    /// is asked for.
    #[serde(default)]
    pub client_authorities: Option<PathBuf>,
}

/// The callers whose calls are in the access log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LoggedCallers {
    /// Those with an access token of their own.
    #[default]
    Tokens,
    /// All, the owner too.
    All,
    /// Nobody: there is no log.
    Nobody,
}

/// What happens to a call whose line cannot be written to the access log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UnloggedCalls {
    /// It is answered, with a warning in the daemon's log.
    #[default]
    Answer,
    /// It is refused. A call that administers also has a line before it is carried out.
    Refuse,
}

/// The log of who read, exported or administered what, in `access-log` in the data directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AccessLog {
    /// The callers whose calls are logged.
    pub callers: LoggedCallers,
    /// Days for which the log is kept, at most 36500; 0 for ever.
    pub retention_days: u32,
    /// What happens to a call whose line cannot be written.
    pub unlogged_calls: UnloggedCalls,
}

impl Default for AccessLog {
    fn default() -> Self {
        Self {
            callers: LoggedCallers::default(),
            retention_days: limits::ACCESS_LOG_DAYS_DEFAULT,
            unlogged_calls: UnloggedCalls::default(),
        }
    }
}

/// The programs that are notified of compactions.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Hooks {
    /// Before a summary is written: it may add instructions, replace the prompt, or refuse the compaction.
    pub pre_compact: Option<Hook>,
    /// After a compaction with a summary.
    pub post_compact: Option<Hook>,
}

impl Hooks {
    fn validate(&self) -> Result<(), String> {
        for (name, hook) in [("pre_compact", &self.pre_compact), ("post_compact", &self.post_compact)] {
            if let Some(hook) = hook {
                hook.validate().map_err(|why| format!("{name}: {why}"))?;
            }
        }
        match &self.post_compact {
            Some(hook) if hook.required => Err("post_compact: nothing can require it, it comes afterwards".to_owned()),
            Some(hook) if hook.messages => Err("post_compact: it gets the summary and no messages".to_owned()),
            Some(_) | None => Ok(()),
        }
    }
}

/// The verification of the store in the background.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Scrub {
    /// Time between the end of a pass over the whole store and the begin of the next one, in hours, at most 8784; 0 for
    /// passes on request only.
    pub interval_hours: u64,
    /// Content that is verified in each second, in MiB, 1 to 1024.
    pub mib_per_second: u64,
}

impl Default for Scrub {
    fn default() -> Self {
        Self {
            interval_hours: limits::SCRUB_INTERVAL_HOURS_DEFAULT,
            mib_per_second: limits::SCRUB_MIB_PER_SECOND_DEFAULT,
        }
    }
}

impl Scrub {
    fn validate(self) -> Result<(), String> {
        let Self { interval_hours, mib_per_second } = self;
        let (hours, rate) = (limits::SCRUB_INTERVAL_HOURS_MAX, limits::SCRUB_MIB_PER_SECOND_MAX);
        if interval_hours > hours {
            return Err(format!("interval_hours is {interval_hours}, not 0 to {hours}"));
        }
        if !(1..=rate).contains(&mib_per_second) {
            return Err(format!("mib_per_second is {mib_per_second}, not 1 to {rate}"));
        }
        Ok(())
    }
}

/// All options of an operator.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Directory of the database, its lock and the default socket.
    pub data_dir: PathBuf,
    /// The Unix socket to listen on; absent: `longhand.sock` in the data directory.
    pub socket: Option<PathBuf>,
    /// Where to listen on TCP. Other addresses than loopback need TLS.
    pub listen: ListenAddress,
    /// TLS on TCP; absent: none.
    pub tls: Option<Tls>,
    /// Further names that requests on TCP may have for the daemon, without a port. Loopback's names are known; with TLS
    /// and without this list, any name will do.
    pub hosts: Vec<String>,
    /// Origins whose pages may call the daemon from a browser, such as `https://example.org`; none by default.
    pub origins: Vec<String>,
    /// The PostgreSQL database with the sessions, as `postgres://…`; absent: a file of SQLite in the data directory. What the
    /// address leaves out comes from the variables `PG…` and the password file.
    pub database: Option<String>,
    /// The daemon as one of several with the database.
    pub cluster: ClusterSettings,
    /// Seconds after which another daemon may take the shards of one that is gone, 2 to 300.
    pub lease_seconds: u64,
    /// Durability of an acknowledged write.
    pub durability: Durability,
    /// The preset of sessions that name none.
    pub default_preset: String,
    /// Number of compactions that run at the same time.
    pub workers: usize,
    /// Time for which a client may take nothing of a waiting answer, in seconds, 1 to 3600; then the answer ends.
    pub stall_seconds: u64,
    /// Memory for loaded sessions, in MiB, 0 to 65536; with 0 nothing is kept.
    pub loaded_mib: usize,
    /// The verification of the store in the background.
    pub scrub: Scrub,
    /// Keeps an index for full-text search; without it, one that is there is removed.
    pub search: bool,
    /// The log of who read what.
    pub access_log: AccessLog,
    /// Summarizers with a model, by name.
    pub summarizers: BTreeMap<String, SummarizerSettings>,
    /// The summarizers to use.
    pub summarizer: SummarizerChoice,
    /// Programs that are notified of compactions.
    pub hooks: Hooks,
    /// Quotas of tenants, by their names; `default` is the default tenant.
    pub tenants: BTreeMap<String, TenantQuota>,
    /// Rules by which sessions are erased.
    pub retention: Vec<RetentionRule>,
    /// Rules for secrets in what clients send.
    pub secrets: SecretSettings,
    /// Policies of sessions that name no preset, by model or project; the first match is used.
    pub policies: Vec<PolicyRule>,
    /// Vocabularies for exact token counts, by the name that policies use: files of lines `base64 rank`, as tiktoken
    /// and Qwen-Agent have them.
    pub vocabularies: BTreeMap<String, PathBuf>,
    /// A table of models, in place of the one that is built in.
    pub models: Option<PathBuf>,
}

/// Name of the default tenant in the configuration.
pub const DEFAULT_TENANT: &str = "default";

/// Quotas of a tenant; absent for no bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TenantQuota {
    /// Sessions, archived ones too; erased ones do not count.
    pub sessions: Option<u64>,
    /// Messages, parts of open messages, pieces of drafts, edits, prompts and supplied summaries in a second. As many may
    /// come at once.
    pub appends_per_second: Option<u32>,
    /// Event streams, and messages that are written as streams, that are open at the same time.
    pub streams: Option<u64>,
    /// Bytes of content, before compression.
    pub bytes: Option<u64>,
    /// Tokens of requests to models, in a day from midnight UTC.
    pub summary_tokens_per_day: Option<u64>,
    /// Cost of requests to models in a day, in millionths of a US dollar.
    pub summary_micro_usd_per_day: Option<u64>,
}

/// The policy of sessions that name no preset, for a model or a project.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PolicyRule {
    /// The model of the session's window; `*` stands for any characters. Absent: any model.
    pub model: Option<String>,
    /// The project: the `project` in the session's metadata, or a directory that is or contains the `cwd` there.
    /// Absent: any.
    pub project: Option<String>,
    /// The preset; absent: the default preset.
    pub preset: Option<String>,
    /// Values that are merged over the preset, by the fields of a policy.
    #[serde(rename = "override")]
    pub changes: toml::Table,
}

impl PolicyRule {
    /// The values as a JSON merge patch; empty for none.
    pub fn override_json(&self) -> String {
        if self.changes.is_empty() { String::new() } else { serde_json::to_string(&self.changes).unwrap_or_default() }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            data_dir: default_data_dir(),
            socket: None,
            listen: ListenAddress::default(),
            tls: None,
            hosts: Vec::new(),
            origins: Vec::new(),
            database: None,
            cluster: ClusterSettings::default(),
            lease_seconds: limits::LEASE_SECONDS_DEFAULT,
            durability: Durability::Full,
            default_preset: presets::DEFAULT.to_owned(),
            workers: 2,
            stall_seconds: limits::STALL_SECONDS_DEFAULT,
            loaded_mib: limits::LOADED_MIB_DEFAULT,
            scrub: Scrub::default(),
            retention: Vec::new(),
            secrets: SecretSettings::default(),
            search: true,
            access_log: AccessLog::default(),
            summarizers: BTreeMap::new(),
            summarizer: SummarizerChoice::default(),
            hooks: Hooks::default(),
            tenants: BTreeMap::new(),
            policies: Vec::new(),
            vocabularies: BTreeMap::new(),
            models: None,
        }
    }
}

impl Config {
    /// Loads the file, if one is named, over the defaults.
    pub fn load(file: Option<&Path>) -> Result<Self, Error> {
        let Some(path) = file else { return Ok(Self::default()) };
        let text = std::fs::read_to_string(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
        toml::from_str(&text)
            .map_err(|error| Error::Parse { path: path.to_owned(), message: parse_message(&text, &error) })
    }

    /// Refuses inconsistent values, before anything is opened.
    pub fn validate(&self) -> Result<(), Error> {
        if let ListenAddress::Address(listen) = self.listen
            && !listen.ip().is_loopback()
            && self.tls.is_none()
        {
            return Err(Error::Invalid(format!(
                "{listen} is not a loopback address, and there is no `tls`: access tokens would cross the network in clear"
            )));
        }
        let (days, most) = (self.access_log.retention_days, limits::ACCESS_LOG_DAYS_MAX);
        if days > most {
            return Err(Error::Invalid(format!("access_log.retention_days is {days}, over {most}")));
        }
        let lease = self.lease_seconds;
        if !limits::LEASE_SECONDS.contains(&lease) {
            let (least, most) = limits::LEASE_SECONDS.into_inner();
            return Err(Error::Invalid(format!("lease_seconds is {lease}, not {least} to {most}")));
        }
        self.cluster.validate().map_err(|why| Error::Invalid(format!("cluster.{why}")))?;
        if self.workers == 0 || self.workers > 64 {
            return Err(Error::Invalid(format!("workers is {}, not 1 to 64", self.workers)));
        }
        let stall = self.stall_seconds;
        if !(1..=limits::STALL_SECONDS_MAX).contains(&stall) {
            let most = limits::STALL_SECONDS_MAX;
            return Err(Error::Invalid(format!("stall_seconds is {stall}, not 1 to {most}")));
        }
        let (loaded, most) = (self.loaded_mib, limits::LOADED_MIB_MAX);
        if loaded > most {
            return Err(Error::Invalid(format!("loaded_mib is {loaded}, not 0 to {most}")));
        }
        if presets::find(&self.default_preset).is_none() {
            return Err(Error::Invalid(format!("default_preset {:?} is not a preset", self.default_preset)));
        }
        for (index, rule) in self.policies.iter().enumerate() {
            self.validate_policy(rule).map_err(|why| Error::Invalid(format!("policies.{index}.{why}")))?;
        }
        for (index, rule) in self.retention.iter().enumerate() {
            rule.validate().map_err(|why| Error::Invalid(format!("retention.{index}.{why}")))?;
            if self.retention[..index].iter().any(|other| other.name == rule.name) {
                return Err(Error::Invalid(format!("retention.{index}.name is that of another rule")));
            }
        }
        self.scrub.validate().map_err(|why| Error::Invalid(format!("scrub.{why}")))?;
        self.hooks.validate().map_err(|why| Error::Invalid(format!("hooks.{why}")))?;
        self.validate_summarizers()
    }

    /// Checks a policy rule. The caller puts the rule's path before the error.
    fn validate_policy(&self, rule: &PolicyRule) -> Result<(), String> {
        let name = rule.preset.as_ref().unwrap_or(&self.default_preset);
        let preset = presets::find(name).ok_or_else(|| format!("preset {name:?} is not a preset"))?;
        let changes = rule.override_json();
        if !changes.is_empty() {
            let changed = preset.policy().with_overrides(&changes);
            changed.map_err(|error| format!("override.{}: {}", error.field, error.message))?;
        }
        Ok(())
    }

    fn validate_summarizers(&self) -> Result<(), Error> {
        for (name, settings) in &self.summarizers {
            settings.validate().map_err(|message| Error::Invalid(format!("summarizers.{name}: {message}")))?;
            if name == BUILT_IN && settings.kind != SummarizerKind::Extractive {
                return Err(Error::Invalid(format!("summarizers.{name}: the name is the built-in summarizer's")));
            }
        }
        let SummarizerChoice { auto, deep, fallback, client_wait_seconds } = &self.summarizer;
        if *client_wait_seconds > 3_600 {
            return Err(Error::Invalid(format!("summarizer.client_wait_seconds is {client_wait_seconds}, over 3600")));
        }
        let mut named = auto.iter().chain(deep).chain(fallback);
        match named.find(|name| *name != BUILT_IN && !self.summarizers.contains_key(*name)) {
            Some(name) => Err(Error::Invalid(format!("summarizer: {name:?} is not among the summarizers"))),
            None => Ok(()),
        }
    }

    /// Loads the vocabularies, before anything else is opened.
    pub fn read_vocabularies(&self) -> Result<Vec<Arc<Vocabulary>>, Error> {
        let read = |(name, path): (&String, &PathBuf)| {
            let bytes = std::fs::read(path).map_err(|source| Error::Read { path: path.clone(), source })?;
            let parse = Vocabulary::parse(name, &bytes);
            let parse = parse.map_err(|error| Error::Parse { path: path.clone(), message: error.to_string() });
            parse.map(Arc::new)
        };
        self.vocabularies.iter().map(read).collect()
    }

    /// Reads the table of models, or takes the one that is built in.
    pub fn read_models(&self) -> Result<Arc<Models>, Error> {
        let Some(path) = &self.models else { return Ok(Models::built_in()) };
        let text = std::fs::read_to_string(path).map_err(|source| Error::Read { path: path.clone(), source })?;
        let models = Models::parse(&text);
        models.map(Arc::new).map_err(|error| Error::Parse { path: path.clone(), message: error.to_string() })
    }

    /// Reads the rules for secrets, before anything else is opened: those of the file, then the built-in ones. None if
    /// there are none.
    pub fn read_secret_rules(&self) -> Result<Option<Rules>, Error> {
        let path = self.secrets.rules.as_deref();
        let mut rules = path.map_or_else(|| Ok(Vec::new()), read_secret_rules)?;
        rules.extend(self.secrets.known.rules());
        let place = path.map_or_else(|| "secrets".to_owned(), |path| path.display().to_string());
        Rules::new(&rules).map_err(|error| Error::Invalid(format!("{place}: {error}")))
    }

    /// The path of the Unix socket, or its default.
    pub fn socket_path(&self) -> PathBuf {
        self.socket.clone().unwrap_or_else(|| self.data_dir.join("longhand.sock"))
    }
}

fn read_secret_rules(path: &Path) -> Result<Vec<Rule>, Error> {
    let failed = |source| Error::Read { path: path.to_owned(), source };
    let bytes = std::fs::metadata(path).map_err(failed)?.len();
    if bytes > limits::SECRET_RULES_BYTES_MAX {
        let most = limits::SECRET_RULES_BYTES_MAX;
        return Err(Error::Invalid(format!("{} has {bytes} bytes, over {most}", path.display())));
    }
    let text = std::fs::read_to_string(path).map_err(failed)?;
    secrets::parse(&text).map_err(|error| Error::Parse { path: path.to_owned(), message: parse_message(&text, &error) })
}

/// The error of a file, with its line. Neither the line nor a string in it is quoted, since it may contain a key.
fn parse_message(text: &str, error: &toml::de::Error) -> String {
    let message = match (error.message().split_once("string \""), error.message().rsplit_once('"')) {
        (Some((before, _)), Some((_, behind))) => format!("{before}string{behind}"),
        _ => error.message().to_owned(),
    };
    match error.span().and_then(|span| text.get(..span.start)) {
        Some(before) => format!("line {}: {message}", before.matches('\n').count() + 1),
        None => message,
    }
}

/// The platform's data directory for Longhand: `$XDG_DATA_HOME/longhand`, or the platform's equivalent.
pub fn default_data_dir() -> PathBuf {
    let from = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(data) = from("XDG_DATA_HOME") {
        return data.join("longhand");
    }
    let home = from("HOME").unwrap_or_else(|| PathBuf::from("."));
    if cfg!(target_os = "macos") {
        home.join("Library/Application Support/longhand")
    } else {
        home.join(".local/share/longhand")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, problem: Option<&str>) {
        let config: Config = toml::from_str(text).expect(text);
        let actual = config.validate().err().map(|error| error.to_string());
        assert_eq!(actual.is_some(), problem.is_some(), "{text}: {actual:?}");
        let (actual, problem) = (actual.unwrap_or_default(), problem.unwrap_or_default());
        assert!(actual.contains(problem), "{text}: {actual}");
    }

    #[test]
    fn a_policy_rule_is_checked_before_anything_is_opened() {
        let rule = |rest: &str| format!("[[policies]]\nmodel = \"gpt-*\"\n{rest}");
        check(&rule("preset = \"pi\"\noverride = { trigger = { auto = false } }"), None);
        check(&rule(""), None);
        check(&rule("preset = \"nobody\""), Some("policies.0.preset"));
        check(&rule("override = { trigger = { auto = 1 } }"), Some("policies.0.override.trigger.auto"));
        check(&rule("override = { guards = { max_attempts = 0 } }"), Some("policies.0.override.guards.max_attempts"));
    }

    #[test]
    fn a_rule_of_retention_is_checked_before_anything_is_opened() {
        let rule = |rest: &str| format!("[[retention]]\n{rest}");
        check(&rule("name = \"a\"\nmax_age_days = 1\nlabel = \"x\"\ntenant = \"default\""), None);
        check(&rule("name = \"a\"\nmax_bytes = 0\n[[retention]]\nname = \"b\"\nmax_idle_days = 36500"), None);
        check(&rule("max_age_days = 1"), Some("retention.0.name"));
        check(&rule("name = \"a\""), Some("retention.0.has none of"));
        check(&rule("name = \"a\"\nmax_age_days = 0"), Some("retention.0.max_age_days is 0"));
        check(&rule("name = \"a\"\nmax_idle_days = 36501"), Some("retention.0.max_idle_days"));
        let twice = "name = \"a\"\nmax_bytes = 1\n[[retention]]\nname = \"a\"\nmax_bytes = 2";
        check(&rule(twice), Some("retention.1.name is that of another rule"));
    }

    #[test]
    fn hooks_scrubs_and_waits_are_checked_before_anything_is_opened() {
        check("hooks = { pre_compact = { command = [\"notify\", \"-x\"], required = true } }", None);
        check("hooks = { pre_compact = { command = [] } }", Some("hooks.pre_compact: command"));
        check(
            "hooks = { post_compact = { command = [\"x\"], timeout_seconds = 0 } }",
            Some("hooks.post_compact: timeout"),
        );
        check("hooks = { post_compact = { command = [\"x\"], required = true } }", Some("hooks.post_compact: nothing"));
        check("hooks = { post_compact = { command = [\"x\"], messages = true } }", Some("hooks.post_compact: it gets"));
        check("scrub = { interval_hours = 0, mib_per_second = 1024 }", None);
        check("scrub = { interval_hours = 8785 }", Some("scrub.interval_hours"));
        check("scrub = { mib_per_second = 0 }", Some("scrub.mib_per_second"));
        check("scrub = { mib_per_second = 1025 }", Some("scrub.mib_per_second"));
        check("summarizer = { client_wait_seconds = 30 }", None);
        check("summarizer = { client_wait_seconds = 3601 }", Some("summarizer.client_wait_seconds"));
    }

    #[test]
    fn errors_in_a_file_are_reported_without_its_text() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("longhand.toml");
        for (text, expected) in [
            (
                "workers = 2\n[summarizers.a]\nkind = \"anthropic\"\napi_key = \"sk-secret\"\n",
                "line 4: unknown field `api_key`",
            ),
            ("workers = \"sk-secret\"", "line 1: invalid type: string, expected"),
            ("\nworkers = \"sk-secret", "line 2: "),
        ] {
            std::fs::write(&file, text).expect("the file is written");
            let error = Config::load(Some(&file)).expect_err(text).to_string();
            assert!(error.contains(expected) && !error.contains("sk-secret"), "{error}");
        }
    }

    #[test]
    fn a_vocabulary_that_cannot_be_read_is_named() {
        let config: Config = toml::from_str("vocabularies = { mine = \"/nowhere/at/all\" }").expect("a configuration");
        let error = config.read_vocabularies().expect_err("there is no such file");
        assert!(error.to_string().contains("/nowhere/at/all"), "{error}");
    }
}
