//! Verbatim attachments of a summary: the last used files, as the history last showed them, and the last images.
//!
//! Nothing is read from a disk. A file is only named if its last call did not show all of it, or if it is too large.

use super::calls::Calls;
use super::{Attachments, FileText, FileTool, Policy, tokens};
use crate::model::part::{Media, PartBody, ResultStatus, ToolCall, ToolResult};
use crate::model::view::SourceMessage;
use foldhash::{HashSet, HashSetExt as _};
use serde_json::Value;

/// Text before the names of files without contents.
const NAMED: &str = "Files used last that are too long to repeat here, or that no call showed whole. Read them again \
                     when they matter:";

/// Text before the images.
const IMAGES: &str = "The last images of the conversation, the newest at the end:";

/// Minimum number of backticks of the fence around a file.
const FENCE_LEAST: usize = 3;

/// The attachments of a summary of `messages`, in the order in which a model reads them.
pub fn attachments(rules: &Attachments, policy: &Policy, messages: &[SourceMessage]) -> Vec<PartBody> {
    let mut parts = files(rules, policy, messages).parts();
    let images = images(rules, messages);
    if !images.is_empty() {
        parts.push(PartBody::Text(IMAGES.to_owned()));
        parts.extend(images.into_iter().map(|media| PartBody::Media(media.clone())));
    }
    parts
}

/// The attached files.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Files<'a> {
    /// Paths of files that are only named, the last used one first.
    pub named: Vec<String>,
    /// Paths and contents of files that are attached whole, the last used one first.
    pub whole: Vec<(String, Text<'a>)>,
}

/// The contents of a file: borrowed from an output, or owned when decoded from an input.
type Text<'a> = std::borrow::Cow<'a, str>;

impl Files<'_> {
    fn parts(self) -> Vec<PartBody> {
        let mut parts = Vec::new();
        if !self.named.is_empty() {
            let lines: String = self.named.iter().map(|path| format!("\n- {}", one_line(path))).collect();
            parts.push(PartBody::Text(format!("{NAMED}\n{lines}")));
        }
        for (path, text) in self.whole {
            let fence = "`".repeat((longest_run(&text, '`') + 1).max(FENCE_LEAST));
            let path = one_line(&path);
            parts.push(PartBody::Text(format!("File {path}, as last seen:\n\n{fence}\n{text}\n{fence}")));
        }
        parts
    }
}

/// The files that were used last, according to the calls: whole if the history shows them whole and the limits allow
/// it.
pub fn files<'a>(rules: &Attachments, policy: &Policy, messages: &'a [SourceMessage]) -> Files<'a> {
    let calls = Calls::from_messages(messages);
    let per_token = i64::from(policy.counting.units_per_token.max(1));
    let file_units = rules.file_tokens.saturating_mul(per_token);
    let total_units = rules.total_tokens.saturating_mul(per_token);
    let mut files = Files::default();
    let mut seen = HashSet::new();
    let mut used = 0_i64;
    for called in calls.iter().rev() {
        if seen.len() >= rules.files as usize {
            break;
        }
        let result = called.answer.map(|answer| answer.result);
        let Some((path, text)) = touched(rules, called.call, result).filter(|(path, _)| seen.insert(path.clone()))
        else {
            continue;
        };
        if text.as_deref().is_some_and(is_binary) {
            continue;
        }
        let units = text.as_ref().map(|text| tokens::text_units(&policy.counting, text));
        match (text, units) {
            (Some(text), Some(units)) if units <= file_units && used.saturating_add(units) <= total_units => {
                used = used.saturating_add(units);
                files.whole.push((path, text));
            }
            _ => files.named.push(path),
        }
    }
    files
}

/// The path that a call names, and the contents that it shows; none if the call failed or names no path.
fn touched<'a>(
    rules: &Attachments,
    call: &'a ToolCall,
    result: Option<&'a ToolResult>,
) -> Option<(String, Option<Text<'a>>)> {
    let tool: &FileTool = rules.tools.iter().find(|tool| tool.tool == call.tool)?;
    let failed = |result: &ToolResult| result.status != ResultStatus::Completed;
    if result.is_some_and(failed) {
        return None;
    }
    let input: Value = serde_json::from_str(&call.input_json).ok()?;
    let path = input.get(&tool.field)?.as_str().filter(|path| !path.is_empty())?.to_owned();
    let fields = input.as_object().map_or(0, serde_json::Map::len);
    let text = match &tool.shows {
        FileText::Output => result.filter(|_| fields == 1).map(|result| Text::Borrowed(result.output.as_str())),
        FileText::Input { field } => input.get(field).and_then(Value::as_str).map(|text| Text::Owned(text.to_owned())),
        FileText::Nowhere => None,
    };
    Some((path, text))
}

/// The last images that a view still shows, in the order of the history.
fn images<'a>(rules: &Attachments, messages: &'a [SourceMessage]) -> Vec<&'a Media> {
    let mut images: Vec<&Media> = Vec::new();
    let shown = messages.iter().flat_map(|source| {
        source.message.parts.iter().filter(|part| source.pruned_part(part.id).is_none()).map(|part| &*part.body)
    });
    for body in shown {
        let media = match body {
            PartBody::Media(media) => std::slice::from_ref(media),
            PartBody::ToolResult(result) => &result.attachments,
            _ => &[],
        };
        images.extend(media.iter().filter(|media| media.mime_type.starts_with("image/")));
    }
    let last = images.len().saturating_sub(rules.images as usize);
    images.split_off(last)
}

