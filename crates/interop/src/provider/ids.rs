//! The ids of calls as a format allows them: of its letters, no longer than it takes, and each once in a request.

use super::format::Format;
use std::collections::{HashMap, HashSet};

/// Ids of calls that are in a request so far.
#[derive(Debug, Default)]
pub(super) struct Ids {
    used: HashSet<String>,
    /// How often each id was changed: many agents begin to count anew with every reply.
    changed: HashMap<String, usize>,
}

impl Ids {
    /// The id of the next call. It follows from the calls before it alone, so that a view that goes on keeps its ids. `own` is
    /// true for an id that the format's provider made.
    pub(super) fn call(&mut self, format: Format, id: &str, own: bool) -> String {
        let mut chosen = id.to_owned();
        if self.used.contains(id) || !(own || is_allowed(format, id)) {
            let number = self.changed.entry(id.to_owned()).or_default();
            loop {
                *number += 1;
                chosen = changed(format, id, *number);
                if !self.used.contains(&chosen) {
                    break;
                }
            }
        }
        self.used.insert(chosen.clone());
        chosen
    }
}

/// Most letters of an id.
fn length_max(format: Format) -> usize {
    match format {
        Format::OpenAiChat => 40,
        Format::OpenAiResponses | Format::Anthropic => 64,
        Format::Gemini | Format::AiSdk => usize::MAX,
    }
}

fn is_allowed(format: Format, id: &str) -> bool {
    let letters = match format {
        Format::Anthropic => id.bytes().all(is_plain),
        Format::OpenAiChat | Format::OpenAiResponses | Format::Gemini | Format::AiSdk => true,
    };
    letters && id.len() <= length_max(format)
}

fn is_plain(letter: u8) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, b'_' | b'-')
}

/// Letters of the original that a changed id keeps.
const KEPT: usize = 24;

fn changed(format: Format, id: &str, number: usize) -> String {
    let keeps = id.chars().take(KEPT).map(|letter| match u8::try_from(letter) {
        Ok(byte) if is_plain(byte) => letter,
        _ => '_',
    });
    let kept: String = keeps.collect();
    let hash = fnv(id.bytes().chain(number.to_le_bytes()).chain(format.name().bytes()));
    format!("{kept}_{hash:08x}")
}

/// A hash that is the same in every build: the low half of FNV-1a.
fn fnv(bytes: impl Iterator<Item = u8>) -> u32 {
    let hash = bytes
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    (hash & u64::from(u32::MAX)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_kept_where_it_can_be() {
        let mut ids = Ids::default();
        assert_eq!(ids.call(Format::Anthropic, "toolu_1", false), "toolu_1");
        let again = ids.call(Format::Anthropic, "toolu_1", false);
        assert!(again.starts_with("toolu_1_") && again != ids.call(Format::Anthropic, "toolu_1", false));
        let changed = ids.call(Format::Anthropic, "call|fc.ü", false);
        assert!(changed.starts_with("call_fc___") && changed.bytes().all(is_plain), "{changed}");
        assert_eq!(Ids::default().call(Format::Gemini, "call|fc.ü", false), "call|fc.ü");
    }

    #[test]
    fn a_long_id_fits_and_differs_from_others() {
        let (one, other) = ("x".repeat(200), format!("{}y", "x".repeat(199)));
        let mut ids = Ids::default();
        let (one, other) = (ids.call(Format::OpenAiChat, &one, false), ids.call(Format::OpenAiChat, &other, false));
        assert!(one.len() <= 40 && one != other);
        let own = "x".repeat(64);
        assert_eq!(ids.call(Format::OpenAiChat, &own, true), own);
    }
}
