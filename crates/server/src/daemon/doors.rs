//! The doors of the daemon: which service a request belongs to, and which requests are not for this daemon.
//!
//! A page in a browser may send requests to any address that it can reach. Without a credential it gets nothing, since a
//! browser adds none by itself. The checks of the names of host and origin are a second lock: against pages that give
//! their own name the address of this machine (DNS rebinding), and against pages of other origins.

use crate::app::entrance::Entrance;
use crate::app::{Error, Longhand, Reason};
use crate::cluster::Cluster;
use crate::config::Config;
use crate::grpc::GuardedServices;
use crate::transport::{Admission, ClientStanding, HeadRefusal, Peer, RequestBody, RequestClass, Service};
use crate::{grpc, http as json};
use axum::body::Body;
use futures::FutureExt as _;
use http::header::{self, HeaderName};
use http::request::Parts;
use http::{Extensions, HeaderMap, HeaderValue, Method, Request, Response, Uri};
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use tower::{Layer as _, ServiceExt as _};
use tower_http::cors::CorsLayer;

/// Headers of answers over HTTP: nothing of them is a page, and no page frames them.
static STRICT: [(HeaderName, HeaderValue); 4] = [
    (
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"),
    ),
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
];

/// Paths over HTTP that take no credentials.
const OPEN_PATHS: [&str; 3] = ["/healthz", "/readyz", "/openapi.json"];

/// The names that requests may have for the daemon, and the origins of pages that may call it.
struct Names {
    hosts: Vec<String>,
    origins: Vec<String>,
}

struct Doors {
    services: GuardedServices,
    json: axum::Router,
    names: Names,
}

/// What opens and ends the sessions of the console: the store with the access tokens.
pub(super) enum ConsoleStore {
    /// The daemon's own.
    Here(Longhand),
    /// That of the first shard, here or at another daemon.
    AtHome(Arc<Cluster>),
}

/// Every door as one service, behind what looks at the heads of its requests: gRPC and gRPC-Web by their content types,
/// HTTP with JSON and the console for everything else.
pub(super) fn service(
    services: GuardedServices,
    console: ConsoleStore,
    entrance: Arc<Entrance>,
    config: &Config,
) -> (Admission, Service) {
    let names = Names { hosts: config.hosts.clone(), origins: config.origins.clone() };
    let json = json::router(services.clone(), {
        let guard = services.clone();
        move |path, head| guard.check(path, head)
    });
    let json = json.merge(match console {
        ConsoleStore::Here(app) => json::console::router(entrance, move || json::console::Home::Here(app.clone())),
        ConsoleStore::AtHome(cluster) => json::console::router(entrance, move || match cluster.home_app() {
            Some(app) => json::console::Home::Here(app),
            None => {
                let cluster = cluster.clone();
                json::console::Home::There(Box::new(move |request| cluster.clone().send_home(request).boxed()))
            }
        }),
    });
    let doors = Arc::new(Doors { json, services, names });
    let cors = cors(&config.origins);
    let (of_heads, has_cors) = (doors.clone(), cors.is_some());
    let admit: Admission = Box::new(move |head: &mut Parts| match head.method == Method::OPTIONS && has_cors {
        // A browser asks without credentials whether it may call.
        true => Ok(ClientStanding::Stranger),
        false => of_heads.admit(head),
    });
    let Some(cors) = cors else {
        return (admit, Box::new(move |request| doors.clone().answer(request).boxed()));
    };
    let service = cors.layer(tower::service_fn(move |request| doors.clone().answer(request).map(Ok::<_, Infallible>)));
    (admit, Box::new(move |request| service.clone().oneshot(request).map(|Ok(answer)| answer).boxed()))
}

impl Doors {
    /// The answer to a request whose head was admitted, or is refused.
    async fn answer(self: Arc<Self>, mut request: Request<RequestBody>) -> Response<Body> {
        let is_grpc = grpc::is_grpc(request.headers());
        let answer = match request.extensions_mut().remove::<HeadRefusal>() {
            Some(HeadRefusal(error)) => refuse(request.headers(), error),
            None if is_grpc => grpc::answer(&self.services, request).await,
            None => {
                let Ok(answer) = self.json.clone().oneshot(request.map(Body::new)).await;
                answer
            }
        };
        if is_grpc { answer } else { strict(answer) }
    }

    /// Refuses a request by its head: it is not for this daemon, lacks credentials, or its caller may not call the
    /// method. A session of the console proves itself here.
    fn admit(&self, head: &mut Parts) -> Result<ClientStanding, Error> {
        if head.headers.get_all(header::HOST).iter().nth(1).is_some() {
            return Err(Error::new(Reason::RequestMalformed, "the request has several lines with a host"));
        }
        self.names.check(&head.extensions, &head.uri, &head.headers)?;
        if grpc::is_grpc(&head.headers) {
            return self.services.admit_head(head);
        }
        // HTTP/2 names the host elsewhere.
        if let Some(Ok(host)) = head.uri.authority().map(|authority| HeaderValue::try_from(authority.as_str())) {
            head.headers.entry(header::HOST).or_insert(host);
        }
        if let Some(Peer::Tcp { address, is_encrypted }) = head.extensions.get::<Peer>() {
            let visitor = json::console::Visitor { address: Some(*address), is_encrypted: *is_encrypted };
            head.extensions.insert(visitor);
        }
        if json::console::is_open(head.uri.path()) || OPEN_PATHS.contains(&head.uri.path()) {
            return Ok(ClientStanding::Stranger);
        }
        json::console::prove(head)?;
        self.services.identify(head).map(|()| ClientStanding::Proven)
    }
}

