//! Access tokens: who may call what, how long, and what a wrong secret gets.

use crate::support::{TestApp, soon};
use http::{HeaderMap, Request};
use http_body_util::{BodyExt as _, Full};
use longhand::access_log;
use longhand::app::access::{Access, Credentials};
use longhand::app::access_record::AccessLogging;
use longhand::app::access_tokens::NewAccessToken;
use longhand::app::{Error, Reason};
use longhand::grpc::GuardedServices;
use longhand::model::access::{Scope, Scopes};
use longhand::model::time::Timestamp;
use longhand::transport::Peer;
use longhand::{grpc, pb};
use prost::Message as _;
use std::net::SocketAddr;
use tonic::body::Body;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;
use tower::ServiceExt as _;

const OWNER: &str = "lh_owner_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// A store whose services are called over TCP.
struct Served {
    test: TestApp,
    routes: GuardedServices,
}

impl Served {
    async fn start() -> Self {
        let test = TestApp::start().await;
        test.longhand.load_access_tokens(OWNER).await.expect("the tokens are read");
        let (routes, _) = grpc::router(test.longhand.clone()).await;
        Self { test, routes }
    }

    async fn token(&self, scopes: &[Scope]) -> (String, String) {
        let scopes = scopes.iter().copied().collect();
        let new = NewAccessToken { principal: "agent".to_owned(), scopes, ..NewAccessToken::default() };
        let (token, secret) = self.test.app.access_tokens().create(new).await.expect("a token");
        (token.id.to_string(), secret)
    }

    fn request(path: &str, peer: Option<Peer>, secret: Option<&str>, message: &[u8]) -> Request<Body> {
        let length = u32::try_from(message.len()).expect("a length").to_be_bytes();
        let framed = [&[0], &length[..], message].concat();
        let mut request = Request::post(path).header("content-type", "application/grpc").header("te", "trailers");
        if let Some(secret) = secret {
            request = request.header("authorization", format!("Bearer {secret}"));
        }
        let mut request = request.body(Body::new(Full::new(framed.into()))).expect("a request");
        if let Some(peer) = peer {
            request.extensions_mut().insert(peer);
        }
        request
    }

    /// The headers of the answer to an empty request, and the rest of it.
    async fn begin(&self, path: &str, peer: Option<Peer>, secret: Option<&str>) -> (HeaderMap, Body) {
        let request = Self::request(path, peer, secret, &[]);
        let Ok(answer) = soon(path, self.routes.clone().oneshot(request)).await;
        let (head, body) = answer.into_parts();
        (head.headers, body)
    }

    /// The reason of a refusal before the first byte of an answer; none if there is an answer.
    async fn refusal(&self, path: &str, secret: Option<&str>) -> Option<String> {
        let (headers, _) = self.begin(path, Some(tcp(1)), secret).await;
        reason(&Status::from_header_map(&headers)?)
    }
}

fn reason(status: &Status) -> Option<String> {
    (status.code() != Code::Ok).then(|| {
        let details = status.get_error_details();
        details.error_info().map(|info| info.reason.clone()).unwrap_or_default()
    })
}

fn tcp(last: u8) -> Peer {
    Peer::Tcp { address: SocketAddr::from(([127, 0, 0, last], 4_747)), is_encrypted: false }
}

/// The path and the scope of every RPC, from the protos.
fn methods() -> Vec<(String, Scope)> {
    let pool = pb::DESCRIPTORS.clone();
    let extension = pool.get_extension_by_name("longhand.v1.scope").expect("it is declared");
    let mut methods = Vec::new();
    for service in pool.services().filter(|service| service.package_name() == "longhand.v1") {
        for method in service.methods() {
            let options = method.options();
            let declared = options.get_extension(&extension);
            let number = declared.as_enum_number().expect("a number");
            let name = pb::Scope::try_from(number).expect("a scope").as_str_name().trim_start_matches("SCOPE_");
            let scope = name.to_lowercase().parse().unwrap_or_else(|_| panic!("{} has no scope", method.full_name()));
            methods.push((format!("/{}/{}", service.full_name(), method.name()), scope));
        }
    }
    assert!(methods.len() > 40, "{methods:?}");
    methods
}

