//! A store with two tenants, the owner, and access tokens that are bound, each with random sessions.

use super::calls::{Said as _, methods};
use super::requests::everything;
use crate::support::{TestApp, text, turns, window};
use http::Method;
use longhand::app::Caller;
use longhand::app::access::Credentials;
use longhand::app::access_tokens::NewAccessToken;
use longhand::app::approvals::{Choice, Question};
use longhand::app::compactions::NewSummary;
use longhand::app::prompts::NewPrompt;
use longhand::app::sessions::{ForkPoint, NewSession, SessionChange};
use longhand::app::summary_tasks::LeaseRequest;
use longhand::grpc::{self, GuardedServices};
use longhand::model::access::Scopes;
use longhand::model::ids::MessageId;
use longhand::model::message::{NewMessage, Role};
use longhand::scheduler;
use longhand::summarizer::Extractive;
use longhand::transport::Peer;
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng};
use prost_reflect::{MethodDescriptor, Value as Field};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// A kind of id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Session,
    Message,
    Part,
    Compaction,
    Prompt,
    Approval,
    Token,
    Client,
}

impl Kind {
    pub(super) const ALL: [Self; 8] = [
        Self::Session,
        Self::Message,
        Self::Part,
        Self::Compaction,
        Self::Prompt,
        Self::Approval,
        Self::Token,
        Self::Client,
    ];

    /// The word of it in the names of fields.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Message => "message",
            Self::Part => "part",
            Self::Compaction => "compaction",
            Self::Prompt => "prompt",
            Self::Approval => "approval",
            Self::Token => "access_token",
            Self::Client => "client",
        }
    }
}

/// An id of the same kind and length that nobody has.
pub(super) fn made_up(kind: Kind, like: &str) -> String {
    match (kind, like.split_once('_')) {
        (Kind::Client, _) | (_, None) => "n".repeat(like.len()),
        (_, Some((prefix, rest))) => format!("{prefix}_{}", "7".repeat(rest.len())),
    }
}

/// What was written for somebody.
#[derive(Debug, Clone, Default)]
pub(super) struct Written {
    ids: Vec<(Kind, String)>,
    /// A word that is in every text.
    marker: String,
    /// The compaction of a leased summary task, with the token of the lease.
    lease: Option<(String, String)>,
}

/// What a side must not see.
#[derive(Debug, Default)]
pub(super) struct Hidden(Vec<Written>);

impl Hidden {
    /// The first and the last id of each kind.
    pub(super) fn ids(&self) -> Vec<&(Kind, String)> {
        let mut found = Vec::new();
        for kind in Kind::ALL {
            let of_kind: Vec<_> =
                self.0.iter().flat_map(|written| &written.ids).filter(|(found, _)| *found == kind).collect();
            found.extend(of_kind.first());
            found.extend(of_kind.last().filter(|_| of_kind.len() > 1));
        }
        found
    }

    /// The leases of summary tasks.
    pub(super) fn leases(&self) -> impl Iterator<Item = &(String, String)> {
        self.0.iter().filter_map(|written| written.lease.as_ref())
    }

    /// Texts that no answer may have.
    pub(super) fn secrets(&self) -> impl Iterator<Item = &str> {
        self.0.iter().flat_map(|written| written.ids.iter().map(|(_, id)| id.as_str()).chain([written.marker.as_str()]))
    }
}

/// A caller, with what is its own and what it must not see.
pub(super) struct Side {
    pub(super) name: &'static str,
    pub(super) secret: String,
    pub(super) is_operator: bool,
    /// True for an access token that is bound to some sessions of its tenant.
    pub(super) is_bound: bool,
    pub(super) hidden: Hidden,
    /// Ids of its own sessions.
    pub(super) sessions: Vec<String>,
    own: Vec<(Kind, String)>,
}

impl Side {
    /// An id of its own.
    pub(super) fn own(&self, kind: Kind) -> Option<String> {
        self.own.iter().find(|(found, _)| *found == kind).map(|(_, id)| id.clone())
    }
}

/// A step of a history.
#[derive(Debug, Clone)]
pub(super) enum TenantCall {
    Append(usize),
    Child(usize),
    Fork(usize),
    Summarize(usize),
    Undo(usize),
    Rename(usize),
    Archive(usize),
}

