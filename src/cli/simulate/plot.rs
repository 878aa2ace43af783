//! A simulation as an SVG drawing: context usage over the conversation, with a line for each preset.

use super::report::SimulationReport;
use crate::model::compaction::CompactionKind;
use crate::simulation::{Outcome, Point, SimulatedCompaction};
use std::fmt::Write;

const WIDTH: f64 = 1_000.0;
/// Drawing area of the lines: left, right, top and bottom edge.
const LEFT: f64 = 76.0;
const RIGHT: f64 = 980.0;
const TOP: f64 = 64.0;
const BOTTOM: f64 = 470.0;
/// Range of the vertical axis, as a factor of the highest context usage.
const HEADROOM: f64 = 1.06;
/// Maximum number of ticks on an axis.
const TICKS_MAX: i64 = 8;
/// Top of the legend, height of its rows, and number of its columns.
const LEGEND_TOP: f64 = 562.0;
const LEGEND_ROW: f64 = 20.0;
const LEGEND_COLUMNS: usize = 3;

/// Colours that people with any colour vision can tell apart (Okabe and Ito's, without the yellow).
const COLOURS: [&str; 7] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"];
/// Lines of the same colour differ by their dashes.
const DASHES: [&str; 4] = ["none", "7 3", "2 3", "9 3 2 3"];

/// The drawing, as an SVG document.
pub(super) fn svg(report: &SimulationReport) -> String {
    let scale = Scale::fit(report);
    let rows = report.outcomes.len().div_ceil(LEGEND_COLUMNS).max(1);
    let height = LEGEND_TOP + rows as f64 * LEGEND_ROW + 12.0;
    let mut svg = String::new();
    push(
        &mut svg,
        format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
         height=\"{height}\" font-family=\"system-ui, sans-serif\" font-size=\"13\" fill=\"#222\">\n\
         <title>{title}</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"{LEFT}\" y=\"28\" font-size=\"17\" font-weight=\"600\">{title}</text>\n\
         <text x=\"{LEFT}\" y=\"48\" fill=\"#666\">a point for each compaction: round for a summary, square for a prune, \
         a diamond for an omission, a cross where none freed enough</text>",
            title = escape_text(&format!("{}: tokens in the context", report.file)),
        ),
    );
    grid(&mut svg, &scale);
    window(&mut svg, &scale, report.window.context);
    for (index, (preset, outcome)) in report.outcomes.iter().enumerate() {
        line(&mut svg, &scale, index, preset, outcome);
    }
    legend(&mut svg, report);
    svg.push_str("</svg>\n");
    svg
}

/// Adds a line.
fn push(svg: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = writeln!(svg, "{line}");
}

/// Mapping from messages and tokens to coordinates.
struct Scale {
    messages: i64,
    tokens: i64,
}

impl Scale {
    fn fit(report: &SimulationReport) -> Self {
        let highest = report.outcomes.iter().map(|(_, outcome)| outcome.highest_tokens()).max().unwrap_or_default();
        let tokens = (highest.max(1) as f64 * HEADROOM).ceil() as i64;
        Self { messages: i64::try_from(report.messages).unwrap_or(i64::MAX).max(1), tokens }
    }

    fn x(&self, message: i64) -> f64 {
        LEFT + (RIGHT - LEFT) * message as f64 / self.messages as f64
    }

    fn y(&self, tokens: i64) -> f64 {
        BOTTOM - (BOTTOM - TOP) * tokens as f64 / self.tokens as f64
    }

    fn point(&self, point: &Point) -> (f64, f64) {
        (self.x(i64::try_from(point.message).unwrap_or(i64::MAX)), self.y(point.tokens))
    }
}

fn grid(svg: &mut String, scale: &Scale) {
    for tokens in ticks(scale.tokens) {
        let y = scale.y(tokens);
        push(
            svg,
            format_args!(
                "<path d=\"M{LEFT} {y:.1}H{RIGHT}\" stroke=\"#e4e4e4\"/>\
             <text x=\"{x}\" y=\"{text:.1}\" text-anchor=\"end\">{}</text>",
                short(tokens),
                x = LEFT - 8.0,
                text = y + 4.0,
            ),
        );
    }
    for message in ticks(scale.messages) {
        let x = scale.x(message);
        push(
            svg,
            format_args!(
                "<path d=\"M{x:.1} {BOTTOM}v5\" stroke=\"#888\"/>\
             <text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{message}</text>",
                BOTTOM + 20.0,
            ),
        );
    }
    push(
        svg,
        format_args!(
            "<path d=\"M{LEFT} {TOP}V{BOTTOM}H{RIGHT}\" fill=\"none\" stroke=\"#888\"/>\
         <text x=\"{}\" y=\"{}\" text-anchor=\"middle\" fill=\"#666\">messages written</text>",
            f64::midpoint(LEFT, RIGHT),
            BOTTOM + 42.0,
        ),
    );
}