#[tokio::test]
async fn every_method_takes_the_scope_that_it_declares_and_no_other() {
    let served = Served::start().await;
    let mut secrets = Vec::new();
    for scope in Scope::ALL {
        secrets.push((scope, served.token(&[scope]).await.1));
    }
    for (path, needed) in methods() {
        for (scope, secret) in &secrets {
            // A method that is allowed fails for other reasons, or waits.
            let call = served.refusal(&path, Some(secret));
            let refusal = tokio::time::timeout(std::time::Duration::from_millis(200), call).await.unwrap_or_default();
            let is_refused = refusal.as_deref() == Some("SCOPE_MISSING");
            assert_eq!(is_refused, *scope != needed, "{path} with {scope}: {refusal:?}");
        }
        assert_eq!(served.refusal(&path, None).await.as_deref(), Some("ACCESS_TOKEN_MISSING"), "{path}");
    }
}

#[tokio::test]
async fn a_caller_without_the_scope_is_refused_before_its_body_is_read() {
    let served = Served::start().await;
    let guard = served.routes.clone();
    let router = longhand::http::router(served.routes.clone(), move |path, head| guard.check(path, head));
    let (_, reader) = served.token(&[Scope::Read]).await;
    let call = async |uri: &str, secret: Option<&str>| {
        let mut request = Request::post(uri).header("content-type", "application/json").extension(tcp(1));
        if let Some(secret) = secret {
            request = request.header("authorization", format!("Bearer {secret}"));
        }
        let endless = futures::stream::pending::<Result<bytes::Bytes, std::io::Error>>();
        let request = request.body(axum::body::Body::from_stream(endless)).expect("a request");
        let Ok(answer) = soon(uri, router.clone().oneshot(request)).await;
        let body = soon(uri, answer.into_body().collect()).await.expect("a body").to_bytes();
        let failure: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
        failure["details"][0]["reason"].as_str().expect("a reason").to_owned()
    };
    for uri in ["/v1/sessions", "/v1/sessions/s/messages", "/v1/sessions/s:undo", "/v1/accessTokens"] {
        assert_eq!(call(uri, Some(&reader)).await, "SCOPE_MISSING", "{uri}");
        assert_eq!(call(uri, None).await, "ACCESS_TOKEN_MISSING", "{uri}");
    }
}

#[tokio::test]
async fn a_tenant_is_refused_the_metrics_of_the_daemon_instead_of_being_told_zeros() {
    let served = Served::start().await;
    let guard = served.routes.clone();
    let router = longhand::http::router(served.routes.clone(), move |path, head| guard.check(path, head));
    for (tenant, expected) in [(None, 200), (Some("acme"), 403)] {
        let new = NewAccessToken {
            principal: "scraper".to_owned(),
            tenant: tenant.map(str::to_owned),
            scopes: [Scope::Read, Scope::Admin].into_iter().collect(),
            ..NewAccessToken::default()
        };
        let (_, secret) = served.test.app.access_tokens().create(new).await.expect("a token");
        let request = Request::get("/metrics").header("authorization", format!("Bearer {secret}")).extension(tcp(1));
        let Ok(answer) =
            soon("metrics", router.clone().oneshot(request.body(axum::body::Body::empty()).expect("a request"))).await;
        assert_eq!(answer.status(), expected, "{tenant:?}");
    }
}

#[tokio::test]
async fn a_request_that_is_mostly_empty_messages_is_refused_before_it_is_decoded() {
    let served = Served::start().await;
    let append = "/longhand.v1.MessageService/AppendMessages";
    let messages = longhand::limits::BATCH_MESSAGES_MAX;
    // Attachments of results in all parts of all messages: empty, and two of them in each.
    let result = pb::ToolResultPart { attachments: vec![pb::MediaPart::default(); 2], ..Default::default() };
    let part = pb::Part { body: Some(pb::part::Body::ToolResult(result)), ..Default::default() };
    let message = pb::NewMessage { parts: vec![part; longhand::limits::MESSAGE_PARTS_MAX], ..Default::default() };
    let full = pb::AppendMessagesRequest { messages: vec![message; messages], ..Default::default() };
    let requests = [
        ([0x12, 0].repeat(messages), "INVALID_FIELD"),
        ([0x12, 0].repeat(messages + 1), "LIMIT_EXCEEDED"),
        (full.encode_to_vec(), "REQUEST_TOO_LARGE"),
    ];
    for (request, expected) in requests {
        let request = Served::request(append, Some(Peer::Owner), None, &request);
        let answer = soon(append, grpc::answer(&served.routes, request.map(axum::body::Body::new))).await;
        let status = Status::from_header_map(answer.headers()).expect("a refusal");
        assert_eq!(reason(&status).as_deref(), Some(expected), "{}", status.message());
    }
}

