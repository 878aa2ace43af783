//! The comparison of answers: agreements, differences explained by a promise or a deviation, and unexplained ones.

use longhand::presets;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::fs;
use std::path::Path;

/// Maximum number of explained classes for one system; more would mean that the preset reproduces something else.
const CLASSES_MAX: usize = 9;
/// Maximum number of unexplained differences that are printed.
const SHOWN_MAX: usize = 3;
/// Maximum number of characters printed of a value.
const SHOWN_CHARACTERS: usize = 4_000;

/// Reason of a difference from an original: a promise that forces it, or a deviation that the preset names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(dead_code, reason = "the promises are a closed list; which of them a system needs is the system's business")]
pub(crate) enum Reason {
    /// Nothing is lost.
    P2,
    /// Compaction is atomic.
    P7,
    /// Every message is accounted for.
    P8,
    /// Views are valid model input.
    P9,
    /// Reads cost what they return.
    P11,
    /// Compaction makes progress or stops.
    P12,
    /// Views fit.
    P15,
    /// A truncation never leaves half a character.
    InvalidText,
    /// No promise, but a deviation that a preset names: some words of its text there.
    Named(&'static str),
}

impl fmt::Display for Reason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidText => out.write_str("invalid text"),
            Self::Named(_) => out.write_str("named deviation"),
            Self::P2 | Self::P7 | Self::P8 | Self::P9 | Self::P11 | Self::P12 | Self::P15 => fmt::Debug::fmt(self, out),
        }
    }
}

/// A class of explained differences.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Class {
    /// A few words, the same in every report.
    pub(crate) name: &'static str,
    /// Reason of the difference.
    pub(crate) reason: Reason,
    /// A sentence: the behaviour of the original, and ours.
    pub(crate) explanation: &'static str,
    /// The test of our behaviour: its file, relative to the root of the repository, and its name.
    pub(crate) test: (&'static str, &'static str),
}

/// The end of a system's check.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// All questions were asked.
    Complete,
    /// The packages are unavailable.
    Skipped(String),
    /// The packages, the peer or the harness do not work.
    Failed(String),
}

/// The report on one system.
#[derive(Debug)]
pub(crate) struct Report {
    system: &'static str,
    classes: &'static [Class],
    functions: BTreeMap<&'static str, Counts>,
    shown: Vec<String>,
    /// The end of the check.
    pub(crate) ending: Ending,
}

#[derive(Debug, Default, Clone)]
struct Counts {
    agreements: u64,
    /// Counts in the order of the system's classes.
    explained: Vec<u64>,
    unexplained: u64,
}

impl Counts {
    fn explained(&self) -> u64 {
        self.explained.iter().sum()
    }
}

impl Report {
    /// An empty report.
    pub(crate) fn new(system: &'static str, classes: &'static [Class]) -> Self {
        let ending = Ending::Failed("it was not started".to_owned());
        Self { system, classes, functions: BTreeMap::new(), shown: Vec::new(), ending }
    }

    /// Compares both answers to one question about the conversation with this index.
    ///
    /// Numbers are equal if their values are, objects in any order of their keys. An error of the peer is compared as
    /// `{"error": words}`. `explain` is called only if the two differ, with ours and theirs; it must examine the values
    /// and return the class only if the promise causes exactly this difference.
    pub(crate) fn compare(
        &mut self,
        function: &'static str,
        index: u64,
        input: &Value,
        ours: &Value,
        theirs: &Result<Value, String>,
        explain: impl FnOnce(&Value, &Value) -> Option<&'static Class>,
    ) {
        let theirs = match theirs {
            Ok(value) => value.clone(),
            Err(words) => json!({ "error": words }),
        };
        let empty = Counts { explained: vec![0; self.classes.len()], ..Counts::default() };
        let counts = self.functions.entry(function).or_insert(empty);
        if same(ours, &theirs) {
            counts.agreements += 1;
            return;
        }
        let class = explain(ours, &theirs).and_then(|class| self.classes.iter().position(|known| known == class));
        match class.and_then(|position| counts.explained.get_mut(position)) {
            Some(count) => *count += 1,
            None => {
                counts.unexplained += 1;
                if self.shown.len() < SHOWN_MAX {
                    self.shown.push(shown(function, index, [input, ours, &theirs]));
                }
            }
        }
    }