/// The same answer for nobody's page.
fn strict(mut answer: Response<Body>) -> Response<Body> {
    for (name, value) in &STRICT {
        answer.headers_mut().entry(name).or_insert_with(|| value.clone());
    }
    answer
}

/// The answers to browsers that ask whether a page of a configured origin may call; none if there is no such origin.
fn cors(origins: &[String]) -> Option<CorsLayer> {
    let origins: Vec<HeaderValue> = origins.iter().filter_map(|origin| origin.parse().ok()).collect();
    let exposed = ["etag", "grpc-status", "grpc-message", "grpc-status-details-bin", "retry-after"];
    let streams = ["stream-next-offset", "stream-up-to-date", "stream-cursor"];
    (!origins.is_empty()).then(|| {
        CorsLayer::new()
            .allow_origin(origins)
            .allow_methods([Method::GET, Method::HEAD, Method::POST, Method::PATCH])
            .allow_headers(tower_http::cors::AllowHeaders::mirror_request())
            .expose_headers(exposed.into_iter().chain(streams).map(HeaderName::from_static).collect::<Vec<_>>())
    })
}

impl Names {
    /// Refuses a request on TCP that names a host or an origin which is not the daemon's.
    fn check(&self, extensions: &Extensions, uri: &Uri, headers: &HeaderMap) -> Result<(), Error> {
        let Some(Peer::Tcp { is_encrypted, .. }) = extensions.get::<Peer>() else { return Ok(()) };
        let authority = match uri.authority() {
            Some(authority) => authority.as_str(),
            None => headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default(),
        };
        if !self.is_host(authority, *is_encrypted) {
            let message =
                format!("{authority:?} is none of the daemon's names; `hosts` in the configuration adds names");
            return Err(Error::new(Reason::OriginRefused, message).with("host", authority));
        }
        let Some(origin) = headers.get(header::ORIGIN) else { return Ok(()) };
        let origin = origin.to_str().unwrap_or_default();
        let is_own = origin.split_once("://").is_some_and(|(_, of)| of.eq_ignore_ascii_case(authority));
        if is_own || self.origins.iter().any(|known| known == origin) {
            return Ok(());
        }
        let message = format!("pages of {origin:?} may not call; `origins` in the configuration adds origins");
        Err(Error::new(Reason::OriginRefused, message).with("origin", origin))
    }

    fn is_host(&self, authority: &str, is_encrypted: bool) -> bool {
        let host = host(authority);
        let is_loopback = host.eq_ignore_ascii_case("localhost")
            || host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        let any = is_encrypted && self.hosts.is_empty() && !host.is_empty();
        any || is_loopback || self.hosts.iter().any(|known| known.eq_ignore_ascii_case(host))
    }
}

/// The host of an authority, without user and port.
fn host(authority: &str) -> &str {
    let authority = authority.rsplit_once('@').map_or(authority, |(_, rest)| rest);
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    }
}

/// What a path says about the size of its requests.
pub(super) fn class(path: &str) -> RequestClass {
    // The paths of gRPC name a package; a body of JSON is read whole, and parsed into what is kept.
    if path.split('/').nth(1).is_some_and(|package| package.contains('.')) {
        grpc::class(path)
    } else {
        RequestClass::Kept
    }
}

/// The answer to a request that is refused before any service sees it.
pub(super) fn refuse(headers: &HeaderMap, error: Error) -> Response<Body> {
    if grpc::is_grpc(headers) { grpc::refuse(headers, error) } else { json::refuse(error) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(names: &Names, request: &Request<Body>) -> bool {
        names.check(request.extensions(), request.uri(), request.headers()).is_ok()
    }

    #[test]
    fn a_request_names_a_host_and_an_origin_of_the_daemon() {
        let names = Names { hosts: vec!["box.lan".to_owned()], origins: vec!["https://ui.example".to_owned()] };
        let open = Names { hosts: Vec::new(), origins: Vec::new() };
        let request = |host: &str, origin: Option<&str>, is_encrypted| {
            let peer = Peer::Tcp { address: ([127, 0, 0, 1], 9).into(), is_encrypted };
            let mut request = Request::get("/v1/sessions").header("host", host).extension(peer);
            if let Some(origin) = origin {
                request = request.header("origin", origin);
            }
            request.body(Body::empty()).expect("a request")
        };
        for (host, origin, fine) in [
            ("localhost:4747", None, true),
            ("127.0.0.1", None, true),
            ("127.1.2.3:1", None, true),
            ("[::1]:4747", None, true),
            ("BOX.lan:1", None, true),
            ("evil.example:4747", None, false),
            ("localhost.evil.example", None, false),
            ("", None, false),
            ("user@evil.example", None, false),
            ("localhost:4747", Some("http://localhost:4747"), true),
            ("localhost:4747", Some("http://localhost:4748"), false),
            ("localhost:4747", Some("https://evil.example"), false),
            ("localhost:4747", Some("https://ui.example"), true),
            ("localhost:4747", Some("null"), false),
        ] {
            assert_eq!(check(&names, &request(host, origin, false)), fine, "{host} {origin:?}");
        }
        assert!(check(&open, &request("any.name", None, true)));
        assert!(!check(&open, &request("any.name", None, false)));
        assert!(!check(&names, &request("any.name", None, true)));
        let mut of_socket = request("any.name", Some("https://evil.example"), false);
        of_socket.extensions_mut().insert(Peer::Owner);
        assert!(check(&names, &of_socket));
    }
}
