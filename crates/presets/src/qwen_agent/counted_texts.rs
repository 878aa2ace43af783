//! Counts texts and tool results as Qwen-Agent counts a list of messages: without reasoning, and with or without calls.
//!
//! The texts of a message are counted as one, without the blanks around them. Media in a request count as the note that
//! names them. A call counts as its name and its arguments in Python's notation; releases before 0.0.30 count texts alone.
//! Text beside a call counts too: in Qwen-Agent's list it is a message of its own.

use super::parameters::{CountedTexts, NoteEnd};
use crate::model::message::Role;
use crate::model::part::{Media, ToolCall};
use crate::policy::Counting;
use crate::policy::strategy::{CountStrategy, Parameters};
use crate::policy::tokens::units::{ShownPart, text_units};
use regex::Regex;
use std::sync::LazyLock;

impl Parameters for CountedTexts {
    const NAME: &'static str = "texts";
}

impl CountStrategy for CountedTexts {
    fn units(&self, counting: &Counting, role: Role, parts: &[ShownPart<'_>]) -> i64 {
        units(*self, counting, role, parts)
    }
}

/// The units of one message.
fn units(texts: CountedTexts, counting: &Counting, role: Role, parts: &[ShownPart<'_>]) -> i64 {
    let written =
        parts.iter().filter_map(|part| if let ShownPart::Text(text) = part { Some(text.as_ref()) } else { None });
    let media = parts.iter().filter_map(|part| if let ShownPart::Media(media) = part { Some(*media) } else { None });
    let text: String = written.collect();
    let note = match role {
        Role::User | Role::System => note(texts.note, &text, &media.collect::<Vec<_>>()),
        Role::Assistant | Role::Tool => String::new(),
    };
    let own = text_units(counting, strip(&(note + &text)));
    let others = parts.iter().map(|part| match part {
        ShownPart::Call { call, input_json } if texts.calls => text_units(counting, &call_text(call, input_json)),
        ShownPart::Result { output, .. } => text_units(counting, strip(output)),
        ShownPart::Call { .. }
        | ShownPart::Text(_)
        | ShownPart::Reasoning(_)
        | ShownPart::Media(_)
        | ShownPart::Opaque(_) => 0,
    });
    others.fold(own, i64::saturating_add)
}

/// The text without the characters at its ends that Python treats as blanks.
fn strip(text: &str) -> &str {
    text.trim_matches(|character: char| character.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&character))
}

/// The note that names the media of a request, in Chinese if the text or a name in the request contains Chinese.
fn note(end: NoteEnd, text: &str, media: &[&Media]) -> String {
    if media.is_empty() {
        return String::new();
    }
    let is_chinese = |text: &str| text.chars().any(|character| ('\u{4e00}'..='\u{9fff}').contains(&character));
    let chinese = is_chinese(text) || media.iter().any(|media| is_chinese(&media.name));
    let named: Vec<String> = media.iter().map(|media| named(media, chinese)).collect();
    let named = named.join(" ");
    let note = if chinese { format!("（上传了 {named}）") } else { format!("(Uploaded {named})") };
    let end = match (end, chinese) {
        (NoteEnd::Line, true) => "",
        (NoteEnd::Line, false) => " ",
        (NoteEnd::Paragraph, _) => "\n\n",
    };
    note + end
}

fn named(media: &Media, chinese: bool) -> String {
    let kind = match (media.mime_type.split('/').next(), chinese) {
        (Some("image"), true) => "![图片]",
        (Some("image"), false) => "![image]",
        (Some("video"), true) => "![视频]",
        (Some("video"), false) => "![video]",
        (Some("audio"), true) => "![音频]",
        (Some("audio"), false) => "![audio]",
        (_, true) => "[文件]",
        (_, false) => "[file]",
    };
    format!("{kind}({})", media.name.trim())
}

/// A call in Python's notation of a dictionary with its name and its arguments.
fn call_text(call: &ToolCall, input_json: &str) -> String {
    format!("{{'name': {}, 'arguments': {}}}", quoted(&call.tool), quoted(input_json))
}

/// A text in Python's notation of a string literal.
fn quoted(text: &str) -> String {
    static UNPRINTABLE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^[\p{C}\p{Z}]$").expect("a constant pattern"));
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push(quote);
    for character in text.chars() {
        let code = u32::from(character);
        match character {
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            _ if character == quote => quoted.extend(['\\', quote]),
            ' '..='~' => quoted.push(character),
            '\0'..='\u{ff}' if is_unprintable(&UNPRINTABLE, character) => quoted.push_str(&format!("\\x{code:02x}")),
            '\u{100}'..='\u{ffff}' if is_unprintable(&UNPRINTABLE, character) => {
                quoted.push_str(&format!("\\u{code:04x}"));
            }
            _ if is_unprintable(&UNPRINTABLE, character) => quoted.push_str(&format!("\\U{code:08x}")),
            _ => quoted.push(character),
        }
    }
    quoted.push(quote);
    quoted
}

fn is_unprintable(pattern: &Regex, character: char) -> bool {
    pattern.is_match(character.encode_utf8(&mut [0; 4]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::TextUnits;

    #[test]
    fn a_call_is_written_as_python_writes_it() {
        for (text, expected) in [
            ("plain", "'plain'"),
            (r#"{"a": "b"}"#, r#"'{"a": "b"}'"#),
            ("it's", "\"it's\""),
            ("it's \"x\"", "'it\\'s \"x\"'"),
            ("a\\n\n\t\r", "'a\\\\n\\n\\t\\r'"),
            ("\0\u{7f}\u{a0}\u{ad}", "'\\x00\\x7f\\xa0\\xad'"),
            ("你好é😀", "'你好é😀'"),
            ("\u{200b}\u{3000}\u{e000}\u{10ffff}", "'\\u200b\\u3000\\ue000\\U0010ffff'"),
        ] {
            assert_eq!(quoted(text), expected);
        }
        let call = ToolCall { tool: "f".into(), ..ToolCall::default() };
        assert_eq!(call_text(&call, "{}"), "{'name': 'f', 'arguments': '{}'}");
    }

    #[test]
    fn media_are_named_in_the_language_of_the_request() {
        let media = |mime: &str, name: &str| Media { mime_type: mime.into(), name: name.into(), ..Media::default() };
        let (image, file) = (media("image/png", "a.png"), media("application/pdf", "b.pdf"));
        let line = |text: &str, media: &[&Media]| note(NoteEnd::Line, text, media);
        assert_eq!(line("look", &[&image, &file]), "(Uploaded ![image](a.png) [file](b.pdf)) ");
        assert_eq!(line("看", &[&image]), "（上传了 ![图片](a.png)）");
        assert_eq!(line("look", &[&media("audio/wav", "音.wav")]), "（上传了 ![音频](音.wav)）");
        assert_eq!(line("look", &[]), "");
        assert_eq!(note(NoteEnd::Paragraph, "look", &[&image]), "(Uploaded ![image](a.png))\n\n");
    }

    #[test]
    fn texts_beside_a_call_count_as_a_message_of_their_own() {
        let counting = |calls| Counting {
            text: TextUnits::Length,
            per: CountedTexts { calls, note: NoteEnd::Line }.into(),
            ..crate::policy("qwen-agent@0.0.34").counting
        };
        let units = |calls, role| {
            let call = ToolCall { tool: "f".into(), ..ToolCall::default() };
            let parts = [ShownPart::Text("words".into()), ShownPart::Call { call: &call, input_json: "{}".into() }];
            super::units(CountedTexts { calls, note: NoteEnd::Line }, &counting(calls), role, &parts)
        };
        let call = "{'name': 'f', 'arguments': '{}'}".len() as i64;
        assert_eq!(units(true, Role::Assistant), 5 + call);
        assert_eq!(units(false, Role::Assistant), 5);
    }

    #[test]
    fn blanks_at_the_ends_count_nothing() {
        assert_eq!(strip(" \u{1c}\u{3000}\n a b \u{1f}\u{a0}"), "a b");
    }
}