    /// The system's name.
    pub(crate) fn system(&self) -> &'static str {
        self.system
    }

    /// True if nothing was asked, because the packages were unavailable.
    pub(crate) fn is_skipped(&self) -> bool {
        matches!(self.ending, Ending::Skipped(_))
    }

    /// True if the check is complete, with no unexplained difference and no faulty class.
    pub(crate) fn is_conforming(&self) -> bool {
        match &self.ending {
            Ending::Skipped(_) | Ending::Failed(_) => false,
            Ending::Complete => {
                let asked = self.functions.values().any(|counts| counts.agreements > 0);
                asked && self.total(|counts| counts.unexplained) == 0 && problems(self.classes).is_empty()
            }
        }
    }

    fn total(&self, count: impl Fn(&Counts) -> u64) -> u64 {
        self.functions.values().map(count).sum()
    }

    fn verdict(&self) -> &'static str {
        match &self.ending {
            Ending::Skipped(_) => "SKIPPED",
            Ending::Failed(_) => "FAILED",
            Ending::Complete if self.is_conforming() => "conforms",
            Ending::Complete => "DIFFERS",
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.ending {
            Ending::Skipped(reason) => writeln!(out, "  SKIPPED, nothing was checked: {reason}")?,
            Ending::Failed(reason) => writeln!(out, "  FAILED: {reason}")?,
            Ending::Complete => {}
        }
        for (function, counts) in &self.functions {
            let Counts { agreements, unexplained, .. } = counts;
            let explained = counts.explained();
            writeln!(
                out,
                "  {function:<34} {agreements:>8} agree {explained:>7} explained {unexplained:>7} unexplained"
            )?;
        }
        for (position, class) in self.classes.iter().enumerate() {
            let count = self.total(|counts| counts.explained.get(position).copied().unwrap_or_default());
            let Class { name, reason, explanation, test: (file, test) } = class;
            writeln!(out, "  {count} x {name} ({reason}): {explanation}\n      tested by {test} in {file}")?;
        }
        self.shown.iter().try_for_each(|difference| writeln!(out, "{difference}"))?;
        problems(self.classes).iter().try_for_each(|problem| writeln!(out, "  FAILED: {problem}"))
    }
}

/// One line for each system.
pub(crate) fn summary(reports: &[Report]) -> String {
    let mut text = format!("{:<16} {:>9} {:>9} {:>11}  {}\n", "system", "agree", "explained", "unexplained", "verdict");
    for report in reports {
        let agreements = report.total(|counts| counts.agreements);
        let explained = report.total(Counts::explained);
        let unexplained = report.total(|counts| counts.unexplained);
        let verdict = report.verdict();
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{:<16} {agreements:>9} {explained:>9} {unexplained:>11}  {verdict}", report.system);
    }
    text
}

/// Faults in a system's classes themselves.
pub(crate) fn problems(classes: &[Class]) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let untested = classes.iter().filter_map(|class| {
        let (file, test) = class.test;
        let source = fs::read_to_string(root.join(file)).unwrap_or_default();
        let has_test = source.contains(&format!("fn {test}("));
        (!has_test).then(|| format!("{}: there is no test {test} in {file}", class.name))
    });
    let unnamed = classes.iter().filter_map(|class| match class.reason {
        Reason::Named(words) => {
            let is_named = presets::all().iter().any(|it| it.deviations().iter().any(|named| named.contains(words)));
            (!is_named).then(|| format!("{}: no preset names the deviation {words:?}", class.name))
        }
        _ => None,
    });
    let too_many = (classes.len() > CLASSES_MAX).then(|| format!("more than {CLASSES_MAX} classes of differences"));
    untested.chain(unnamed).chain(too_many).collect()
}

/// True if two values are equal, however their numbers are written.
fn same(ours: &Value, theirs: &Value) -> bool {
    match (ours, theirs) {
        (Value::Number(ours), Value::Number(theirs)) => ours == theirs || ours.as_f64() == theirs.as_f64(),
        (Value::Array(ours), Value::Array(theirs)) => {
            ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(ours, theirs)| same(ours, theirs))
        }
        (Value::Object(ours), Value::Object(theirs)) => {
            let in_theirs = |(key, value): (&String, &Value)| theirs.get(key).is_some_and(|other| same(value, other));
            ours.len() == theirs.len() && ours.iter().all(in_theirs)
        }
        _ => ours == theirs,
    }
}

