//! Cuts: how a view shortens a text without losing it.

use super::Revision;
use super::ids::PartId;

/// What a view shows of a text: some of its beginning, some of its end, and words around and between them.
///
/// A placeholder keeps nothing of the text; a head-and-tail cut keeps both ends; a cut in front of words keeps the
/// beginning. One form serves them all, so that a mark can say exactly what a view shows, whatever strategy made it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Hash)]
pub struct Cut {
    /// Words in front.
    pub before: String,
    /// Bytes kept of the beginning. A number inside of a character means the whole characters before it.
    pub head: usize,
    /// Words between the two ends.
    pub middle: String,
    /// Bytes kept of the end. A number inside of a character means the whole characters behind it.
    pub tail: usize,
    /// Words behind.
    pub after: String,
}

impl Cut {
    /// A cut that keeps nothing and shows other words.
    pub fn placeholder(words: impl Into<String>) -> Self {
        Self { before: words.into(), ..Self::default() }
    }

    /// Whether nothing of the text is kept.
    pub fn keeps_nothing(&self) -> bool {
        self.head == 0 && self.tail == 0
    }

    /// What a view shows of the text. The two ends never overlap: the end yields.
    pub fn apply(&self, text: &str) -> String {
        let head = text.floor_char_boundary(self.head.min(text.len()));
        let tail = text.ceil_char_boundary(text.len().saturating_sub(self.tail)).max(head);
        [self.before.as_str(), &text[..head], &self.middle, &text[tail..], &self.after].concat()
    }
}

/// What a reduction without a model takes out of a view.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cuts {
    /// Parts that are shortened, each once.
    pub parts: Vec<(PartId, Cut)>,
    /// Messages that are left out whole, by their revisions, ascending.
    pub omitted: Vec<Revision>,
}

impl Cuts {
    /// Whether nothing is taken out.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty() && self.omitted.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(head: usize, tail: usize, text: &str, expected: &str) {
        let cut = Cut { before: "<".into(), head, middle: "…".into(), tail, after: ">".into() };
        assert_eq!(cut.apply(text), expected, "{head} and {tail} of {text:?}");
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
        let cut = Cut::placeholder("[gone]");
        assert!(cut.keeps_nothing());
        assert_eq!(cut.apply("anything"), "[gone]");
    }
}