fn window(svg: &mut String, scale: &Scale, tokens: i64) {
    if tokens <= scale.tokens {
        let y = scale.y(tokens);
        push(
            svg,
            format_args!(
                "<path d=\"M{LEFT} {y:.1}H{RIGHT}\" stroke=\"#b00020\" stroke-dasharray=\"6 4\"/>\
             <text x=\"{RIGHT}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#b00020\">window: {}</text>",
                y - 5.0,
                short(tokens),
            ),
        );
    }
}

fn line(svg: &mut String, scale: &Scale, index: usize, preset: &str, outcome: &Outcome) {
    let (colour, dashes) = style(index);
    let points_drawn: Vec<(f64, f64)> = outcome.context_usage.iter().map(|point| scale.point(point)).collect();
    let points: Vec<String> = thin_points(&points_drawn).iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    push(
        svg,
        format_args!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.6\" stroke-dasharray=\"{dashes}\" \
         stroke-linejoin=\"round\"/>",
            points.join(" "),
        ),
    );
    for compaction in &outcome.simulated {
        mark(svg, scale, colour, preset, compaction);
    }
}

/// The points that are visible at this size: of those in one column, the first, the lowest, the highest and the last.
fn thin_points(points_drawn: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut points_kept = Vec::new();
    for column in points_drawn.chunk_by(|(before, _), (after, _)| before.floor() == after.floor()) {
        let by_height = |(_, one): &&(f64, f64), (_, other): &&(f64, f64)| one.total_cmp(other);
        let extremes = [column.iter().min_by(by_height), column.iter().max_by(by_height)];
        for (at, point_drawn) in column.iter().enumerate() {
            let is_extreme = extremes.iter().flatten().any(|extreme| std::ptr::eq(*extreme, point_drawn));
            if at == 0 || at + 1 == column.len() || is_extreme {
                points_kept.push(*point_drawn);
            }
        }
    }
    points_kept
}

/// Draws the symbol of a compaction, with a tooltip.
fn mark(svg: &mut String, scale: &Scale, colour: &str, preset: &str, compaction: &SimulatedCompaction) {
    let tokens = if compaction.refused { compaction.context_tokens } else { compaction.after_tokens };
    let (x, y) = scale.point(&Point { message: compaction.message, tokens });
    let (name, shape) = match (compaction.refused, compaction.kind) {
        (true, _) => ("refused", "m-4 -4 8 8m0 -8 -8 8"),
        (false, CompactionKind::Prune) => ("prune", "m-3 -3h6v6h-6z"),
        (false, CompactionKind::Omission) => ("omission", "m0 -4.5 4.5 4.5 -4.5 4.5 -4.5 -4.5z"),
        (false, CompactionKind::Summary) => ("summary", "m-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0 -7 0"),
    };
    let SimulatedCompaction { message, before_tokens, after_tokens, .. } = compaction;
    push(
        svg,
        format_args!(
            "<path d=\"M{x:.1} {y:.1}{shape}\" fill=\"{colour}\" stroke=\"{stroke}\"><title>{}: {name} after message \
         {message}, from {before_tokens} to {after_tokens} tokens</title></path>",
            escape_text(preset),
            stroke = if compaction.refused { colour } else { "#fff" },
        ),
    );
}

fn legend(svg: &mut String, report: &SimulationReport) {
    let heading = LEGEND_TOP - 22.0;
    push(svg, format_args!("<text x=\"{LEFT}\" y=\"{heading}\" fill=\"#666\">active compactions, by preset</text>"));
    for (index, (preset, outcome)) in report.outcomes.iter().enumerate() {
        let (colour, dashes) = style(index);
        let column = index % LEGEND_COLUMNS;
        let x = LEFT + column as f64 * (RIGHT - LEFT) / LEGEND_COLUMNS as f64;
        let y = LEGEND_TOP + (index / LEGEND_COLUMNS) as f64 * LEGEND_ROW;
        push(
            svg,
            format_args!(
                "<path d=\"M{x:.1} {line:.1}h28\" stroke=\"{colour}\" stroke-width=\"2.4\" stroke-dasharray=\"{dashes}\"/>\
             <text x=\"{text:.1}\" y=\"{y:.1}\" font-size=\"12\">{}: {}</text>",
                escape_text(preset),
                outcome.compactions().count(),
                line = y - 4.0,
                text = x + 36.0,
            ),
        );
    }
}

fn style(index: usize) -> (&'static str, &'static str) {
    (COLOURS[index % COLOURS.len()], DASHES[index / COLOURS.len() % DASHES.len()])
}

/// Round numbers up to a limit, zero first.
fn ticks(limit: i64) -> impl Iterator<Item = i64> {
    let mut step = 1_i64;
    for factor in [2, 5, 10].into_iter().cycle() {
        if limit / step < TICKS_MAX {
            break;
        }
        let decade = 10_i64.saturating_pow(step.ilog10());
        step = decade.saturating_mul(factor);
    }
    (0..=limit).step_by(usize::try_from(step).unwrap_or(usize::MAX))
}