/// A history for each of the five writers.
pub(super) fn histories() -> impl Strategy<Value = Vec<Vec<TenantCall>>> {
    let step = (0..7, 0..100_usize).prop_map(|(step, of)| match step {
        0 | 1 => TenantCall::Append(of),
        2 => TenantCall::Child(of),
        3 => TenantCall::Fork(of),
        4 => TenantCall::Summarize(of),
        5 => TenantCall::Undo(of),
        _ => TenantCall::Rename(of),
    });
    let archived = any::<bool>();
    let history = (prop::collection::vec(step, 4..12), archived).prop_map(|(mut steps, archived)| {
        steps.extend(archived.then_some(TenantCall::Archive(0)));
        steps
    });
    prop::collection::vec(history, 6)
}

/// Random cases that are the same in every run.
pub(super) fn rng() -> TestRng {
    TestRng::deterministic_rng(RngAlgorithm::ChaCha)
}

/// The store and its doors.
pub(super) struct World {
    pub(super) grpc: GuardedServices,
    pub(super) http: axum::Router,
    pub(super) sides: Vec<Side>,
    _test: TestApp,
}

/// Who writes: a marker, and what the sessions have.
struct Writer {
    app: Caller,
    written: Written,
    sessions: Vec<String>,
    metadata: String,
}

impl Writer {
    fn new(app: Caller, name: &str, project: &str) -> Self {
        let marker = format!("marker-of-{name}");
        let metadata = serde_json::json!({"project": project, "note": marker}).to_string();
        Self { app, written: Written { ids: Vec::new(), marker, lease: None }, sessions: Vec::new(), metadata }
    }

    fn add(&mut self, kind: Kind, id: impl ToString) {
        self.written.ids.push((kind, id.to_string()));
    }

    async fn create(&mut self, parent: Option<String>) -> String {
        let client_id = format!("{}-{}", self.written.marker, self.sessions.len());
        let new = NewSession {
            client_id: Some(client_id.clone()),
            title: format!("about {}", self.written.marker),
            window: window(6_000, 1_000),
            metadata_json: Some(self.metadata.clone()),
            parent,
            ..NewSession::default()
        };
        let id = self.app.sessions().create(new).await.expect("a session").answer.0.session.id.to_string();
        self.add(Kind::Session, &id);
        self.add(Kind::Client, client_id);
        self.sessions.push(id.clone());
        id
    }

    async fn append(&mut self, session: &str) {
        let number = self.written.ids.len();
        let client_id = format!("{}-message-{number}", self.written.marker);
        let words = format!("words of {}", self.written.marker);
        let message =
            NewMessage { client_id: Some(client_id.clone()), ..NewMessage::sealed(Role::User, vec![text(&words)]) };
        let appended = self.app.messages().append(session, vec![message], None, None).await;
        // A session that was archived takes nothing.
        let Ok(appended) = appended else { return };
        let id = MessageId(appended.ids[0]);
        let (message, _, _) = self.app.messages().get(session, &id.to_string()).await.expect("the message");
        self.add(Kind::Message, id);
        self.add(Kind::Client, client_id);
        self.add(Kind::Part, message.parts[0].id);
    }

    /// Plays a history in which every session is below the first one.
    async fn play(&mut self, steps: &[TenantCall]) {
        let first = self.create(None).await;
        self.append(&first).await;
        self.append(&first).await;
        let until = self.written.ids.iter().rev().find(|(kind, _)| *kind == Kind::Message);
        let tail_start = until.map(|(_, id)| id.clone()).unwrap_or_default();
        let words = format!("a summary of {}", self.written.marker);
        let new = NewSummary { text: words, tail_start, ..NewSummary::default() };
        let (compaction, _) = self.app.compactions().supply_summary(&first, new).await.expect("a summary").answer;
        self.add(Kind::Compaction, compaction.id);
        self.ask(&first).await;
        for step in steps {
            let pick = |of: &usize| self.sessions[of % self.sessions.len()].clone();
            match step {
                TenantCall::Append(of) => {
                    let session = pick(of);
                    self.append(&session).await;
                }
                TenantCall::Child(of) => {
                    let session = self.create(Some(pick(of))).await;
                    self.append(&session).await;
                }
                TenantCall::Fork(of) => {
                    let client_id = format!("{}-fork-{}", self.written.marker, self.sessions.len());
                    let (session, title) = (pick(of), self.written.marker.clone());
                    let fork = self.app.sessions().fork(&session, ForkPoint::default(), Some(client_id.clone()), title);
                    let id = fork.await.expect("a fork").0.session.id.to_string();
                    self.add(Kind::Session, &id);
                    self.add(Kind::Client, client_id);
                    self.sessions.push(id);
                }
                TenantCall::Summarize(of) => {
                    let words = format!("a summary of {}", self.written.marker);
                    let new = NewSummary { text: words, ..NewSummary::default() };
                    if let Ok(supplied) = self.app.compactions().supply_summary(&pick(of), new).await {
                        self.add(Kind::Compaction, supplied.0.id);
                    }
                }
                // Without anything to undo nothing happens.
                TenantCall::Undo(of) => drop(self.app.compactions().undo(&pick(of), None).await),
                TenantCall::Rename(of) => {
                    let title = Some(format!("new title of {}", self.written.marker));
                    let change = SessionChange { title, ..SessionChange::default() };
                    self.app.sessions().update(&pick(of), change).await.expect("a change");
                }
                TenantCall::Archive(of) => drop(self.app.sessions().archive(&pick(&(of + 1))).await),
            }
        }
    }