#[tokio::test]
async fn a_list_of_numbers_is_counted_at_every_door() {
    let served = Served::start().await;
    let subscribe = "/longhand.v1.EventService/SubscribeEvents";
    for (kinds, refused) in [(64, false), (65, true)] {
        let request = pb::SubscribeEventsRequest { kinds: vec![1; kinds], ..Default::default() };
        let request = Served::request(subscribe, Some(Peer::Owner), None, &request.encode_to_vec());
        let answer = soon(subscribe, grpc::answer(&served.routes, request.map(axum::body::Body::new))).await;
        let status = Status::from_header_map(answer.headers());
        assert_eq!(status.and_then(|status| reason(&status)), refused.then(|| "LIMIT_EXCEEDED".to_owned()), "{kinds}");
        let router = longhand::http::router(served.routes.clone(), |_, _| Ok(()));
        let query = vec!["kinds=1"; kinds].join("&");
        let request = Request::get(format!("/v1/events:list?{query}")).extension(Peer::Owner);
        let request = request.body(axum::body::Body::empty()).expect("a request");
        let Ok(answer) = soon("a page", router.oneshot(request)).await;
        assert_eq!(answer.status(), if refused { 400 } else { 200 }, "{kinds}");
    }
}

#[tokio::test]
async fn methods_without_a_scope_are_refused_and_health_is_open() {
    let served = Served::start().await;
    let unknown = served.refusal("/longhand.v1.SessionService/Nothing", Some(OWNER)).await;
    assert_eq!(unknown.as_deref(), Some("METHOD_UNKNOWN"));
    assert_eq!(served.refusal("/grpc.health.v1.Health/Check", None).await, None);
    let watch = served.refusal("/grpc.health.v1.Health/Watch", None).await;
    assert_eq!(watch.as_deref(), Some("ACCESS_TOKEN_MISSING"), "a stream takes credentials");
    let reflection = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
    assert_eq!(served.refusal(reflection, None).await.as_deref(), Some("ACCESS_TOKEN_MISSING"));
    assert_eq!(served.refusal(reflection, Some(&served.token(&[Scope::Write]).await.1)).await, None);
    // A call that came past every connection has no credentials.
    let (headers, _) = served.begin("/longhand.v1.AdminService/ListPresets", None, Some(OWNER)).await;
    let status = Status::from_header_map(&headers).expect("a refusal");
    assert_eq!(reason(&status).as_deref(), Some("ACCESS_TOKEN_MISSING"));
    let (headers, _) = served.begin("/longhand.v1.AdminService/ListPresets", Some(Peer::Owner), None).await;
    assert!(Status::from_header_map(&headers).is_none(), "the owner's connection needs no token");
}

#[tokio::test]
async fn ten_thousand_wrong_secrets_prove_nothing_and_are_slowed_down() {
    let served = Served::start().await;
    let (_, secret) = served.token(&[Scope::Read]).await;
    let attempt = |text: String, address: u8| {
        let Peer::Tcp { address, .. } = tcp(address) else { panic!("TCP") };
        served
            .test
            .longhand
            .entrance()
            .authenticate(Credentials::Secret(&text, address.ip()))
            .map_err(|error| error.reason)
    };
    let mut slowed = 0;
    for number in 0..10_000 {
        let mut wrong = secret.clone().into_bytes();
        // A digit of the id, or a character of the random part.
        let at = 3 + number % (wrong.len() - 4);
        wrong[at] = if wrong[at] == b'0' { b'1' } else { b'0' };
        let refused = attempt(String::from_utf8(wrong).expect("ASCII"), 7).expect_err("it is wrong");
        assert!([Reason::AccessTokenInvalid, Reason::TooManyAttempts].contains(&refused), "{refused:?}");
        slowed += usize::from(refused == Reason::TooManyAttempts);
    }
    assert_eq!(slowed, 10_000 - longhand::limits::FAILED_ATTEMPTS_A_MINUTE as usize);
    // The right one still counts, from that address too.
    assert!(attempt(secret.clone(), 7).is_ok() && attempt(secret, 8).is_ok());
}