/// Short form of a token count, for an axis.
fn short(tokens: i64) -> String {
    match tokens {
        0..1_000 => tokens.to_string(),
        1_000..1_000_000 if tokens % 1_000 == 0 => format!("{}k", tokens / 1_000),
        1_000..1_000_000 => format!("{:.1}k", tokens as f64 / 1e3),
        _ => format!("{:.1}M", tokens as f64 / 1e6),
    }
}

fn escape_text(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            // XML cannot represent these.
            control if control.is_control() => escaped.push(' '),
            plain => escaped.push(plain),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::compaction::Level;
    use crate::model::usage::ModelWindow;

    fn report(file: &str, usages: &[&[(usize, i64)]]) -> SimulationReport {
        let outcome = |context_usage: &&[(usize, i64)]| {
            let context_usage: Vec<Point> =
                context_usage.iter().map(|&(message, tokens)| Point { message, tokens }).collect();
            let simulated = vec![SimulatedCompaction {
                message: 2,
                level: Some(Level::Auto),
                kind: CompactionKind::Summary,
                refused: false,
                context_tokens: 900,
                before_tokens: 900,
                after_tokens: 100,
                kept: 1,
                cleared: 0,
                summarized: 2,
                omitted: 0,
                reread_tokens: 100,
            }];
            ("a@1".to_owned(), Outcome { due_tokens: Some(800), simulated, context_usage })
        };
        let window = ModelWindow { context: 950, ..ModelWindow::default() };
        SimulationReport { file: file.to_owned(), messages: 3, window, outcomes: usages.iter().map(outcome).collect() }
    }

    /// True if the elements are properly nested and closed.
    fn is_well_formed(svg: &str) -> bool {
        let mut open = Vec::new();
        for tag in svg.split('<').skip(1) {
            let Some((tag, text)) = tag.split_once('>') else { return false };
            if text.contains('&') && !["&amp;", "&lt;", "&gt;", "&quot;"].iter().any(|entity| text.contains(entity)) {
                return false;
            }
            let name = tag.trim_end_matches('/').split(' ').next().unwrap_or_default();
            match (name.strip_prefix('/'), tag.ends_with('/')) {
                (Some(closed), _) if open.pop() != Some(closed) => return false,
                (None, false) => open.push(name),
                _ => {}
            }
        }
        open.is_empty()
    }

    #[test]
    fn a_drawing_has_a_line_and_a_point_for_each_preset() {
        let svg = svg(&report("a<b>&\"c\".jsonl", &[&[(1, 500), (2, 900), (2, 100), (3, 300)], &[]]));
        assert!(is_well_formed(&svg), "{svg}");
        assert_eq!(svg.matches("<polyline").count(), 2);
        assert_eq!(svg.matches("summary after message 2, from 900 to 100 tokens").count(), 2);
        assert!(svg.contains("a&lt;b&gt;&amp;&quot;c&quot;.jsonl: tokens in the context"));
        assert!(svg.contains("a@1: 1<") && svg.contains("window: 950"));
        // A drop is a vertical line: two points with the same x and different y.
        let scale = Scale { messages: 3, tokens: 954 };
        assert!(svg.contains(&format!("{:.1},{:.1} {:.1},{:.1}", scale.x(2), scale.y(900), scale.x(2), scale.y(100))));
    }

    #[test]
    fn an_empty_conversation_can_be_drawn() {
        let mut empty = report("empty.jsonl", &[&[]]);
        (empty.messages, empty.outcomes[0].1.simulated) = (0, Vec::new());
        let svg = svg(&empty);
        assert!(is_well_formed(&svg) && !svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }

    #[test]
    fn ticks_are_round_and_few() {
        for (limit, expected) in [
            (1, vec![0, 1]),
            (7, vec![0, 1, 2, 3, 4, 5, 6, 7]),
            (8, vec![0, 2, 4, 6, 8]),
            (30, vec![0, 5, 10, 15, 20, 25, 30]),
            (75, vec![0, 10, 20, 30, 40, 50, 60, 70]),
            (212_000, vec![0, 50_000, 100_000, 150_000, 200_000]),
        ] {
            assert_eq!(ticks(limit).collect::<Vec<_>>(), expected, "{limit}");
        }
        for (tokens, expected) in [(0, "0"), (999, "999"), (50_000, "50k"), (1_500, "1.5k"), (2_000_000, "2.0M")] {
            assert_eq!(short(tokens), expected);
        }
    }

    #[test]
    fn a_long_line_keeps_its_extremes() {
        let points_drawn: Vec<(f64, f64)> =
            (0..1_000).map(|at| (f64::from(at) / 100.0, f64::from((at * 37) % 91))).collect();
        let kept = thin_points(&points_drawn);
        assert!(kept.len() <= 40 && kept.len() >= 20, "{}", kept.len());
        let heights = |points_drawn: &[(f64, f64)]| {
            let of = points_drawn.iter().map(|(_, y)| *y);
            (of.clone().fold(f64::MAX, f64::min), of.fold(f64::MIN, f64::max))
        };
        assert_eq!(heights(&kept), heights(&points_drawn));
        assert_eq!((kept.first(), kept.last()), (points_drawn.first(), points_drawn.last()));
    }
}
