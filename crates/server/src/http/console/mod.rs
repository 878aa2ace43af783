//! The console: a page for people, which the daemon serves under `/`, and its sessions.
//!
//! The page calls what every client calls. `session` has how a browser proves itself, `assets` what the page is made of.

mod assets;
mod session;

pub use session::prove;

use super::failure::Failure;
use crate::app::access::{Access, Credentials};
use crate::app::entrance::Entrance;
use crate::app::{self, Error, Longhand, Reason};
use crate::grpc::wire;
use crate::limits;
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::{get, post};
use futures::future::BoxFuture;
use http::request::Parts;
use http::{HeaderValue, StatusCode, header};
use http_body_util::{BodyExt as _, Limited};
use serde::Deserialize;
use serde_json::json;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Where a request comes from, which its connection tells.
#[derive(Debug, Clone, Copy)]
pub struct Visitor {
    /// The address; none for the owner's connection.
    pub address: Option<SocketAddr>,
    /// True over TLS.
    pub is_encrypted: bool,
}

impl Visitor {
    /// The address by which failed attempts are counted.
    fn ip(&self) -> IpAddr {
        self.address.map_or(IpAddr::from([127, 0, 0, 1]), |address| address.ip())
    }
}

/// True for a path of the console, which needs no credentials: what is behind it is no secret, and a session is proved
/// where it is used.
pub fn is_open(path: &str) -> bool {
    path == "/" || path.starts_with("/console/")
}

/// The store with the access tokens, which sessions of the console are.
pub enum Home {
    /// It is this daemon's.
    Here(Longhand),
    /// It is another daemon's, to which this brings a request.
    There(Box<dyn FnOnce(Request) -> BoxFuture<'static, Response> + Send>),
}

/// What the console is served with.
#[derive(Clone)]
struct Console {
    entrance: Arc<Entrance>,
    home: Arc<dyn Fn() -> Home + Send + Sync>,
}

/// The page with what it is made of, and the begin and the end of its sessions, which the store with the access tokens has.
pub fn router(entrance: Arc<Entrance>, home: impl Fn() -> Home + Send + Sync + 'static) -> Router {
    Router::new()
        .route("/", get(assets::index))
        .route("/console/login", post(login))
        .route("/console/logout", post(logout))
        .route("/console/session", get(who))
        .route("/console/{file}", get(assets::file))
        .with_state(Console { entrance, home: Arc::new(home) })
}

/// The body of a request for a session.
#[derive(Deserialize)]
struct Login {
    /// The secret of the link.
    link: String,
}

async fn login(State(console): State<Console>, request: Request) -> Response {
    let app = match (console.home)() {
        Home::Here(app) => app,
        Home::There(send) => return send(request).await,
    };
    let (head, body) = request.into_parts();
    open(&app, &head, body).await.unwrap_or_else(Failure::into_response)
}

async fn open(app: &Longhand, head: &Parts, body: Body) -> Result<Response, Failure> {
    let malformed = || Error::new(Reason::RequestMalformed, "the body is no JSON object with the secret of a link");
    let is_json = head.headers.get(header::CONTENT_TYPE).is_some_and(|given| given == "application/json");
    // A body of another type is what a page of another origin can send without asking.
    if !is_json {
        return Err(Failure::from(malformed()).with_status(StatusCode::UNSUPPORTED_MEDIA_TYPE));
    }
    session::require_own_page(&head.headers)?;
    let body = Limited::new(body, limits::CONSOLE_REQUEST_BYTES_MAX).collect().await.map_err(|_| malformed())?;
    let Login { link } = serde_json::from_slice(&body.to_bytes()).map_err(|_| malformed())?;
    let visitor = visitor(head);
    let (token, secret) = app.open_console(&link, visitor.address).await?;
    let access = app.entrance().authenticate(Credentials::Secret(&secret, visitor.ip()))?;
    let seconds = token.expire_time.map_or(0, |end| (end.0 - token.create_time.0) / 1_000_000);
    let mut response = describe_access(&access);
    session::grant(response.headers_mut(), &head.headers, &secret, seconds, visitor.is_encrypted);
    Ok(response)
}

async fn logout(State(console): State<Console>, request: Request) -> Response {
    let app = match (console.home)() {
        Home::Here(app) => app,
        Home::There(send) => return send(request).await,
    };
    let (head, _) = request.into_parts();
    let ended = async {
        if let Some((access, secret)) = proven_access(&console.entrance, &head)? {
            app.close_console(access, &secret, visitor(&head).address).await?;
        }
        app::Result::Ok(())
    };
    match ended.await {
        Ok(()) => {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::NO_CONTENT;
            session::forget(response.headers_mut(), &head.headers, visitor(&head).is_encrypted);
            without_caching(response)
        }
        Err(error) => Failure::from(error).into_response(),
    }
}

/// Who the page's user is.
async fn who(State(console): State<Console>, request: Request) -> Response {
    let (head, _) = request.into_parts();
    match proven_access(&console.entrance, &head) {
        Ok(Some((access, _))) => describe_access(&access),
        Ok(None) => {
            let message = "no session of the console is open: `longhand console` opens one";
            Failure::from(Error::new(Reason::AccessTokenMissing, message)).into_response()
        }
        Err(error) => Failure::from(error).into_response(),
    }
}

/// The access that the session of a request proves, with its secret; none without a session.
fn proven_access(entrance: &Entrance, head: &Parts) -> app::Result<Option<(Arc<Access>, String)>> {
    let Some(secret) = session::secret(head)? else { return Ok(None) };
    let access = entrance.authenticate(Credentials::Secret(&secret, visitor(head).ip()))?;
    Ok(Some((access, secret)))
}

/// Who a session is of, and what it may do.
fn describe_access(access: &Access) -> Response {
    let scopes = access.scopes.iter().map(|scope| scope.to_string()).collect::<Vec<_>>();
    let description = json!({
        "principal": *access.principal,
        "tenant": *access.tenant,
        "scopes": scopes,
        "isOperator": access.is_operator(),
        "expireTime": access.expire_time.map(|end| wire::timestamp(end).to_string()),
        "version": env!("CARGO_PKG_VERSION"),
    });
    let mut response = Response::new(Body::from(description.to_string()));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    without_caching(response)
}

fn visitor(head: &Parts) -> Visitor {
    let unknown = Visitor { address: None, is_encrypted: false };
    head.extensions.get::<Visitor>().copied().unwrap_or(unknown)
}

fn without_caching(mut response: Response) -> Response {
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
