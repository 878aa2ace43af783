//! Truncations: the shortened forms that a view shows of a text.

use super::Revision;
use super::ids::PartId;

/// The shortened form of a text in a view: some of its beginning, some of its end, and other text around and between
/// them.
///
/// A placeholder keeps nothing of the text, a head-and-tail truncation both ends, and a truncation with text after it
/// the beginning. One form serves them all, so that a mark records exactly the content of a view, whatever strategy
/// made it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Hash)]
pub struct Truncation {
    /// Text before the kept beginning.
    pub before: String,
    /// Bytes kept of the beginning, rounded down to whole characters.
    pub head: usize,
    /// Text between the two ends.
    pub middle: String,
    /// Bytes kept of the end, rounded down to whole characters.
    pub tail: usize,
    /// Text after the kept end.
    pub after: String,
}

impl Truncation {
    /// A placeholder: keeps nothing and shows another text.
    pub fn placeholder(words: impl Into<String>) -> Self {
        Self { before: words.into(), ..Self::default() }
    }

    /// True if nothing of the text is kept.
    pub fn keeps_nothing(&self) -> bool {
        self.head == 0 && self.tail == 0
    }

    /// The shortened text. The two ends never overlap: the kept end becomes shorter.
    pub fn apply(&self, text: &str) -> String {
        let head = text.floor_char_boundary(self.head.min(text.len()));
        let tail = text.ceil_char_boundary(text.len().saturating_sub(self.tail)).max(head);
        [self.before.as_str(), &text[..head], &self.middle, &text[tail..], &self.after].concat()
    }
}

/// The truncations and omissions of a compaction without a model.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Removals {
    /// Parts that are shortened, each once.
    pub parts: Vec<(PartId, Truncation)>,
    /// Omitted messages, by their revisions, ascending.
    pub omitted: Vec<Revision>,
}

impl Removals {
    /// True if nothing is shortened or omitted.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty() && self.omitted.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(head: usize, tail: usize, text: &str, expected: &str) {
        let truncation = Truncation { before: "<".into(), head, middle: "…".into(), tail, after: ">".into() };
        assert_eq!(truncation.apply(text), expected, "{head} and {tail} of {text:?}");
    }

    #[test]
    fn both_ends_stay_and_characters_stay_whole() {
        check(2, 2, "abcdef", "<ab…ef>");
        check(0, 0, "abcdef", "<…>");
        check(4, 4, "abcdef", "<abcd…ef>");
        check(99, 99, "abc", "<abc…>");
        check(4, 2, "日本語", "<日…>");
        check(3, 4, "日本語", "<日…語>");
    }

    #[test]
    fn a_placeholder_keeps_nothing() {
        let truncation = Truncation::placeholder("[gone]");
        assert!(truncation.keeps_nothing());
        assert_eq!(truncation.apply("anything"), "[gone]");
    }
}
