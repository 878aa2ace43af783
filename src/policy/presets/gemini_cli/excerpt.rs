//! Excerpts of pruned outputs: their beginning and their end.

use super::parameters::{Excerpt, Lines, Units};
use crate::model::truncation::Truncation;
use crate::policy::LengthUnit;
use crate::policy::tokens::length;
use crate::policy::truncate::{prefix, suffix};

impl Excerpt {
    /// The truncation of a tool's output. If nothing is omitted, it keeps the whole text.
    pub(in crate::policy) fn truncation(&self, unit: LengthUnit, tool: &str, text: &str) -> Truncation {
        let by_lines = self.lines.tools.iter().any(|name| name == tool);
        let kept = if by_lines { self.lines.kept(text) } else { self.units.kept(unit, text) };
        let (head, middle, tail) = kept.unwrap_or((text.len(), String::new(), 0));
        Truncation { before: self.before.clone(), head, middle, tail, after: self.after.clone() }
    }
}

impl Lines {
    /// Number of bytes kept at both ends and the text between them; none if the section is short. Of a section of
    /// blanks only the name stays.
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
        let (head, tail) = (self.head_lines as usize, self.tail_lines as usize);
        let omitted = (breaks.len() + 1).checked_sub(head + tail).filter(|omitted| *omitted > 0)?;
        let head_end = head.checked_sub(1).map_or(0, |last| breaks[last]);
        let tail_start = if tail == 0 { section.len() } else { breaks[breaks.len() - tail] + 1 };
        let marker = self.marker.replace("{omitted}", &omitted.to_string());
        Some((start + head_end, marker, text.len() - start - tail_start))
    }

    /// The byte offsets of the section's text and of the next section; none if the text has no sections.
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

/// The byte offsets of the first line that begins a section, and of the text after its name.
fn section_start(text: &str, name: &str) -> Option<(usize, usize)> {
    let label = format!("{name}: ");
    let at = text.match_indices(&label).map(|(at, _)| at);
    let line = at.into_iter().find(|&at| at == 0 || text[..at].ends_with('\n'))?;
    Some((line, line + label.len()))
}

impl Units {
    fn kept(&self, unit: LengthUnit, text: &str) -> Option<(usize, String, usize)> {
        let units = length(unit, text);
        if units <= self.above_units as usize {
            return None;
        }
        let (head, head_units) = prefix(unit, text, self.head_units as usize);
        let (tail, tail_units) = suffix(unit, text, (self.tail_units as usize).min(units - head_units));
        let omitted = units.saturating_sub(head_units + tail_units);
        Some((head.len(), self.marker.replace("{omitted}", &omitted.to_string()), tail.len()))
    }
}
