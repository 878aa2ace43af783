//! The beginning and the end of what is cleared.

use crate::model::cut::Cut;
use crate::policy::LengthUnit;
use crate::policy::tokens::length;
use crate::policy::truncate::{prefix, suffix};
use serde::{Deserialize, Serialize};

/// How an excerpt is made: by lines for outputs of some tools, by units for all others. What is short stays whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Excerpt {
    /// What stands in front of an excerpt; `{part}` becomes the id by which the original can be read.
    pub before: String,
    /// What stands behind it, with the same filled in.
    pub after: String,
    /// How outputs of programs are cut.
    pub lines: Lines,
    /// How other outputs are cut.
    pub units: Units,
}

/// An excerpt by lines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lines {
    /// The tools it is for.
    pub tools: Vec<String>,
    /// The section that is cut, which begins on a line of its own with this name and a colon; an output without it is
    /// cut as a whole.
    pub section: String,
    /// The names of the other sections, which stay whole.
    pub other_sections: Vec<String>,
    /// So many lines of the beginning stay.
    pub head: u32,
    /// So many lines of the end stay.
    pub tail: u32,
    /// What stands between them; `{omitted}` becomes the number of lines left out.
    pub marker: String,
}

/// An excerpt by units.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Units {
    /// A text no longer than this stays whole.
    pub above: u32,
    /// So many units of the beginning stay.
    pub head: u32,
    /// So many units of the end stay.
    pub tail: u32,
    /// What stands between them; `{omitted}` becomes the number of units left out.
    pub marker: String,
}

impl Excerpt {
    /// The cut of an output of a tool. One that leaves nothing out keeps the whole text.
    pub(super) fn cut(&self, unit: LengthUnit, tool: &str, text: &str) -> Cut {
        let by_lines = self.lines.tools.iter().any(|name| name == tool);
        let kept = if by_lines { self.lines.kept(text) } else { self.units.kept(unit, text) };
        let (head, middle, tail) = kept.unwrap_or((text.len(), String::new(), 0));
        Cut { before: self.before.clone(), head, middle, tail, after: self.after.clone() }
    }
}

impl Lines {
    /// The bytes kept of both ends and what stands between them; none when the section is short. Of a section of
    /// nothing but blanks only the name stays.
    fn kept(&self, text: &str) -> Option<(usize, String, usize)> {
        let (start, end) = match self.section(text) {
            None => (0, text.len()),
            Some((begin, behind)) => {
                let words = &text[begin..behind];
                if words.trim().is_empty() {
                    let end = behind - usize::from(words.ends_with('\n'));
                    return (end > begin).then(|| (begin, String::new(), text.len() - end));
                }
                (behind - words.trim_start().len(), begin + words.trim_end().len())
            }
        };
        let section = &text[start..end];
        let breaks: Vec<usize> = section.match_indices('\n').map(|(index, _)| index).collect();
        let (head, tail) = (self.head as usize, self.tail as usize);
        let omitted = (breaks.len() + 1).checked_sub(head + tail).filter(|omitted| *omitted > 0)?;
        let head_end = head.checked_sub(1).map_or(0, |last| breaks[last]);
        let tail_start = if tail == 0 { section.len() } else { breaks[breaks.len() - tail] + 1 };
        let marker = self.marker.replace("{omitted}", &omitted.to_string());
        Some((start + head_end, marker, text.len() - start - tail_start))
    }

    /// Where the words of the section begin, and where the next section does; none when the text has no sections.
    fn section(&self, text: &str) -> Option<(usize, usize)> {
        let begins = section_start(text, &self.section);
        if begins.is_none() && self.other_sections.iter().all(|name| section_start(text, name).is_none()) {
            return None;
        }
        let start = begins.map_or(0, |(_, words)| words);
        let rest = &text[start..];
        let ends = self.other_sections.iter().filter_map(|name| section_start(rest, name));
        Some((start, ends.map(|(line, _)| start + line).min().unwrap_or(text.len())))
    }
}

/// Where the first line that begins a section stands, and where the words behind its name do.
fn section_start(text: &str, name: &str) -> Option<(usize, usize)> {
    let label = format!("{name}: ");
    let at = text.match_indices(&label).map(|(at, _)| at);
    let line = at.into_iter().find(|&at| at == 0 || text[..at].ends_with('\n'))?;
    Some((line, line + label.len()))
}

impl Units {
    fn kept(&self, unit: LengthUnit, text: &str) -> Option<(usize, String, usize)> {
        let units = length(unit, text);
        if units <= self.above as usize {
            return None;
        }
        let (head, head_units) = prefix(unit, text, self.head as usize);
        let (tail, tail_units) = suffix(unit, text, (self.tail as usize).min(units - head_units));
        let omitted = units.saturating_sub(head_units + tail_units);
        Some((head.len(), self.marker.replace("{omitted}", &omitted.to_string()), tail.len()))
    }
}