    /// Gives a session a prompt, a question and a label.
    async fn ask(&mut self, session: &str) {
        let words = format!("a question of {}", self.written.marker);
        let prompt = self
            .app
            .prompts()
            .submit(session, NewPrompt::from_parts(vec![text(&words)]))
            .await
            .expect("a prompt")
            .answer
            .0;
        self.add(Kind::Prompt, prompt);
        let choices = ["yes", "no"].map(|id| Choice { id: id.to_owned(), label: String::new() }).to_vec();
        let question = Question { text: words, choices, ..Question::default() };
        let approval = self.app.approvals().request(session, question).await.expect("a question").answer.0;
        self.add(Kind::Approval, approval.id);
        self.app.sessions().add_label(session, self.written.marker.clone()).await.expect("a label");
    }

    /// A session whose compaction waits for the summary that a client has leased.
    async fn lease(&mut self) {
        let first = self.sessions[0].clone();
        let session = self.create(Some(first)).await;
        let words = turns(1, 9, 1_100);
        self.app.messages().append(&session, crate::support::conversation(&words), None, None).await.expect("appended");
        let wanted = LeaseRequest {
            sessions: vec![session],
            wait: Some(Duration::from_secs(60)),
            lease: Some(Duration::from_secs(600)),
            ..LeaseRequest::default()
        };
        let leased = self.app.summary_tasks().lease(wanted).await.expect("tasks are offered").expect("a task");
        self.add(Kind::Compaction, leased.task.compaction);
        self.written.lease = Some((leased.task.compaction.to_string(), leased.token));
    }
}

impl World {
    /// The end of a connection of TCP.
    pub(super) fn peer() -> Peer {
        Peer::Tcp { address: SocketAddr::from(([127, 0, 0, 1], 4_747)), is_encrypted: false }
    }

