//! The files of the page, which are built from `console/` and lie in the program.

use crate::app::{Error, Reason};
use crate::http::failure::Failure;
use axum::body::Body;
use axum::extract::Path;
use axum::response::Response;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use std::collections::HashMap;
use std::io::Write as _;
use std::sync::LazyLock;

/// The page may use what comes from here, and pictures that it makes itself. It has no inline scripts and styles.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; font-src 'self'; connect-src 'self'; \
     manifest-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
);

/// A file whose name stays.
const ICON: &str = "icon.svg";
/// Kept by a browser, and asked for again each time.
const REVALIDATED: &str = "no-cache";

#[derive(rust_embed::Embed)]
#[folder = "../../console/dist"]
struct Files;

/// A file as it is served.
struct Asset {
    plain: Bytes,
    zipped: Bytes,
    tag: HeaderValue,
    media_type: &'static str,
}

static ASSETS: LazyLock<HashMap<String, Asset>> = LazyLock::new(|| {
    let served = Files::iter().filter_map(|name| {
        let file = Files::get(&name)?;
        let hash =
            file.metadata.sha256_hash()[..16].iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
        let plain = Bytes::from(file.data.into_owned());
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&plain).ok()?;
        let zipped = encoder.finish().ok()?.into();
        let tag = HeaderValue::try_from(format!("\"{hash}\"")).ok()?;
        Some((name.rsplit('/').next()?.to_owned(), Asset { plain, zipped, tag, media_type: media_type(&name) }))
    });
    served.collect()
});

fn media_type(name: &str) -> &'static str {
    match name.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "application/octet-stream",
    }
}

pub(super) async fn index(headers: HeaderMap) -> Response {
    serve("index.html", &headers, REVALIDATED)
}

pub(super) async fn file(Path(name): Path<String>, headers: HeaderMap) -> Response {
    // The name of every file but this one has a hash of its content.
    let caching = if name == ICON { REVALIDATED } else { "public, max-age=31536000, immutable" };
    serve(&name, &headers, caching)
}

fn serve(name: &str, headers: &HeaderMap, caching: &'static str) -> Response {
    let Some(asset) = ASSETS.get(name) else {
        return Failure::from(Error::new(Reason::MethodUnknown, "the console has no such file")).into_response();
    };
    let lists = |name, wanted: &str| {
        headers
            .get(name)
            .and_then(|given| given.to_str().ok())
            .is_some_and(|given| given.split(',').any(|one| one.trim().split(';').next() == Some(wanted)))
    };
    let is_held = lists(header::IF_NONE_MATCH, asset.tag.to_str().unwrap_or_default());
    let is_zipped = lists(header::ACCEPT_ENCODING, "gzip");
    let mut response = Response::new(match (is_held, is_zipped) {
        (true, _) => Body::empty(),
        (false, true) => Body::from(asset.zipped.clone()),
        (false, false) => Body::from(asset.plain.clone()),
    });
    let answered = response.headers_mut();
    answered.insert(header::ETAG, asset.tag.clone());
    answered.insert(header::CACHE_CONTROL, HeaderValue::from_static(caching));
    answered.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    answered.insert(header::CONTENT_TYPE, HeaderValue::from_static(asset.media_type));
    answered.insert(header::CONTENT_SECURITY_POLICY, POLICY);
    match (is_held, is_zipped) {
        (true, _) => *response.status_mut() = StatusCode::NOT_MODIFIED,
        (false, true) => drop(answered.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"))),
        (false, false) => {}
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes, after compression, of what a browser loads before it shows anything.
    const FIRST_LOAD_MAX: usize = 150_000;

    #[test]
    fn the_first_load_is_small_and_has_nothing_inline() {
        let page = String::from_utf8(ASSETS["index.html"].plain.to_vec()).expect("text");
        let named: Vec<&Asset> =
            page.split('"').filter_map(|text| ASSETS.get(text.strip_prefix("/console/")?)).collect();
        assert!(named.len() >= 2, "a script and a style: {page}");
        let bytes = ASSETS["index.html"].zipped.len() + named.iter().map(|asset| asset.zipped.len()).sum::<usize>();
        assert!(bytes <= FIRST_LOAD_MAX, "the first load has {bytes} bytes");
        assert!(!page.contains("<style") && !page.contains("style=") && !page.contains("<script>"), "{page}");
        assert!(!page.contains("http://") && !page.contains("https://"), "{page}");
    }

    #[test]
    fn a_file_is_compressed_where_that_is_accepted_and_not_sent_twice() {
        let ask = |headers: &[(header::HeaderName, &str)]| {
            let headers =
                headers.iter().map(|(name, value)| (name.clone(), HeaderValue::from_str(value).expect("text")));
            serve("index.html", &headers.collect(), "no-cache")
        };
        let plain = ask(&[]);
        assert!(!plain.headers().contains_key(header::CONTENT_ENCODING));
        let zipped = ask(&[(header::ACCEPT_ENCODING, "br, gzip;q=1")]);
        assert_eq!(zipped.headers()[header::CONTENT_ENCODING], "gzip");
        let tag = plain.headers()[header::ETAG].to_str().expect("text");
        assert_eq!(ask(&[(header::IF_NONE_MATCH, tag)]).status(), StatusCode::NOT_MODIFIED);
        assert_eq!(serve("missing.js", &HeaderMap::new(), "").status(), StatusCode::NOT_FOUND);
    }
}
