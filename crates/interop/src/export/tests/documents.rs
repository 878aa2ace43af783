//! Documents for people: nothing in a session becomes markup, loads anything, or hides.

use super::*;
use longhand_model::part::{Media, MediaSource, Record};
use proptest::prelude::*;

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n-";

fn document(session: &Session, look: &Look, write: fn(&Session, &Look, &mut dyn Write) -> io::Result<()>) -> String {
    let mut out = Vec::new();
    write(session, look, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// A session with the same text wherever a session can have one.
fn everywhere(words: &str) -> Session {
    let media = |source| PartBody::Media(Media { mime_type: words.into(), name: words.into(), source });
    let mut reply =
        message(2, Role::Assistant, vec![PartBody::Reasoning(words.into()), text(words), call(words, words)]);
    reply.model = words.to_owned();
    reply.actor = words.to_owned();
    reply.finish.as_mut().unwrap().detail = words.to_owned();
    let mut record =
        message(4, Role::System, vec![PartBody::Record(Record { kind: words.into(), data: words.into() })]);
    record.kind = MessageKind::Record;
    let mut user = message(1, Role::User, vec![text(words), media(MediaSource::Uri(words.into()))]);
    user.parts.push(NewPart::new(media(MediaSource::Bytes(PNG.to_vec()))));
    user.status = status(MessageState::Edited, 9, Some(words));
    let tool = message(3, Role::Tool, vec![result(words, words)]);
    Session { title: words.to_owned(), id: words.to_owned(), ..session(vec![user, reply, tool, record]) }
}

const HOSTILE: [&str; 8] = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)> ' onclick='x",
    "</pre></details></article></style></title><svg onload=x>",
    "```\n<b>\n```\n~~~\n</details>\n# #9 user\n````\n```",
    "![x](https://e.invalid/p.png) [y](javascript:x) [z][k]\n[k]: https://e.invalid/\n===\n<https://e.invalid>",
    "\u{202e}gnp.exe \u{1b}[31m \u{0} \u{2066} \u{feff}",
    "-->]]>&lt;script&gt;&amp;",
    "- ```\n  <i>\n> ```html\n> <u>\n\t<s>",
];

/// Elements of a document.
fn tags(html: &str) -> Vec<&str> {
    html.split('<').skip(1).map(|tag| tag.split(['>', ' ', '\n']).next().unwrap()).collect()
}

#[test]
fn no_text_becomes_html() {
    let look = Look { records: true, ..Look::default() };
    let plain = document(&everywhere("plain"), &look, html);
    for words in HOSTILE {
        let out = document(&everywhere(words), &look, html);
        assert_eq!(tags(&out), tags(&plain), "{words}");
        assert!(!out.contains('\u{202e}') && !out.contains('\u{1b}') && !out.contains('\u{0}'), "{words}");
        // Every attribute is one of ours.
        for tag in out.split('<').skip(1).filter(|tag| tag.starts_with(|letter: char| letter.is_ascii_alphabetic())) {
            let tag = tag.split('>').next().unwrap();
            assert!(!tag.contains(" on") && tag.matches('"').count().is_multiple_of(2), "{tag}");
        }
    }
    assert!(!plain.contains("<script") && !plain.contains("http:") && !plain.contains("https:"));
    assert!(plain.contains("default-src 'none'; style-src 'unsafe-inline'; img-src data:"));
    assert!(!STYLE.contains("url(") && !STYLE.contains("@import") && !STYLE.contains('<'));
}

const STYLE: &str = include_str!("../export.css");

#[test]
fn an_image_is_shown_only_if_its_bytes_are_one() {
    for (mime_type, bytes, is_shown) in [
        ("image/png", PNG, true),
        ("image/jpeg", PNG, false),
        ("image/png", b"<svg onload=x>", false),
        ("image/svg+xml", b"<svg onload=x>", false),
        ("image/webp", b"RIFF\0\0\0\0WEBPxx", true),
        ("image/gif", b"GIF89a..", true),
        ("image/jpeg", b"\xff\xd8\xff\xe0", true),
        ("image/png\" onerror=\"x", PNG, false),
    ] {
        let media = Media { mime_type: mime_type.into(), name: "x".into(), source: MediaSource::Bytes(bytes.to_vec()) };
        let out =
            document(&session(vec![message(1, Role::User, vec![PartBody::Media(media)])]), &Look::default(), html);
        assert_eq!(out.contains("<img "), is_shown, "{mime_type}");
        assert_eq!(out.contains("not shown"), !is_shown, "{mime_type}");
    }
}

