//! Excerpts of pruned outputs: their beginning and their end, by lines for the output of programs, by units for all
//! others. A short output stays whole.

use super::parameters::Excerpt;
use crate::model::ids::PartId;
use crate::model::truncation::Truncation;
use crate::policy::LengthUnit;
use crate::policy::strategy::{ExcerptStrategy, Parameters};
use crate::policy::tokens::length;
use crate::policy::truncate::{prefix, suffix};

/// Text before an excerpt.
const BEFORE: &str = "<tool_output_masked>\n";
/// The tool that runs programs. Its output has sections, each of which begins with its name and a colon.
const SHELL: &str = "run_shell_command";
/// The section of a program's output that is truncated. An output without sections is truncated as a whole.
const SECTION: &str = "Output";
/// The other sections, which stay whole.
const OTHER_SECTIONS: [&str; 5] = ["Error", "Exit Code", "Signal", "Background PIDs", "Process Group PGID"];
/// Number of lines kept at each end of a program's output.
const END_LINES: usize = 10;
/// Maximum length of another output that stays whole, in the policy's unit.
const WHOLE_UNITS: usize = 500;
/// Number of units kept at each end of another output.
const END_UNITS: usize = 250;
/// Text between both ends of another output.
const UNITS_MARKER: &str = "\n... [TRUNCATED] ...\n";

impl Parameters for Excerpt {
    const NAME: &'static str = "excerpt";
}

impl ExcerptStrategy for Excerpt {
    fn truncation(&self, unit: LengthUnit, tool: &str, part: PartId, output: &str) -> Truncation {
        truncation(unit, tool, part, output)
    }
}

/// The truncation of a tool's output. If nothing is omitted, it keeps the whole text.
fn truncation(unit: LengthUnit, tool: &str, part: PartId, text: &str) -> Truncation {
    let kept = if tool == SHELL { lines_kept(text) } else { units_kept(unit, text) };
    let (head, middle, tail) = kept.unwrap_or((text.len(), String::new(), 0));
    let after = format!("\n\nOutput too large. Full output available at: {part}\n</tool_output_masked>");
    Truncation { before: BEFORE.to_owned(), head, middle, tail, after }
}

/// Number of bytes kept at both ends and the text between them; none if the section is short. Of a section of blanks
/// only the name stays.
fn lines_kept(text: &str) -> Option<(usize, String, usize)> {
    let (start, end) = match section(text) {
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
    let omitted = (breaks.len() + 1).checked_sub(2 * END_LINES).filter(|omitted| *omitted > 0)?;
    let head_end = breaks[END_LINES - 1];
    let tail_start = breaks[breaks.len() - END_LINES] + 1;
    let marker = format!("\n\n... [{omitted} lines omitted] ...\n\n");
    Some((start + head_end, marker, text.len() - start - tail_start))
}

/// The byte offsets of the section's text and of the next section; none if the text has no sections.
fn section(text: &str) -> Option<(usize, usize)> {
    let begins = section_start(text, SECTION);
    if begins.is_none() && OTHER_SECTIONS.iter().all(|name| section_start(text, name).is_none()) {
        return None;
    }
    let start = begins.map_or(0, |(_, words)| words);
    let rest = &text[start..];
    let ends = OTHER_SECTIONS.iter().filter_map(|name| section_start(rest, name));
    Some((start, ends.map(|(line, _)| start + line).min().unwrap_or(text.len())))
}

/// The byte offsets of the first line that begins a section, and of the text after its name.
fn section_start(text: &str, name: &str) -> Option<(usize, usize)> {
    let label = format!("{name}: ");
    let at = text.match_indices(&label).map(|(at, _)| at);
    let line = at.into_iter().find(|&at| at == 0 || text[..at].ends_with('\n'))?;
    Some((line, line + label.len()))
}

fn units_kept(unit: LengthUnit, text: &str) -> Option<(usize, String, usize)> {
    let units = length(unit, text);
    if units <= WHOLE_UNITS {
        return None;
    }
    let (head, head_units) = prefix(unit, text, END_UNITS);
    let (tail, _) = suffix(unit, text, END_UNITS.min(units - head_units));
    Some((head.len(), UNITS_MARKER.to_owned(), tail.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    const AFTER: &str = "\n\nOutput too large. Full output available at: prt_00000000000000000000000000000007\n\
                         </tool_output_masked>";

    #[test]
    fn an_excerpt_keeps_both_ends() {
        let lines =
            |range: std::ops::RangeInclusive<u32>| range.map(|line| line.to_string()).collect::<Vec<_>>().join("\n");
        let cut = |omitted: u32, last: u32| {
            let tail = lines(last - 9..=last);
            format!("{}\n\n... [{omitted} lines omitted] ...\n\n{tail}", lines(1..=10))
        };
        let marked = |head: &str, tail: &str| format!("{head}{UNITS_MARKER}{tail}");
        let (x, face) = ("x".repeat(250), "😀".repeat(125));
        for (tool, text, expected) in [
            ("read", "x".repeat(500), "x".repeat(500)),
            ("read", format!("{x}y{x}"), marked(&x, &x)),
            ("read", String::new(), String::new()),
            ("read", format!("{face}😀{face}"), marked(&face, &face)),
            (SHELL, lines(1..=20), lines(1..=20)),
            (SHELL, lines(1..=21), cut(1, 21)),
            (
                SHELL,
                format!("Command: x\nOutput: {}\nError: (none)\nExit Code: 0", lines(1..=30)),
                format!("Command: x\nOutput: {}\nError: (none)\nExit Code: 0", cut(10, 30)),
            ),
            (SHELL, format!("Error: no\nOutput: {}", lines(1..=30)), format!("Error: no\nOutput: {}", cut(10, 30))),
            (SHELL, "Output: \n \n\nError: no".to_owned(), "Output: \nError: no".to_owned()),
            (SHELL, format!("Exit Code: 0{}", "\n".repeat(30)), format!("Exit Code: 0{}", "\n".repeat(30))),
        ] {
            let truncation = truncation(LengthUnit::Utf16, tool, PartId(Uuid::from_u128(7)), &text);
            assert_eq!(truncation.apply(&text), format!("{BEFORE}{expected}{AFTER}"), "{tool} {text:?}");
        }
    }
}
