//! A session of the console: an access token in a cookie that no script reads and that no page of another site causes to
//! be sent. A change also has, in a header, a token that follows from the secret, which only the console's own page can
//! read from its second cookie (a signed double submit).

use crate::app::{Error, Reason, Result};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};

/// Name of the cookie with the secret, before the port.
const SECRET: &str = "longhand-console";
/// Name of the cookie with the token for changes, before the port.
const TOKEN: &str = "longhand-console-token";
/// The header with the token for changes.
const TOKEN_HEADER: HeaderName = HeaderName::from_static("longhand-console-token");
/// What a browser says about the page that causes a request.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// The purpose of the token for changes.
const PURPOSE: &str = "longhand console, token for changes";

/// Has a request that comes with the cookie of a session, and without other credentials, prove itself by the session's
/// access token.
///
/// # Errors
///
/// `ORIGIN_REFUSED` for a request that a page of another origin causes; `CONSOLE_TOKEN_INVALID` for a change without the
/// token for changes.
pub fn prove(head: &mut Parts) -> Result<()> {
    if head.headers.contains_key(header::AUTHORIZATION) {
        return Ok(());
    }
    let Some(secret) = secret(head)? else { return Ok(()) };
    let mut bearer = HeaderValue::try_from(format!("Bearer {secret}")).map_err(Error::internal)?;
    bearer.set_sensitive(true);
    head.headers.insert(header::AUTHORIZATION, bearer);
    Ok(())
}

/// The secret of a request's session; none without one.
///
/// # Errors
///
/// As [`prove`].
pub(super) fn secret(head: &Parts) -> Result<Option<String>> {
    let Some(secret) = cookie(&head.headers, &name(SECRET, &head.headers)) else { return Ok(None) };
    require_own_page(&head.headers)?;
    if ![Method::GET, Method::HEAD].contains(&head.method) {
        let header_token = head.headers.get(TOKEN_HEADER).map(HeaderValue::as_bytes).unwrap_or_default();
        // Hashes compare in constant time.
        if blake3::hash(header_token) != blake3::hash(token(secret).as_bytes()) {
            let message = "a change by a session of the console needs the header longhand-console-token of its page";
            return Err(Error::new(Reason::ConsoleTokenInvalid, message));
        }
    }
    Ok(Some(secret.to_owned()))
}

/// Refuses what a page of another origin causes.
pub(super) fn require_own_page(headers: &HeaderMap) -> Result<()> {
    let text = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let authority = text(&header::HOST).unwrap_or_default();
    let is_own = headers.get(header::ORIGIN).is_none()
        || text(&header::ORIGIN)
            .and_then(|origin| origin.split_once("://"))
            .is_some_and(|(_, of)| of.eq_ignore_ascii_case(authority));
    let is_of_page = text(&FETCH_SITE).is_none_or(|site| ["same-origin", "none"].contains(&site));
    if is_own && is_of_page {
        return Ok(());
    }
    Err(Error::new(Reason::OriginRefused, "pages of other origins have no part in a session of the console"))
}

/// Gives a browser a session for some seconds.
pub(super) fn grant(answer: &mut HeaderMap, asked: &HeaderMap, secret: &str, seconds: i64, is_encrypted: bool) {
    set(answer, &name(SECRET, asked), secret, seconds, is_encrypted, true);
    set(answer, &name(TOKEN, asked), &token(secret), seconds, is_encrypted, false);
}

/// Takes a session from a browser.
pub(super) fn forget(answer: &mut HeaderMap, asked: &HeaderMap, is_encrypted: bool) {
    for (cookie, is_hidden) in [(SECRET, true), (TOKEN, false)] {
        set(answer, &name(cookie, asked), "", 0, is_encrypted, is_hidden);
    }
}

fn set(answer: &mut HeaderMap, name: &str, value: &str, seconds: i64, is_encrypted: bool, is_hidden: bool) {
    let secure = if is_encrypted { "; Secure" } else { "" };
    let hidden = if is_hidden { "; HttpOnly" } else { "" };
    let text = format!("{name}={value}; Path=/; Max-Age={seconds}; SameSite=Strict{hidden}{secure}");
    if let Ok(cookie) = HeaderValue::try_from(text) {
        answer.append(header::SET_COOKIE, cookie);
    }
}