/// True if the text is binary: too large a share of its first bytes are control characters other than white space.
fn is_binary(text: &str) -> bool {
    let sample = &text.as_bytes()[..text.len().min(SAMPLE_BYTES)];
    let is_odd = |byte: &&u8| matches!(byte, 0..=8 | 11 | 12 | 14..=31 | 127);
    sample.iter().filter(is_odd).count() as f64 > sample.len() as f64 * ODD_SHARE
}

/// Number of bytes that are examined for binary contents.
const SAMPLE_BYTES: usize = 512;

/// Share of control characters above which a file is binary.
const ODD_SHARE: f64 = 0.3;

/// A path without line breaks and tabs.
fn one_line(path: &str) -> String {
    path.replace(['\n', '\r', '\t'], "")
}

/// Length of the longest run of a character.
fn longest_run(text: &str, of: char) -> usize {
    let mut longest = 0;
    let mut run = 0;
    for character in text.chars() {
        run = if character == of { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{dsl, samples};

    fn rules() -> Attachments {
        let tool = |tool: &str, shows| FileTool { tool: tool.to_owned(), field: "path".to_owned(), shows };
        Attachments {
            files: 3,
            file_tokens: 20,
            total_tokens: 30,
            images: 2,
            tools: vec![
                tool("read", FileText::Output),
                tool("write", FileText::Input { field: "content".to_owned() }),
                tool("edit", FileText::Nowhere),
            ],
        }
    }

    fn check(text: &str, named: &[&str], whole: &[(&str, &str)]) {
        let messages = dsl::parse(text);
        let files = files(&rules(), &samples::policy("pi@1.5"), &messages);
        assert_eq!(files.named, named, "{text}");
        let found: Vec<(&str, &str)> = files.whole.iter().map(|(path, text)| (path.as_str(), &**text)).collect();
        assert_eq!(found, whole, "{text}");
    }

    #[test]
    fn the_files_used_last_are_shown_as_the_history_last_showed_them() {
        check(
            r#"a1
  tool read#c1 in={"path":"a"} out="old" done
  tool write#c2 in={"path":"b","content":"new"} out="ok" done
  tool read#c3 in={"path":"a"} out="newer" done
  tool read#c4 in={"path":"d"} out="never" error
  tool bash#c5 in={"path":"e"} out="x" done
"#,
            &[],
            &[("a", "newer"), ("b", "new")],
        );
    }

    #[test]
    fn what_no_call_shows_whole_is_named() {
        check(
            r#"a1
  tool read#c1 in={"path":"a"} out="old" done
  tool edit#c2 in={"path":"a","new":"x"} out="ok" done
  tool read#c3 in={"path":"b","offset":10} out="part" done
  call read#c4 in={"path":"c"}
"#,
            &["c", "b", "a"],
            &[],
        );
    }

    #[test]
    fn what_is_no_text_is_left_out() {
        check(
            r#"a1
  tool read#c1 in={"path":"a"} out="\u001b[1m ok" done
  tool read#c2 in={"path":"b"} out="\u001b[" done
  tool read#c3 in={"path":"c"} out="" done
"#,
            &[],
            &[("c", ""), ("a", "\u{1b}[1m ok")],
        );
    }

    #[test]
    fn a_file_has_a_limit_and_so_have_all() {
        check(
            r#"a1
  tool read#c0 in={"path":"z"} out="z" done
  tool read#c1 in={"path":"a"} out=80c done
  tool read#c2 in={"path":"b"} out=41c done
  tool read#c3 in={"path":"c"} out=81c done
"#,
            &["c", "a"],
            &[("b", &"x".repeat(41))],
        );
    }

    #[test]
    fn the_last_images_follow_wherever_they_stood() {
        let text = "u1 \"x\"\n  media image/gif\n  media application/pdf\na2\n  \
                    tool read#c1 out=1c media=image/png done\n  tool read#c2 out=1c media=image/bmp done pruned\n\
                    u3 \"y\"\n  media image/jpeg\n";
        let parts = attachments(&rules(), &samples::policy("pi@1.5"), &dsl::parse(text));
        let of = |part: &PartBody| match part {
            PartBody::Media(media) => media.mime_type.clone(),
            PartBody::Text(text) => text.clone(),
            other => other.kind().to_owned(),
        };
        assert_eq!(parts.iter().map(of).collect::<Vec<_>>(), [IMAGES, "image/png", "image/jpeg"]);
    }

    #[test]
    fn a_fence_is_longer_than_every_run_inside() {
        let text = "a1\n  tool read#c1 in={\"path\":\"a\\nb\"} out=\"````\" done\n";
        let parts = attachments(&rules(), &samples::policy("pi@1.5"), &dsl::parse(text));
        let expected = "File ab, as last seen:\n\n`````\n````\n`````";
        assert_eq!(parts, [PartBody::Text(expected.to_owned())]);
    }
}