#[tokio::test]
async fn a_token_that_is_over_or_revoked_opens_nothing_even_after_a_restart() {
    let served = Served::start().await;
    let list = "/longhand.v1.SessionService/ListSessions";
    let end = Timestamp(served.test.clock.now().0 + 1_000_000);
    let scopes: Scopes = [Scope::Read].into_iter().collect();
    let new = NewAccessToken { principal: "guest".to_owned(), scopes, expire_time: Some(end), ..Default::default() };
    let (_, brief) = served.test.app.access_tokens().create(new).await.expect("a token");
    let (id, lasting) = served.token(&[Scope::Read]).await;
    assert_eq!(served.refusal(list, Some(&brief)).await, None);
    served.test.clock.advance(1_001);
    assert_eq!(served.refusal(list, Some(&brief)).await.as_deref(), Some("ACCESS_TOKEN_INVALID"));
    assert_eq!(served.refusal(list, Some(&lasting)).await, None);
    let revoked = served.test.app.access_tokens().revoke(&id).await.expect("revoked");
    assert_eq!(served.test.app.access_tokens().revoke(&id).await.expect("again"), revoked);
    for _ in 0..2 {
        assert_eq!(served.refusal(list, Some(&lasting)).await.as_deref(), Some("ACCESS_TOKEN_INVALID"));
        // As a daemon does at its start.
        served.test.longhand.load_access_tokens(OWNER).await.expect("the tokens are read");
    }
    let tokens = served.test.app.access_tokens().list().await.expect("a list");
    assert_eq!(tokens.iter().map(|token| token.revoke_time.is_some()).collect::<Vec<_>>(), [false, true]);
}

#[tokio::test]
async fn a_stream_ends_when_its_token_is_revoked() {
    let served = Served::start().await;
    let (id, secret) = served.token(&[Scope::Read]).await;
    let path = "/longhand.v1.EventService/SubscribeEvents";
    let (_, mut body) = served.begin(path, Some(tcp(1)), Some(&secret)).await;
    let first = soon("the first frame", body.frame()).await.expect("a frame").expect("no failure");
    assert!(first.is_data());
    served.test.app.access_tokens().revoke(&id).await.expect("revoked");
    let end = soon("the end", body.frame()).await.expect("an end").expect("no failure");
    let status = Status::from_header_map(end.trailers_ref().expect("trailers")).expect("a status");
    assert_eq!(reason(&status).as_deref(), Some("ACCESS_TOKEN_INVALID"));
    assert!(soon("nothing", body.frame()).await.is_none());
}

#[tokio::test]
async fn who_makes_tokens_gives_no_more_than_it_has() {
    let served = Served::start().await;
    let new = |principal: &str, scopes: &[Scope]| NewAccessToken {
        principal: principal.to_owned(),
        scopes: scopes.iter().copied().collect(),
        ..NewAccessToken::default()
    };
    let by = |access: Access| served.test.longhand.caller(access, String::new(), None).expect("a caller");
    let admin = Access { scopes: [Scope::Admin, Scope::Read].into_iter().collect(), ..Access::owner() };
    let of_tenant = Access { tenant: "acme".into(), ..admin.clone() };
    let bound = Access {
        binding: longhand::model::access::Binding { project: Some("p".to_owned()), root: None }.into(),
        ..admin.clone()
    };
    let reader = Access { scopes: [Scope::Read].into_iter().collect(), ..Access::owner() };
    let elsewhere = NewAccessToken { tenant: Some("other".to_owned()), ..new("agent", &[Scope::Read]) };
    let now = served.test.clock.now();
    let brief = Access { expire_time: Some(Timestamp(now.0 + 1_000_000)), ..admin.clone() };
    let cases: [(&Access, NewAccessToken, Option<Reason>); 11] = [
        (&brief, new("agent", &[Scope::Read]), Some(Reason::InvalidField)),
        (&admin, new("agent", &[Scope::Read]), None),
        (&admin, new("agent", &[Scope::Read, Scope::Write]), Some(Reason::ScopeMissing)),
        (&reader, new("agent", &[Scope::Read]), Some(Reason::ScopeMissing)),
        (&bound, new("agent", &[Scope::Read]), Some(Reason::ScopeMissing)),
        (&of_tenant, new("agent", &[Scope::Read]), None),
        (&of_tenant, elsewhere.clone(), Some(Reason::InvalidField)),
        (&admin, elsewhere, None),
        (&admin, new("", &[Scope::Read]), Some(Reason::InvalidField)),
        (&admin, new("agent", &[]), Some(Reason::InvalidField)),
        (&admin, NewAccessToken { expire_time: Some(now), ..new("agent", &[Scope::Read]) }, Some(Reason::InvalidField)),
    ];
    for (access, wanted, expected) in cases {
        let made = by(access.clone()).access_tokens().create(wanted.clone()).await;
        assert_eq!(made.as_ref().err().map(|error: &Error| error.reason), expected, "{wanted:?}");
    }
    let tenants = |access: &Access| {
        let caller = by(access.clone());
        async move {
            let tokens = caller.access_tokens().list().await.expect("a list");
            tokens.into_iter().map(|token| token.tenant).collect::<Vec<_>>()
        }
    };
    assert_eq!(tenants(&admin).await, ["", "acme", "other"]);
    assert_eq!(tenants(&of_tenant).await, ["acme"]);
    let all = served.test.app.access_tokens().list().await.expect("a list");
    for id in [all[0].id.to_string(), "tok_nothing".to_owned()] {
        let refused = by(of_tenant.clone()).access_tokens().revoke(&id).await.expect_err("not its own");
        assert_eq!(refused.reason, Reason::AccessTokenNotFound, "{id}");
    }
}

