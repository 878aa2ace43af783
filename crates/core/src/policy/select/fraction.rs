//! A tail: the messages after a share of the history, measured as the JSON of its contents.
//!
//! The boundary is chosen in the contents that a request to Gemini would have: consecutive results are one content. The
//! active summary and its acknowledgement come first and are measured too. No boundary is chosen that would cover only
//! these.

use crate::model::view::SourceMessage;
use crate::policy::tokens::{Content, contents};
use crate::policy::violation::Check;
use crate::policy::{Fraction, FractionBoundary, Policy};

/// A content, and the index of the message that it begins with; none for contents before the messages.
struct LocatedContent {
    content: Content,
    message: Option<usize>,
}

impl Fraction {
    /// Adds an error to `check` for each invalid parameter.
    pub(in crate::policy) fn check(&self, check: &mut Check, path: &str) {
        let inside = self.summarize_ratio > 0.0 && self.summarize_ratio < 1.0;
        check.that(inside, &format!("{path}.summarize_ratio"), "must be more than 0 and less than 1");
        check.share(self.minimum_ratio, &format!("{path}.minimum_ratio"));
    }

    pub(super) fn boundary(
        &self,
        policy: &Policy,
        summary: Option<&SourceMessage>,
        messages: &[SourceMessage],
    ) -> usize {
        let contents = located(policy, summary, messages);
        let units: Vec<i64> = contents.iter().map(|located| located.content.units()).collect();
        let total = units.iter().copied().fold(0, i64::saturating_add);
        let target = total as f64 * self.summarize_ratio;
        let end = match self.boundary {
            FractionBoundary::Reached => reached(&contents, &units, target),
            FractionBoundary::Request => {
                request(&contents, &units, target).unwrap_or_else(|last| match contents.last() {
                    Some(content) if content.content.is_model && !content.content.calls => contents.len(),
                    _ => last,
                })
            }
            FractionBoundary::Rounds { rounds } => {
                request(&contents, &units, target).unwrap_or_else(|last| match contents.last() {
                    Some(LocatedContent { content, .. }) if content.is_model && content.calls => {
                        before_rounds(&contents, rounds)
                    }
                    Some(LocatedContent { content, .. }) if content.is_model || content.results > 0 => contents.len(),
                    _ => last,
                })
            }
        };
        let head = units[..end].iter().copied().fold(0, i64::saturating_add);
        if total > 0 && (head as f64) / (total as f64) < self.minimum_ratio {
            return 0;
        }
        contents.get(end).map_or(messages.len(), |located| located.message.unwrap_or(0))
    }

    pub(super) fn smaller(&self) -> Option<Self> {
        let kept = 1.0 - self.summarize_ratio;
        (kept > LEAST_KEPT).then(|| Self { summarize_ratio: 1.0 - kept / 2.0, ..self.clone() })
    }
}

/// A tail of this share of the history or less is not halved.
const LEAST_KEPT: f64 = 0.01;

/// The contents of a request: the active summary with its acknowledgement, and the messages.
fn located(policy: &Policy, summary: Option<&SourceMessage>, messages: &[SourceMessage]) -> Vec<LocatedContent> {
    let mut list: Vec<LocatedContent> = Vec::new();
    if let Some(summary) = summary {
        let around = length_of_wrapper(policy);
        for (_, content) in contents(policy, std::slice::from_ref(summary)) {
            let part_units = content.part_units.saturating_add(around);
            list.push(LocatedContent { content: Content { is_model: false, part_units, ..content }, message: None });
        }
        let answer = policy.view.acknowledgement.as_deref().map(|words| Content::of_text(true, words));
        list.extend(answer.map(|content| LocatedContent { content, message: None }));
    }
    for (index, content) in contents(policy, messages) {
        match list.last_mut().filter(|last| !last.content.is_model && last.content.only_results()) {
            Some(last) if !content.is_model && content.only_results() => {
                last.content.parts += content.parts;
                last.content.results += content.results;
                last.content.part_units = last.content.part_units.saturating_add(content.part_units);
            }
            _ => list.push(LocatedContent { content, message: Some(index) }),
        }
    }
    list
}

/// Number of units that the policy's prefix and suffix add to a summary.
fn length_of_wrapper(policy: &Policy) -> i64 {
    let empty = Content::of_text(false, "").part_units;
    let words = [&policy.view.summary_prefix, &policy.view.summary_suffix];
    words.into_iter().map(|words| Content::of_text(false, words).part_units - empty).sum()
}