/// The path of the first difference between two values, and both values there.
fn first_difference<'a>(path: String, ours: &'a Value, theirs: &'a Value) -> (String, &'a Value, &'a Value) {
    let inner = match (ours, theirs) {
        (Value::Array(left), Value::Array(right)) => {
            let mut shared = left.iter().zip(right).enumerate();
            let found = shared.find(|(_, (left, right))| !same(left, right));
            found.map(|(position, (left, right))| (format!("{path}[{position}]"), left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            let mut shared = left.iter().filter_map(|(key, value)| Some((key, value, right.get(key)?)));
            let found = shared.find(|(_, left, right)| !same(left, right));
            found.map(|(key, left, right)| (format!("{path}.{key}"), left, right))
        }
        _ => None,
    };
    match inner {
        Some((path, ours, theirs)) => first_difference(path, ours, theirs),
        None => (path, ours, theirs),
    }
}

/// A difference as text: its path, then input and answers, truncated.
fn shown(function: &str, index: u64, [input, ours, theirs]: [&Value; 3]) -> String {
    let (path, our_piece, their_piece) = first_difference(String::new(), ours, theirs);
    let [our_piece, their_piece, input, ours, theirs] = [our_piece, their_piece, input, ours, theirs].map(|value| {
        let text = value.to_string();
        match text.char_indices().nth(SHOWN_CHARACTERS) {
            Some((end, _)) => format!("{}… ({} bytes)", &text[..end], text.len()),
            None => text,
        }
    });
    let first = if path.is_empty() {
        String::new()
    } else {
        format!("\n    first at {path}: ours {our_piece}, theirs {their_piece}")
    };
    let whole = format!("    input  {input}\n    ours   {ours}\n    theirs {theirs}");
    format!("  UNEXPLAINED {function}, conversation {index}{first}\n{whole}")
}

#[cfg(test)]
mod tests {
    use super::*;

    static CLASSES: [Class; 1] = [Class {
        name: "shorter",
        reason: Reason::InvalidText,
        explanation: "The original keeps one more.",
        test: ("conformance/src/report.rs", "differences_are_counted_by_class"),
    }];

    fn complete() -> Report {
        let mut report = Report::new("x", &CLASSES);
        report.ending = Ending::Complete;
        report
    }

    #[test]
    fn differences_are_counted_by_class() {
        let mut report = complete();
        let explain = |ours: &Value, theirs: &Value| (ours.as_i64() < theirs.as_i64()).then_some(&CLASSES[0]);
        for (ours, theirs) in
            [(json!(1), json!(1.0)), (json!(1), json!(2)), (json!({"a": 1, "b": []}), json!({"b": [], "a": 1}))]
        {
            report.compare("f", 7, &json!("in"), &ours, &Ok(theirs), explain);
        }
        assert!(report.is_conforming());
        let counts = &report.functions["f"];
        assert_eq!((counts.agreements, counts.explained(), counts.unexplained), (2, 1, 0));
        report.compare("f", 8, &json!("in"), &json!(3), &Ok(json!(2)), explain);
        report.compare("f", 9, &json!("in"), &json!(3), &Err("no".to_owned()), explain);
        assert!(!report.is_conforming());
        let text = report.to_string();
        for words in ["1 x shorter (invalid text)", "conversation 8", r#"theirs {"error":"no"}"#, "2 unexplained"] {
            assert!(text.contains(words), "{words} is not in\n{text}");
        }
        assert_eq!(report.verdict(), "DIFFERS");
    }

    #[test]
    fn the_first_difference_is_found_inside() {
        for (ours, theirs, expected) in [
            (json!({"a": [1, {"b": 2}]}), json!({"a": [1.0, {"b": 3}]}), (".a[1].b", json!(2), json!(3))),
            (json!([1, 2]), json!([1]), ("", json!([1, 2]), json!([1]))),
            (json!({"a": 1, "b": 1}), json!({"a": 1}), ("", json!({"a": 1, "b": 1}), json!({"a": 1}))),
        ] {
            let (path, left, right) = first_difference(String::new(), &ours, &theirs);
            assert_eq!((path.as_str(), left.clone(), right.clone()), expected);
        }
    }

    #[test]
    fn only_what_was_asked_and_agrees_conforms() {
        let mut report = complete();
        assert!(!report.is_conforming(), "nothing was asked");
        report.compare("f", 0, &Value::Null, &json!(1), &Ok(json!(1)), |_, _| None);
        assert!(report.is_conforming());
        report.ending = Ending::Failed("it ended".to_owned());
        assert!(!report.is_conforming());
        assert!(!report.is_skipped());
        report.ending = Ending::Skipped("no network".to_owned());
        assert!(!report.is_conforming() && report.is_skipped());
        assert!(summary(&[report]).contains("SKIPPED"));
    }

    #[test]
    fn explanations_need_tests_and_are_few() {
        assert_eq!(problems(&CLASSES), Vec::<String>::new());
        let class = |test| Class { name: "n", reason: Reason::P9, explanation: "", test };
        let unnamed = Class { reason: Reason::Named("no preset says so"), ..class(CLASSES[0].test) };
        assert_eq!(problems(&[unnamed]).len(), 1);
        let untested = problems(&[class(("conformance/src/report.rs", "no_such_test")), class(("none.rs", "f"))]);
        assert_eq!(untested.len(), 2);
        let many: Vec<Class> = (0..10).map(|_| class(CLASSES[0].test)).collect();
        assert_eq!(problems(&many), ["more than 9 classes of differences"]);
    }
}