/// The lines of an access log, each as method, sessions and outcome.
fn lines(directory: &std::path::Path) -> Vec<(String, Vec<String>, String)> {
    let mut lines = Vec::new();
    let verified = access_log::verify(directory, |line| {
        let line: serde_json::Value = serde_json::from_str(line)?;
        assert_eq!((&line["principal"], &line["address"]), (&"agent".into(), &"127.0.0.1:4747".into()));
        let text = |value: &serde_json::Value| value.as_str().expect("a text").to_owned();
        let sessions = line["sessions"].as_array().expect("a list").iter().map(text).collect();
        lines.push((text(&line["method"]), sessions, text(&line["outcome"])));
        Ok(())
    });
    assert_eq!(verified.expect("it can be read").fault, None);
    lines
}

#[tokio::test]
async fn who_read_what_is_in_the_access_log_before_the_answer() {
    let served = Served::start().await;
    let folder = tempfile::tempdir().expect("a folder");
    let directory = folder.path().join("access-log");
    let options = access_log::Options { directory: directory.clone(), retention_days: 0 };
    let (log, _thread) = access_log::AccessLog::open(options, served.test.clock.clone()).expect("a log");
    served.test.longhand.entrance().log_access(AccessLogging { log, owner_too: false, refuses: true });
    let session = served.test.manual_session().await;
    let (_, secret) = served.token(&[Scope::Read, Scope::Write]).await;
    let get = |id: &str| pb::GetSessionRequest { session_id: id.to_owned() }.encode_to_vec();
    let send = |path: &'static str, peer: Peer, message: Vec<u8>| {
        let request = Served::request(path, Some(peer), Some(&secret), &message);
        let routes = served.routes.clone();
        async move {
            let Ok(answer) = soon(path, routes.oneshot(request)).await;
            Status::from_header_map(answer.headers()).as_ref().and_then(reason)
        }
    };
    let path = "/longhand.v1.SessionService/GetSession";
    assert_eq!(send(path, tcp(1), get(&session)).await, None);
    assert_eq!(send(path, tcp(1), get("nobody")).await.as_deref(), Some("SESSION_NOT_FOUND"));
    assert_eq!(send("/longhand.v1.SessionService/ListSessions", tcp(1), Vec::new()).await, None);
    // Writes have their authors in the store, and the owner is not logged.
    assert_eq!(send("/longhand.v1.SessionService/CreateSession", tcp(1), Vec::new()).await, None);
    assert_eq!(send(path, Peer::Owner, get(&session)).await, None);
    let list = "longhand.v1.SessionService/ListSessions".to_owned();
    let path_in_log = path.trim_start_matches('/').to_owned();
    let expected = [
        (path_in_log.clone(), vec![session.clone()], "OK".to_owned()),
        (path_in_log, Vec::new(), "SESSION_NOT_FOUND".to_owned()),
        (list, Vec::new(), "OK".to_owned()),
    ];
    assert_eq!(lines(&directory), expected);
    // Without its log, nothing is read.
    std::fs::remove_dir_all(&directory).expect("removed");
    served.test.clock.advance(24 * 60 * 60 * 1_000);
    assert_eq!(send(path, tcp(1), get(&session)).await.as_deref(), Some("ACCESS_LOG_FAILED"));
    assert_eq!(send(path, Peer::Owner, get(&session)).await, None);
    // Who asks for the health hears of it, and notices that the log can be written again, even if nobody else calls.
    let health = "/grpc.health.v1.Health/Check";
    assert_eq!(send(health, tcp(2), Vec::new()).await.as_deref(), Some("ACCESS_LOG_FAILED"));
    std::fs::create_dir(&directory).expect("a folder");
    assert_eq!(send(health, tcp(2), Vec::new()).await, None);
    assert_eq!(send(path, tcp(1), get(&session)).await, None);
}

