//! English stems: one form of a word for all of its endings.

use std::borrow::Cow;
use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;
use waken_snowball::{Algorithm, Stemmer};

/// The form by which a folded word is found whatever its ending and its accents; none for one that is that form itself,
/// or has other signs than Latin letters.
pub fn stem(word: &str) -> Option<String> {
    let plain: Cow<'_, str> = match word.is_ascii() {
        true => Cow::Borrowed(word),
        false => Cow::Owned(word.nfd().filter(|character| !is_combining_mark(*character)).collect()),
    };
    if plain.is_empty() || !plain.bytes().all(|byte| byte.is_ascii_lowercase()) {
        return None;
    }
    let stemmed = Stemmer::new(Algorithm::English).stem(&plain).into_owned();
    (stemmed != word && !stemmed.is_empty()).then_some(stemmed)
}