fn reached(contents: &[LocatedContent], units: &[i64], target: f64) -> usize {
    let mut before = 0_i64;
    let reached = units.iter().position(|units| {
        before = before.saturating_add(*units);
        before as f64 >= target
    });
    let start = reached.unwrap_or(contents.len());
    let is_request = |located: &LocatedContent| !located.content.is_model && !located.content.only_results();
    contents[start..].iter().position(is_request).map_or(contents.len(), |offset| start + offset)
}

/// The first request that has the target before it; as an error, the last request.
fn request(contents: &[LocatedContent], units: &[i64], target: f64) -> Result<usize, usize> {
    let mut last = 0;
    let mut before = 0_i64;
    for (index, located) in contents.iter().enumerate() {
        if !located.content.is_model && located.content.results == 0 {
            if before as f64 >= target {
                return Ok(index);
            }
            last = index;
        }
        before = before.saturating_add(units[index]);
    }
    Err(last)
}

/// Index of the first of the last rounds before the calls at the end.
fn before_rounds(contents: &[LocatedContent], rounds: u32) -> usize {
    let mut start = contents.len() - 1;
    for _ in 0..rounds {
        let Some([call, results]) = start.checked_sub(2).and_then(|from| contents.get(from..start)) else { break };
        if !call.content.calls || results.content.results == 0 {
            break;
        }
        start -= 2;
    }
    start
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{dsl, samples, select};

    const REQUEST: FractionBoundary = FractionBoundary::Request;
    const REACHED: FractionBoundary = FractionBoundary::Reached;

    fn tail(summarize_ratio: f64, boundary: FractionBoundary) -> Fraction {
        Fraction { summarize_ratio, boundary, minimum_ratio: 0.0 }
    }

    fn boundary(tail: &Fraction, text: &str) -> usize {
        tail.boundary(&samples::policy("pi@1.5"), None, &dsl::parse(text))
    }

    /// Five messages whose JSON has 66, 68, 66, 68 and 65 characters.
    const FIVE: &str = "u1 29c\na2 30c\nu3 29c\na4 30c\nu5 28c\n";

    #[test]
    fn recorded_split_points_of_gemini_cli() {
        let round = "u1 \"a\"\na2\n  call x#c\nt3\n  result c out=500c done\n";
        for (ratio, text, expected) in [
            (0.5, FIVE.to_owned(), 4),
            (0.7, FIVE.to_owned(), 4),
            (0.9, FIVE.to_owned(), 4),
            (0.8, FIVE.lines().take(4).collect::<Vec<_>>().join("\n"), 4),
            (0.5, String::new(), 0),
            (0.5, "u1 9c".to_owned(), 0),
            (0.7, format!("{round}a4 \"done\""), 4),
            (0.7, round.to_owned(), 0),
            (0.99, "u1 50c\na2 50c\nu3 20c\na4\n  call x#c".to_owned(), 2),
        ] {
            assert_eq!(boundary(&tail(ratio, REQUEST), &text), expected, "{ratio} of {text}");
        }
    }

    #[test]
    fn the_length_of_a_content_is_that_of_its_json() {
        let units = |text: &str| -> Vec<i64> {
            contents(&samples::policy("pi@1.5"), &dsl::parse(text)).iter().map(|(_, content)| content.units()).collect()
        };
        assert_eq!(units(FIVE), [66, 68, 66, 68, 65]);
        for (text, json) in [
            (
                "a1 \"é\\n\"\n  reasoning \"h\"\n  call x#c in={\"a\": [1, \"b c\"]}",
                concat!(
                    r#"{"role":"model","parts":[{"text":"é\n"},{"text":"h","thought":true},"#,
                    r#"{"functionCall":{"name":"x","args":{"a":[1,"b c"]}}}]}"#
                ),
            ),
            (
                "u1 \"x\"\n  media image/png",
                r#"{"role":"user","parts":[{"text":"x"},{"inlineData":{"mimeType":"image/png","data":"Ynl0ZXM="}}]}"#,
            ),
            (
                "t1\n  result c out=\"no\" error media=a/b",
                concat!(
                    r#"{"role":"user","parts":[{"functionResponse":{"id":"c","response":{"error":"no"},"#,
                    r#""parts":[{"inlineData":{"mimeType":"a/b","data":"Ynl0ZXM="}}]}}]}"#
                ),
            ),
        ] {
            assert_eq!(units(text), [json.chars().count() as i64], "{text}");
        }
        let both = "a1\n  tool x#c out=\"ok\" done";
        let call = r#"{"role":"model","parts":[{"functionCall":{"name":"x","args":{}}}]}"#;
        let result =
            r#"{"role":"user","parts":[{"functionResponse":{"id":"c","name":"x","response":{"output":"ok"}}}]}"#;
        assert_eq!(units(both), [call.len() as i64, result.len() as i64]);
    }

    #[test]
    fn the_first_rule_keeps_the_request_that_reaches_the_share_and_moves_past_replies() {
        for (ratio, text, expected) in [
            (0.1, FIVE, 0),
            (0.3, FIVE, 2),
            (0.5, FIVE, 2),
            (0.7, FIVE, 4),
            (0.9, FIVE, 4),
            (0.7, "u1 9c\na2 9c\n  call x#c\nt3\n  result c out=900c done\na4 9c", 4),
        ] {
            assert_eq!(boundary(&tail(ratio, REACHED), text), expected, "{ratio} of {text}");
        }
    }

    #[test]
    fn rounds_stay_behind_a_history_that_ends_in_calls() {
        let round = |id: u32| format!("a{id}\n  call x#c{id}\nt{id}\n  result c{id} out=50c done\n");
        let rounds: String = (1..=3).map(round).collect();
        let two = FractionBoundary::Rounds { rounds: 2 };
        for (text, expected) in [
            (format!("u0 \"go\"\n{rounds}a9\n  call x#c9"), 3),
            (format!("u0 \"go\"\n{rounds}"), 7),
            (format!("u0 \"go\"\n{rounds}a9 \"done\""), 8),
            ("u0 \"go\"\na1\n  call x#c1".to_owned(), 1),
            // Results in messages of their own form one round with their calls.
            (
                "u0 \"go\"\na1\n  call x#c1\n  call x#c2\nt1\n  result c1 out=9c done\nt2\n  \
                 result c2 out=9c done\na3\n  call x#c3"
                    .to_owned(),
                1,
            ),
        ] {
            assert_eq!(boundary(&tail(0.7, two), &text), expected, "{text}");
        }
    }

    #[test]
    fn too_small_a_share_is_not_summarized() {
        let text = "u1 9c\na2 9c\nu3 9000c\na4 9c\n  call x#c";
        assert_eq!(boundary(&tail(0.7, REQUEST), text), 2);
        assert_eq!(boundary(&Fraction { minimum_ratio: 0.05, ..tail(0.7, REQUEST) }, text), 0);
    }

    #[test]
    fn the_current_summary_is_measured_and_never_summarized_alone() {
        let policy = samples::policy("pi@1.5");
        let tail = select::Tail::Fraction(tail(0.5, REQUEST));
        let boundary = |summary: &str, rest: &str| {
            let summary = dsl::parse(summary);
            let selected = |text| {
                let window = crate::model::usage::ModelWindow::default();
                select::select_behind(&policy, &tail, &window, summary.first(), &dsl::parse(text)).head_end
            };
            selected(rest)
        };
        let rest = "u1 100c\na2 100c\nu3 100c\na4 100c\nu5 100c\na6 100c";
        assert_eq!(boundary("", rest), 4);
        assert_eq!(boundary("a1 summary 300c", rest), 2);
        assert_eq!(boundary("a1 summary 5000c", rest), 0);
    }

    #[test]
    fn a_smaller_tail_keeps_half_until_nothing_is_left() {
        let halved = tail(0.7, REQUEST).smaller().expect("something to halve");
        assert!((halved.summarize_ratio - 0.85).abs() < 1e-9);
        assert_eq!(tail(0.995, REQUEST).smaller(), None);
    }

    #[test]
    fn a_share_of_nothing_or_of_everything_is_refused() {
        for (ratio, is_valid) in [(0.0, false), (1.0, false), (-1.0, false), (f64::NAN, false), (0.5, true)] {
            let mut check = Check::default();
            tail(ratio, REQUEST).check(&mut check, "tail");
            assert_eq!(check.violations.is_empty(), is_valid, "{ratio}");
        }
    }
}