#[tokio::test]
async fn a_leap_of_the_clock_ends_no_access() {
    const YEAR_MS: i64 = 365 * 86_400_000;
    let served = Served::start().await;
    let clock = &served.test.clock;
    let scopes = [Scope::Read].into_iter().collect();
    let expire_time = Some(clock.now().plus_millis(86_400_000));
    let new = NewAccessToken { principal: "agent".to_owned(), scopes, expire_time, ..NewAccessToken::default() };
    let (_, secret) = served.test.app.access_tokens().create(new).await.expect("a token");
    let list = "/longhand.v1.SessionService/ListSessions";
    assert_eq!(served.refusal(list, Some(&secret)).await, None);
    clock.shift_system(YEAR_MS);
    assert_eq!(served.refusal(list, Some(&secret)).await, None, "nothing confirms that a year has passed");
    clock.shift_system(-YEAR_MS);
    assert_eq!(served.refusal(list, Some(&secret)).await, None);
    // One that was believed for a while ends nothing for good.
    clock.shift_system(YEAR_MS);
    clock.now();
    clock.advance(61_000);
    assert_eq!(served.refusal(list, Some(&secret)).await.as_deref(), Some("ACCESS_TOKEN_INVALID"));
    clock.shift_system(-YEAR_MS);
    clock.now();
    clock.advance(61_000);
    assert_eq!(served.refusal(list, Some(&secret)).await, None);
    clock.advance(86_400_000);
    assert_eq!(served.refusal(list, Some(&secret)).await.as_deref(), Some("ACCESS_TOKEN_INVALID"));
}

/// The whole lines of an access log.
fn whole_lines(directory: &std::path::Path) -> Vec<serde_json::Value> {
    let mut lines = Vec::new();
    let verified = access_log::verify(directory, |line| {
        lines.push(serde_json::from_str(line)?);
        Ok(())
    });
    assert_eq!(verified.expect("it can be read").fault, None);
    lines
}

#[tokio::test]
async fn what_hands_content_out_and_who_acts_in_a_tenant_is_in_the_access_log_whatever_the_scope() {
    let served = Served::start().await;
    let folder = tempfile::tempdir().expect("a folder");
    let directory = folder.path().join("access-log");
    let options = access_log::Options { directory: directory.clone(), retention_days: 0 };
    let (log, _thread) = access_log::AccessLog::open(options, served.test.clock.clone()).expect("a log");
    served.test.longhand.entrance().log_access(AccessLogging { log, owner_too: false, refuses: false });
    let session = served.test.manual_session().await;
    let (token, secret) = served.token(&[Scope::Read, Scope::Write, Scope::Compact]).await;
    let send = async |path: &str, tenant: Option<&'static str>, message: Vec<u8>| {
        let mut request = Served::request(path, Some(tcp(1)), Some(&secret), &message);
        if let Some(tenant) = tenant {
            request.headers_mut().insert(pb::TENANT_HEADER, http::HeaderValue::from_static(tenant));
        }
        let Ok(answer) = soon(path, served.routes.clone().oneshot(request)).await;
        Status::from_header_map(answer.headers()).as_ref().and_then(reason).unwrap_or_else(|| "OK".to_owned())
    };
    let take = pb::TakePromptRequest { session_id: session.clone(), epoch: 1, ..pb::TakePromptRequest::default() };
    let acquire = pb::AcquireRunRequest { session_id: session.clone(), ..pb::AcquireRunRequest::default() };
    let lease = pb::LeaseSummaryTaskRequest::default().encode_to_vec();
    let get = pb::GetSessionRequest { session_id: session.clone() }.encode_to_vec();
    let calls = [
        ("longhand.v1.RunService/AcquireRun", None, acquire.encode_to_vec()),
        ("longhand.v1.PromptService/TakePrompt", None, take.encode_to_vec()),
        ("longhand.v1.SummaryTaskService/LeaseSummaryTask", None, lease),
        ("longhand.v1.SessionService/GetSession", Some("acme"), get),
    ];
    let mut expected = Vec::new();
    for (method, tenant, message) in calls {
        let outcome = send(&format!("/{method}"), tenant, message).await;
        expected.push((method.to_owned(), tenant.unwrap_or_default().to_owned(), outcome));
    }
    // Other writes are not in it.
    send("/longhand.v1.SessionService/CreateSession", None, Vec::new()).await;
    let lines = whole_lines(&directory);
    let text = |line: &serde_json::Value, field: &str| line[field].as_str().unwrap_or_default().to_owned();
    let found: Vec<_> =
        lines.iter().map(|line| (text(line, "method"), text(line, "tenant"), text(line, "outcome"))).collect();
    assert_eq!(found, expected);
    let outcomes: Vec<_> = expected.iter().map(|(_, _, outcome)| outcome.as_str()).collect();
    assert_eq!(outcomes, ["OK", "NO_PROMPT", "SUMMARY_TASKS_OFF", "SESSION_NOT_FOUND"]);
    assert!(lines.iter().all(|line| text(line, "token") == token && line.get("count").is_none()), "{lines:?}");
    assert_eq!(lines[1]["sessions"], serde_json::json!([session]));
}

