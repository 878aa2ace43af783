//! Which number of a refusal is the model's window, beside the plainest ways to choose one.

use super::super::{Kind, ProviderError, kind, window_tokens};
use super::figures::{Wording, public, wordings};
use regex::Regex;

/// Windows that public refusals name, by the number of the refusal.
const PUBLIC: [(usize, i64); 45] = [
    (1, 200_000),
    (2, 200_000),
    (5, 1_048_576),
    (7, 128_000),
    (8, 4_096),
    (10, 1_048_576),
    (11, 32_768),
    (12, 1_048_576),
    (15, 8_192),
    (16, 32_768),
    (17, 2_048),
    (18, 4_081),
    (22, 4_097),
    (23, 32_767),
    (24, 131_072),
    (25, 262_144),
    (29, 10_000_000),
    (31, 8_192),
    (32, 204_658),
    (34, 200_000),
    (35, 40_960),
    (36, 40_960),
    (38, 128_000),
    (39, 128_000),
    (40, 131_072),
    (41, 256_000),
    (42, 59_862),
    (43, 32_768),
    (44, 32_768),
    (45, 4_096),
    (46, 4_096),
    (47, 32_768),
    (49, 32_768),
    (50, 8_192),
    (53, 32_768),
    (54, 7_424),
    (57, 4_096),
    (59, 32_768),
    (61, 4_096),
    (62, 1_024),
    (63, 2_048),
    (64, 196_608),
    (70, 2_048),
    (71, 196_608),
    (72, 4_096),
];

/// The numbers of a text with their places.
fn numbers(text: &str) -> Vec<(usize, i64)> {
    let number = Regex::new(r"\d{1,3}(?:,\d{3})+|\d+").expect("a pattern");
    let value = |text: &str| text.replace(',', "").parse().ok();
    number.find_iter(text).filter_map(|found| Some((found.start(), value(found.as_str())?))).collect()
}

/// The rival: the first number behind "maximum".
fn behind_maximum(text: &str) -> Option<i64> {
    let at = text.to_lowercase().find("maximum")?;
    numbers(text).into_iter().find(|(start, _)| *start > at).map(|(_, number)| number)
}

/// The rival: the smallest number above 1 000.
fn smallest(text: &str) -> Option<i64> {
    numbers(text).into_iter().map(|(_, number)| number).filter(|number| *number > 1_000).min()
}

/// Answers of one way: windows that are named and found, those that are not found, and numbers that are no window.
#[derive(Debug, Default, PartialEq, Eq)]
struct Answers {
    right: usize,
    missed: usize,
    wrong: usize,
}

impl Answers {
    fn add(&mut self, window: Option<i64>, said: Option<i64>) {
        let count = match said {
            Some(_) if said == window => &mut self.right,
            Some(_) => &mut self.wrong,
            None if window.is_some() => &mut self.missed,
            None => return,
        };
        *count += 1;
    }
}

/// Prints the answers of the three ways, each of which only looks at refusals that are too long.
fn compare(name: &str, wordings: &[Wording]) {
    let mut ways = ["read", "behind maximum", "smallest"].map(|way| (way, Answers::default()));
    for wording in wordings {
        let error = ProviderError {
            status: wording.status,
            code: wording.code.as_deref().unwrap_or(""),
            message: &wording.text,
        };
        let is_too_long = kind(&error) == Some(Kind::TooLong);
        let of = |number: fn(&str) -> Option<i64>| if is_too_long { number(&wording.text) } else { None };
        let said = [window_tokens(&error), of(behind_maximum), of(smallest)];
        if said[0] != wording.window {
            println!("{name}: {:?} was read as {:?}: {}", wording.window, said[0], wording.text);
        }
        ways.iter_mut().zip(said).for_each(|((_, answers), said)| answers.add(wording.window, said));
    }
    for (way, answers) in &ways {
        println!("{name}, {way}: {answers:?}");
    }
    let [(_, ours), rivals @ ..] = &ways;
    for (way, rival) in rivals {
        assert!(ours.right >= rival.right && ours.wrong <= rival.wrong, "{name}, {way}: {ours:?} {rival:?}");
    }
    assert!(10 * ours.right >= 9 * (ours.right + ours.missed + ours.wrong), "{name}: {ours:?}");
    assert!(10 * ours.wrong <= ours.right, "{name}: {ours:?}");
}

/// The rules for windows were written with all of these in sight; what is held back was so for the kinds alone.
#[test]
fn windows_of_wordings_are_read_better_than_by_their_place_or_size() {
    let (held_back, known) = wordings().into_iter().partition::<Vec<_>, _>(|wording| wording.held_back);
    compare("known", &known);
    compare("held back", &held_back);
}

#[test]
fn windows_of_public_refusals_are_read_better_than_by_their_place_or_size() {
    let Some(mut refusals) = public() else { return };
    for (at, window) in PUBLIC {
        refusals[at].window = Some(window);
    }
    compare("public", &refusals);
}