    /// A store in which everybody has written a history.
    pub(super) async fn new(histories: &[Vec<TenantCall>]) -> Self {
        let options = scheduler::Options { client_wait: Duration::from_secs(600), ..scheduler::Options::default() };
        let test = TestApp::with_options(Arc::new(Extractive), options).await;
        test.longhand.load_access_tokens("lh_owner_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA").await.expect("read");
        let token = async |tenant: &str, project: Option<&str>, root: Option<String>| {
            let new = NewAccessToken {
                principal: format!("agent-of-{tenant}"),
                tenant: Some(tenant.to_owned()),
                scopes: Scopes::all(),
                project: project.map(str::to_owned),
                root,
                expire_time: None,
            };
            test.app.access_tokens().create(new).await.expect("a token")
        };
        let caller = |secret: &str| {
            let credentials = Credentials::Secret(secret, IpAddr::V4(Ipv4Addr::LOCALHOST));
            let access = test.longhand.entrance().authenticate(credentials).expect("it proves its principal");
            test.longhand.caller(access, String::new(), None).expect("a caller")
        };
        let (of_one, one) = token("one", None, None).await;
        let (of_two, two) = token("two", None, None).await;
        let (of_default, default) = token("", None, None).await;
        let writers = [
            (&one, "tenant-one", "outer"),
            (&one, "the-tree", "outer"),
            (&one, "the-project", "inner"),
            (&two, "tenant-two", "outer"),
            (&default, "the-default-tenant", "inner"),
        ];
        let mut written = Vec::new();
        for ((secret, name, project), steps) in writers.into_iter().zip(histories) {
            let mut writer = Writer::new(caller(secret), name, project);
            writer.play(steps).await;
            // The task occupies the only worker for compactions.
            if written.is_empty() {
                writer.lease().await;
            }
            written.push(writer);
        }
        let (_, in_tree) = token("one", None, Some(written[1].sessions[0].clone())).await;
        let (_, in_project) = token("one", Some("inner"), None).await;
        written[0].add(Kind::Token, of_one.id);
        written[3].add(Kind::Token, of_two.id);
        written[4].add(Kind::Token, of_default.id);
        let sees = [
            ("tenant one", one.as_str(), &[0, 1, 2][..]),
            ("a token bound to a tree", in_tree.as_str(), &[1]),
            ("a token bound to a project", in_project.as_str(), &[2]),
            ("tenant two", two.as_str(), &[3]),
            ("the default tenant", default.as_str(), &[4]),
        ];
        let sides = sees.map(|(name, secret, seen)| {
            let own = || seen.iter().map(|index: &usize| &written[*index]);
            let hidden = (0..written.len()).filter(|index| !seen.contains(index));
            let mut hidden: Vec<Written> = hidden.map(|index| written[index].written.clone()).collect();
            if name == "the default tenant" {
                // An operator lists the tokens of every tenant.
                hidden.iter_mut().for_each(|written| written.ids.retain(|(kind, _)| *kind != Kind::Token));
            }
            Side {
                name,
                secret: secret.to_owned(),
                is_operator: name == "the default tenant",
                is_bound: name.contains("bound"),
                hidden: Hidden(hidden),
                sessions: own().flat_map(|writer| writer.sessions.clone()).collect(),
                own: own().flat_map(|writer| writer.written.ids.clone()).collect(),
            }
        });
        let (routes, _health) = grpc::router(test.longhand.clone()).await;
        let http = {
            let guard = routes.clone();
            longhand::http::router(routes.clone(), move |path, head| guard.check(path, head))
        };
        Self { grpc: routes, http, sides: sides.into(), _test: test }
    }

    /// The answers of every method that needs no id, page by page, and of the streams over everything, with what gave
    /// them.
    pub(super) async fn everything(&self, side: &Side, most: usize) -> Vec<(String, String)> {
        let mut said = Vec::new();
        // An operator lists the tokens of every tenant, with the sessions that they are bound to.
        let is_shown = |method: &MethodDescriptor| !side.is_operator || method.name() != "ListAccessTokens";
        for method in methods().into_iter().filter(is_shown) {
            let mut request = everything(&method.input());
            let mut texts = Vec::new();
            for _ in 0..most {
                let answer = self.call(side, &method, &request).await;
                let next = answer.messages.last().and_then(|last| {
                    let next = last.get("nextPageToken").or_else(|| last.get("nextCursor"))?;
                    next.as_str().filter(|next| !next.is_empty()).map(str::to_owned)
                });
                texts.extend(vec![answer].texts());
                let Some(next) = next else { break };
                let input = method.input();
                let field = input.get_field_by_name("page_token").or_else(|| input.get_field_by_name("after_cursor"));
                request.set_field(&field.expect("a field for the next page"), Field::String(next));
            }
            let name = if matches!(method.name(), "ListSessions") { "sessions" } else { method.name() };
            let name = if matches!(method.name(), "ListEvents" | "SubscribeEvents") { "events" } else { name };
            said.push((format!("{name} ({})", method.name()), texts.join("\n")));
        }
        let streams = [
            (
                "/v1/events?fromBeginning=true&includeContent=true&includeDeltas=true&progressInterval=1s",
                "text/event-stream",
            ),
            ("/v1/events?offset=-1&includeContent=true", "application/json"),
            ("/v1/events?offset=-1&live=sse&includeContent=true&progressInterval=1s", "text/event-stream"),
        ];
        for (uri, accept) in streams {
            let answer = self.send(side, Method::GET, uri, String::new(), accept).await;
            said.push((format!("events of {uri}"), vec![answer].texts().concat()));
        }
        said
    }
}