#[tokio::test]
async fn refused_and_failed_attempts_are_counted_in_the_access_log() {
    let served = Served::start().await;
    let folder = tempfile::tempdir().expect("a folder");
    let directory = folder.path().join("access-log");
    let options = access_log::Options { directory: directory.clone(), retention_days: 0 };
    let (log, _thread) = access_log::AccessLog::open(options, served.test.clock.clone()).expect("a log");
    let entrance = served.test.longhand.entrance();
    entrance.log_access(AccessLogging { log, owner_too: false, refuses: false });
    let (token, secret) = served.token(&[Scope::Read]).await;
    let create = "/longhand.v1.SessionService/CreateSession";
    for _ in 0..3 {
        assert_eq!(served.refusal(create, Some("lh_wrong")).await.as_deref(), Some("ACCESS_TOKEN_INVALID"));
        assert_eq!(served.refusal(create, Some(&secret)).await.as_deref(), Some("SCOPE_MISSING"));
    }
    assert_eq!(served.refusal(create, None).await.as_deref(), Some("ACCESS_TOKEN_MISSING"));
    assert_eq!(whole_lines(&directory), [serde_json::Value::Null; 0], "they are written at an interval");
    entrance.record_refusals().await;
    let lines = whole_lines(&directory);
    let mut found: Vec<_> = lines
        .iter()
        .map(|line| {
            let text = |field: &str| line[field].as_str().unwrap_or_default().to_owned();
            (text("outcome"), text("address"), text("token"), text("method"), line["count"].as_u64().unwrap_or(1))
        })
        .collect();
    found.sort();
    let local = || "127.0.0.1".to_owned();
    let none = String::new;
    let expected = [
        ("ACCESS_TOKEN_INVALID".to_owned(), local(), none(), none(), 3),
        ("ACCESS_TOKEN_MISSING".to_owned(), local(), none(), none(), 1),
        ("SCOPE_MISSING".to_owned(), local(), token, create.trim_start_matches('/').to_owned(), 3),
    ];
    assert_eq!(found, expected);
    entrance.record_refusals().await;
    assert_eq!(whole_lines(&directory).len(), lines.len());
}

