//! Cutting long outputs.

use super::tokens::length;
use super::{LengthUnit, Truncate};

/// What the marker text holds in place of the number of units left out.
pub(super) const OMITTED: &str = "{omitted}";

/// The text as every view shows it, and how many units that leaves out; none when the text is short enough.
///
/// A character is never split, so at most one unit more than the limit asks for is left out (two in bytes, and so on),
/// and the number given is the number really left out.
pub fn cut(truncate: &Truncate, unit: LengthUnit, text: &str) -> Option<(String, i64)> {
    let max = truncate.max_units as usize;
    // A text has at least as many bytes as units of any kind, so most short texts need no counting.
    if max == 0 || text.len() <= max {
        return None;
    }
    let total = length(unit, text);
    if total <= max {
        return None;
    }
    let (kept, kept_units) = prefix(unit, text, max);
    let omitted = total - kept_units;
    let marker = truncate.marker.replace(OMITTED, &omitted.to_string());
    Some((format!("{kept}{marker}"), omitted as i64))
}

/// The longest start of the text that has at most `max` units, and how many it has.
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

/// How many units one character has.
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

    fn check(unit: LengthUnit, max_units: u32, text: &str, expected: Option<(&str, i64)>) {
        let truncate = Truncate { max_units, marker: "[-{omitted}]".to_owned() };
        let actual = cut(&truncate, unit, text);
        assert_eq!(
            actual.as_ref().map(|(text, omitted)| (text.as_str(), *omitted)),
            expected,
            "{text:?} at {max_units}"
        );
    }

    #[test]
    fn a_text_within_the_limit_is_left_alone() {
        check(LengthUnit::Utf16, 5, "12345", None);
        check(LengthUnit::Utf16, 5, "", None);
        check(LengthUnit::CodePoints, 2, "日本", None);
    }

    #[test]
    fn zero_switches_the_cut_off() {
        check(LengthUnit::Utf16, 0, "a long text", None);
    }

    #[test]
    fn the_marker_tells_how_much_is_left_out() {
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
}