/// The token for changes by a session.
fn token(secret: &str) -> String {
    URL_SAFE_NO_PAD.encode(blake3::derive_key(PURPOSE, secret.as_bytes()))
}

/// The name of a cookie: a browser's cookies of one host are those of all its ports, where other daemons may listen.
fn name(of: &str, headers: &HeaderMap) -> String {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let port = host.rsplit_once(':').map_or("", |(_, port)| port);
    let is_port = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    if is_port { format!("{of}-{port}") } else { of.to_owned() }
}

/// The value of a cookie of a request.
fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let texts = headers.get_all(header::COOKIE).into_iter().filter_map(|value| value.to_str().ok());
    let mut pairs = texts.flat_map(|text| text.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(found, _)| *found == name).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: Method, headers: &[(&str, &str)]) -> Parts {
        let mut request = http::Request::builder().method(method).uri("/v1/sessions").header("host", "localhost:4747");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).expect("a request").into_parts().0
    }

    #[test]
    fn a_session_proves_itself_for_its_own_page_alone() {
        let cookie = ("cookie", "other=1; longhand-console-4747=lh_secret; longhand-console-token-4747=x");
        let token = token("lh_secret");
        let changes = ("longhand-console-token", token.as_str());
        let own = ("origin", "http://localhost:4747");
        for (method, headers, expected) in [
            (Method::GET, vec![cookie], Ok(true)),
            (Method::GET, vec![], Ok(false)),
            (Method::GET, vec![("cookie", "longhand-console-4748=lh_secret")], Ok(false)),
            (Method::GET, vec![cookie, own, ("sec-fetch-site", "same-origin")], Ok(true)),
            (Method::GET, vec![cookie, ("origin", "http://localhost:4748")], Err(Reason::OriginRefused)),
            (Method::GET, vec![cookie, ("origin", "null")], Err(Reason::OriginRefused)),
            (Method::GET, vec![cookie, ("sec-fetch-site", "cross-site")], Err(Reason::OriginRefused)),
            (Method::GET, vec![cookie, ("sec-fetch-site", "same-site")], Err(Reason::OriginRefused)),
            (Method::POST, vec![cookie, own, changes], Ok(true)),
            (Method::POST, vec![cookie, own], Err(Reason::ConsoleTokenInvalid)),
            (Method::POST, vec![cookie, ("longhand-console-token", "x")], Err(Reason::ConsoleTokenInvalid)),
            (Method::PATCH, vec![cookie], Err(Reason::ConsoleTokenInvalid)),
            (Method::POST, vec![changes], Ok(false)),
        ] {
            let mut head = request(method.clone(), &headers);
            let proved = prove(&mut head).map(|()| head.headers.contains_key(header::AUTHORIZATION));
            assert_eq!(proved.map_err(|error| error.reason), expected, "{method} {headers:?}");
        }
    }

    #[test]
    fn other_credentials_come_first() {
        let bearer = ("authorization", "Bearer mine");
        let mut head = request(Method::POST, &[("cookie", "longhand-console-4747=lh_secret"), bearer]);
        prove(&mut head).expect("it has credentials of its own");
        assert_eq!(head.headers[header::AUTHORIZATION], "Bearer mine");
    }

    #[test]
    fn cookies_are_strict_and_the_secret_is_hidden() {
        let asked = request(Method::POST, &[]).headers;
        let mut answer = HeaderMap::new();
        grant(&mut answer, &asked, "lh_secret", 60, true);
        let cookies: Vec<_> =
            answer.get_all(header::SET_COOKIE).iter().filter_map(|value| value.to_str().ok()).collect();
        assert_eq!(
            cookies[0],
            "longhand-console-4747=lh_secret; Path=/; Max-Age=60; SameSite=Strict; HttpOnly; Secure"
        );
        assert!(cookies[1].starts_with("longhand-console-token-4747=") && !cookies[1].contains("lh_secret"));
        assert!(cookies[1].contains("SameSite=Strict") && !cookies[1].contains("HttpOnly"));
    }
}