#[tokio::test]
async fn what_acts_is_in_the_access_log_before_it_is_carried_out() {
    let create = "/longhand.v1.AccessService/CreateAccessToken";
    for refuses in [true, false] {
        let served = Served::start().await;
        let folder = tempfile::tempdir().expect("a folder");
        let directory = folder.path().join("access-log");
        let options = access_log::Options { directory: directory.clone(), retention_days: 0 };
        let (log, _thread) = access_log::AccessLog::open(options, served.test.clock.clone()).expect("a log");
        served.test.longhand.entrance().log_access(AccessLogging { log, owner_too: false, refuses });
        let (_, secret) = served.token(&[Scope::Admin, Scope::Read]).await;
        let message = pb::CreateAccessTokenRequest {
            principal: "guest".to_owned(),
            scopes: vec![pb::Scope::Read.into()],
            ..pb::CreateAccessTokenRequest::default()
        };
        let send = async || {
            let request = Served::request(create, Some(tcp(1)), Some(&secret), &message.encode_to_vec());
            let Ok(answer) = soon(create, served.routes.clone().oneshot(request)).await;
            Status::from_header_map(answer.headers()).as_ref().and_then(reason)
        };
        let tokens = async || served.test.app.access_tokens().list().await.expect("a list").len();
        assert_eq!(send().await, None);
        let outcomes: Vec<String> = lines(&directory).into_iter().map(|(_, _, outcome)| outcome).collect();
        assert_eq!(outcomes, if refuses { vec!["BEGUN", "OK"] } else { vec!["OK"] });
        let before = tokens().await;
        std::fs::remove_dir_all(&directory).expect("removed");
        served.test.clock.advance(24 * 60 * 60 * 1_000);
        assert_eq!(send().await.as_deref(), refuses.then_some("ACCESS_LOG_FAILED"));
        assert_eq!(tokens().await, before + usize::from(!refuses), "nothing is done that cannot be recorded");
    }
}

#[tokio::test]
async fn sessions_of_the_console_begin_and_end_in_the_access_log() {
    for refuses in [true, false] {
        let served = Served::start().await;
        let folder = tempfile::tempdir().expect("a folder");
        let directory = folder.path().join("access-log");
        let options = access_log::Options { directory: directory.clone(), retention_days: 0 };
        let (log, _thread) = access_log::AccessLog::open(options, served.test.clock.clone()).expect("a log");
        served.test.longhand.entrance().log_access(AccessLogging { log, owner_too: false, refuses });
        let address = std::net::SocketAddr::from(([127, 0, 0, 1], 4747));
        let open = async || {
            let new = NewAccessToken { principal: "agent".to_owned(), ..NewAccessToken::default() };
            let (link, _) =
                served.test.app.access_tokens().create_console_link(new, Some(30 * 86_400)).await.expect("a link");
            served.test.longhand.open_console(&link, Some(address)).await.map_err(|error| error.reason)
        };
        let prove =
            |secret: &str| served.test.longhand.entrance().authenticate(Credentials::Secret(secret, address.ip())).ok();
        let close = async |secret: &str| {
            let access = prove(secret).expect("a session");
            served.test.longhand.close_console(access, secret, Some(address)).await.map_err(|error| error.reason)
        };
        let (_, left) = open().await.expect("a session");
        close(&left).await.expect("it is left");
        let found: Vec<_> = lines(&directory).into_iter().map(|(method, _, outcome)| (method, outcome)).collect();
        let outcomes = if refuses { ["BEGUN", "OK"].as_slice() } else { &["OK"] };
        let methods = ["console/login", "console/logout"].into_iter();
        let expected: Vec<_> = methods
            .flat_map(|method| outcomes.iter().map(move |outcome| (method.to_owned(), (*outcome).to_owned())))
            .collect();
        assert_eq!(found, expected);
        let (_, kept) = open().await.expect("a session");
        let tokens = async || served.test.app.access_tokens().list().await.expect("a list").len();
        let before = tokens().await;
        std::fs::remove_dir_all(&directory).expect("removed");
        served.test.clock.advance(24 * 60 * 60 * 1_000);
        let opened = open().await.map(drop);
        assert_eq!(opened, if refuses { Err(Reason::AccessLogFailed) } else { Ok(()) });
        assert_eq!(tokens().await, before + usize::from(!refuses), "no session begins that cannot be recorded");
        let closed = close(&kept).await;
        assert_eq!(closed, if refuses { Err(Reason::AccessLogFailed) } else { Ok(()) });
        assert_eq!(prove(&kept).is_some(), refuses, "none ends, either");
    }
}

#[tokio::test]
async fn a_principal_is_the_author_of_its_changes() {
    let served = Served::start().await;
    let session = served.test.manual_session().await;
    let access = Access { principal: "ci".into(), ..Access::owner() };
    for (name, author) in [("", "ci"), ("editor", "ci/editor")] {
        let caller = served.test.longhand.caller(access.clone(), name.to_owned(), None).expect("a caller");
        let talk = crate::support::conversation(&format!("u \"by {name}\""));
        caller.messages().append(&session, talk, None, None).await.expect("appended");
        assert_eq!(served.test.history(&session).await.last().expect("a message").actor, author);
    }
}
