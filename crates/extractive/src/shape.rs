//! The shape of a text: written by a person or by a program, by its letters and lines, in any language.

use super::text::is_wide;

/// True for an output that is a text for people: the body of an issue, a page, the answer of another agent.
pub(super) fn is_prose(output: &str) -> bool {
    const LINES_MIN: usize = 4;
    const PROSE_PERCENT_MIN: usize = 60;
    let lines: Vec<&str> = output.lines().filter(|line| !line.trim().is_empty()).take(400).collect();
    let says = |line: &&&str| {
        let line = line.trim();
        let is_point =
            ["- ", "* ", "• ", "# ", "## "].iter().any(|mark| line.starts_with(mark)) || line.ends_with([':', '：']);
        let words =
            line.split_whitespace().filter(|word| word.chars().filter(|letter| letter.is_alphabetic()).count() > 1);
        is_point
            || !is_machine_made(line)
                && (words.count() >= 4 || line.chars().filter(|letter| is_wide(*letter)).count() > 8)
    };
    let said = lines.iter().filter(says).count();
    lines.len() >= LINES_MIN && 100 * said >= PROSE_PERCENT_MIN * lines.len()
}

/// True for a line of a log, of a table or of code: few letters, indented, or padded by a terminal.
pub(super) fn is_machine_made(line: &str) -> bool {
    const LETTERS_PERCENT_MIN: usize = 75;
    let all = line.trim().chars().count();
    let letters =
        line.trim().chars().filter(|letter| letter.is_alphabetic() || matches!(letter, ' ' | ',' | '.')).count();
    let is_indented = line.starts_with('\t') || line.starts_with("    ");
    let is_padded = line.ends_with("  ") || line.trim().contains("    ");
    100 * letters < LETTERS_PERCENT_MIN * all || is_indented || is_padded
}