/// Lines of Markdown outside of fences.
fn outside(markdown: &str) -> Vec<&str> {
    let (mut outside, mut fence): (Vec<&str>, Option<&str>) = (Vec::new(), None);
    for line in markdown.lines() {
        let run = &line[..line.len() - line.trim_start_matches('`').len()];
        match fence {
            Some(open) if run.len() >= open.len() && line.len() == run.len() => fence = None,
            Some(_) => {}
            None if run.len() >= 3 => fence = Some(run),
            None => outside.push(line),
        }
    }
    assert_eq!(fence, None, "every fence is closed");
    outside
}

#[test]
fn no_text_becomes_markup_that_acts() {
    let look = Look { records: true, ..Look::default() };
    let plain = document(&everywhere("plain"), &look, markdown);
    let ours = ["<details>", "</details>", "<summary>"];
    let html = |text: &str| outside(text).concat().matches('<').count();
    let headings = |text: &str| outside(text).iter().filter(|line| line.starts_with('#')).count();
    for words in HOSTILE {
        let out = document(&everywhere(words), &look, markdown);
        assert_eq!((html(&out), headings(&out)), (html(&plain), headings(&plain)), "{words}: {out}");
        for line in outside(&out) {
            let is_ours = ours.iter().any(|tag| line.starts_with(tag));
            assert!(is_ours || !line.contains('<'), "{line}");
            assert!(!line.contains("](") && !line.contains("![") && !line.trim_start().starts_with("[k]:"), "{line}");
        }
        assert!(!out.contains('\u{202e}') && !out.contains('\u{1b}'), "{words}");
    }
}

#[test]
fn states_and_limits_are_visible() {
    let mut covered = message(1, Role::User, vec![text("old")]);
    let summary = Message { kind: MessageKind::Summary, ..message(3, Role::User, vec![text("short")]) };
    covered.status = status(MessageState::Covered, 3, Some(&summary.id));
    let session = session(vec![covered, message(2, Role::Tool, vec![result("t", &"é".repeat(50))]), summary]);
    let look = Look { output_bytes: 11, ..Look::default() };
    let expected = format!("covered at #3 by #3 (msg_{:032x})", 3);
    let out = document(&session, &look, html);
    assert!(out.contains(&expected) && out.contains("\nééééé</pre><p class=\"end\">90 bytes more</p>"), "{out}");
    let out = document(&session, &look, markdown);
    let escaped = expected.replace('_', "&#95;");
    assert!(out.contains(&format!("> **{escaped}**")) && out.contains("*90 bytes more*"), "{out}");
}

#[test]
fn a_line_of_ten_megabytes_is_written() {
    let session = session(vec![message(1, Role::Tool, vec![result("t", &"`<".repeat(5 << 20))])]);
    for write in [html, markdown] {
        assert!(document(&session, &Look::default(), write).len() > 10 << 20);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn no_words_change_the_structure(words in "[`~#<>\\[\\]()!&\\\\ \n\t=:\"'a-]{0,60}") {
        let look = Look { records: true, ..Look::default() };
        let out = document(&everywhere(&words), &look, html);
        let plain = document(&everywhere("plain"), &look, html);
        prop_assert_eq!(tags(&out), tags(&plain));
        let out = document(&session(vec![message(1, Role::User, vec![text(&words)])]), &look, markdown);
        for line in outside(&out) {
            prop_assert!(!line.contains('<') && !line.contains("]("), "{}", line);
        }
        prop_assert_eq!(outside(&out).iter().filter(|line| line.trim_start().starts_with('#')).count(), 2);
    }
}
