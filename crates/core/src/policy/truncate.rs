//! Truncation of long texts.

use super::tokens::units::length;
use super::{LengthUnit, Truncate};
use crate::model::truncation::Truncation;

/// Placeholder in a marker text for the number of omitted units.
pub(super) const OMITTED: &str = "{omitted}";

/// A truncation, with its number of omitted units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeasuredTruncation {
    /// The truncation.
    pub truncation: Truncation,
    /// Number of omitted units.
    pub omitted: i64,
}

/// The truncation that brings a text within the limits; none if it is short enough.
///
/// A character is never split, so slightly more than required may be omitted: at each end at most one UTF-16 unit, or
/// three bytes. The marker has the actual number.
pub fn truncated(rule: &Truncate, unit: LengthUnit, text: &str) -> Option<MeasuredTruncation> {
    let kept = kept_ends(rule, unit, text);
    let (head, tail) = kept.filter(|(head, tail)| head + tail < text.len())?;
    let omitted = length(unit, &text[head..text.len() - tail]) as i64;
    let marker = rule.marker.replace(OMITTED, &omitted.to_string()).replace("{max}", &rule.max_units.to_string());
    let truncation = Truncation { head, middle: marker, tail, ..Truncation::default() };
    Some(MeasuredTruncation { truncation, omitted })
}

/// The bytes kept at both ends; none if no limit is exceeded.
fn kept_ends(rule: &Truncate, unit: LengthUnit, text: &str) -> Option<(usize, usize)> {
    let by_lines = lines_kept(rule, text);
    let by_units = extent_kept(rule, unit, rule.max_units, text);
    let by_bytes = extent_kept(rule, LengthUnit::Bytes, rule.max_bytes, text);
    let limits = [by_lines, by_units, by_bytes].into_iter().flatten();
    limits.reduce(|least, next| (least.0.min(next.0), least.1.min(next.1)))
}

fn extent_kept(rule: &Truncate, unit: LengthUnit, max: u32, text: &str) -> Option<(usize, usize)> {
    let max = max as usize;
    // A text has at least as many bytes as units of any kind, so most short texts need no counting.
    if max == 0 || text.len() <= max || length(unit, text) <= max {
        return None;
    }
    let head = part_of(max, rule.head_ratio);
    Some((prefix(unit, text, head).0.len(), suffix(unit, text, max - head).0.len()))
}

fn lines_kept(rule: &Truncate, text: &str) -> Option<(usize, usize)> {
    let max = rule.max_lines as usize;
    let ends: Vec<usize> = text.match_indices('\n').map(|(index, _)| index).collect();
    if max == 0 || ends.len() < max {
        return None;
    }
    let head = part_of(max, rule.head_ratio);
    let tail = max - head;
    let head_end = head.checked_sub(1).map_or(0, |last| ends.get(last).copied().unwrap_or(text.len()));
    let tail_start = if tail == 0 { text.len() } else { ends[ends.len() - tail] + 1 };
    Some((head_end, text.len() - tail_start))
}

/// The share of a number that belongs to the beginning, rounded down.
fn part_of(max: usize, share: f64) -> usize {
    ((max as f64 * share.clamp(0.0, 1.0)) as usize).min(max)
}

/// The longest start of the text with at most `max` units, and its number of units.
pub fn prefix(unit: LengthUnit, text: &str, max: usize) -> (&str, usize) {
    let mut units = 0;
    for (index, character) in text.char_indices() {
        let next = units + unit_count(unit, character);
        if next > max {
            return (&text[..index], units);
        }
        units = next;
    }
    (text, units)
}

/// The longest end of the text with at most `max` units, and its number of units.
pub fn suffix(unit: LengthUnit, text: &str, max: usize) -> (&str, usize) {
    let mut units = 0;
    for (index, character) in text.char_indices().rev() {
        let next = units + unit_count(unit, character);
        if next > max {
            return (&text[index + character.len_utf8()..], units);
        }
        units = next;
    }
    (text, units)
}

/// The number of units of one character.
fn unit_count(unit: LengthUnit, character: char) -> usize {
    match unit {
        LengthUnit::Utf16 => character.len_utf16(),
        LengthUnit::CodePoints => 1,
        LengthUnit::Bytes => character.len_utf8(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply(rule: &Truncate, unit: LengthUnit, text: &str) -> Option<(String, i64)> {
        truncated(rule, unit, text).map(|truncated| (truncated.truncation.apply(text), truncated.omitted))
    }

    fn check(unit: LengthUnit, max_units: u32, text: &str, expected: Option<(&str, i64)>) {
        let actual = apply(&Truncate::head(max_units, "[-{omitted}]"), unit, text);
        assert_eq!(actual, expected.map(|(text, omitted)| (text.to_owned(), omitted)), "{text:?} at {max_units}");
    }

    #[test]
    fn a_text_within_the_limit_is_left_alone() {
        check(LengthUnit::Utf16, 5, "12345", None);
        check(LengthUnit::Utf16, 5, "", None);
        check(LengthUnit::CodePoints, 2, "日本", None);
    }

    #[test]
    fn zero_disables_truncation() {
        check(LengthUnit::Utf16, 0, "a long text", None);
    }

    #[test]
    fn the_marker_says_how_much_is_left_out() {
        check(LengthUnit::Utf16, 4, "1234567", Some(("1234[-3]", 3)));
        check(LengthUnit::CodePoints, 1, "日本語", Some(("日[-2]", 2)));
        check(LengthUnit::Bytes, 3, "日本語", Some(("日[-6]", 6)));
    }

    #[test]
    fn a_character_is_never_split() {
        check(LengthUnit::Utf16, 2, "a😀b", Some(("a[-3]", 3)));
        check(LengthUnit::Utf16, 3, "a😀b", Some(("a😀[-1]", 1)));
        check(LengthUnit::Bytes, 2, "é€", Some(("é[-3]", 3)));
        check(LengthUnit::Bytes, 2, "€", Some(("[-3]", 3)));
    }

    fn rule(max_units: u32, max_lines: u32, max_bytes: u32, head_ratio: f64) -> Truncate {
        Truncate { max_lines, max_bytes, head_ratio, ..Truncate::head(max_units, "|") }
    }

    #[test]
    fn both_ends_can_be_kept() {
        for (rule, text, expected) in [
            (rule(4, 0, 0, 0.5), "abcdefg", Some("ab|fg")),
            (rule(5, 0, 0, 0.5), "abcdefg", Some("ab|efg")),
            (rule(4, 0, 0, 0.0), "abcdefg", Some("|defg")),
            (rule(7, 0, 0, 0.5), "abcdefg", None),
            (rule(3, 0, 0, 0.5), "😀😀😀", Some("|😀")),
        ] {
            let actual = apply(&rule, LengthUnit::Utf16, text).map(|(text, _)| text);
            assert_eq!(actual.as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn lines_and_bytes_are_limits_too_and_the_tightest_wins() {
        for (rule, text, expected) in [
            (rule(0, 2, 0, 1.0), "a\nb\nc\nd", Some("a\nb|")),
            (rule(0, 4, 0, 1.0), "a\nb\nc\nd", None),
            (rule(0, 2, 0, 0.5), "a\nb\nc\nd", Some("a|d")),
            (rule(0, 2, 3, 1.0), "aaaa\nb\nc\nd", Some("aaa|")),
            (rule(0, 1, 0, 1.0), "one line", None),
        ] {
            let actual = apply(&rule, LengthUnit::Utf16, text).map(|(text, _)| text);
            assert_eq!(actual.as_deref(), expected, "{text}");
        }
    }
}
