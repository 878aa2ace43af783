//! Coverage: what a statement adds to what was said already, in the worth of its words.
//!
//! A word is worth more the fewer statements have it, and names and numbers more than other words. A word that was said
//! is worth a quarter when it is said again, so that a selection gains less from each further statement: it is
//! submodular, and a greedy one is near the best.

use super::text::is_wide;
use foldhash::{HashMap, HashSet};
use std::sync::LazyLock;

/// Worth of names, and of numbers, paths and identifiers of programs, relative to other words; the power of the rarity
/// of a word in its worth, and the factor of that for each time that it was said.
const NAME_WORTH: f64 = 1.5;
const VALUE_WORTH: f64 = 2.0;
const RARITY_POWER: f64 = 3.0;
const AGAIN: f64 = 0.25;

/// Maximum number of statements with a word that can show that one of them replaces another, minimum number of such
/// words, and their share of the worth of both on average, in percent.
const SHARED_BY_MAX: usize = 40;
const SHARED_WORDS_MIN: usize = 2;
const SHARED_PERCENT: f64 = 50.0;

/// Words of grammar in the languages that have most of them; any other common word is found by its frequency.
static COMMON: LazyLock<HashSet<&str>> = LazyLock::new(|| WORDS_OF_GRAMMAR.split(' ').collect());
const WORDS_OF_GRAMMAR: &str = "\
    a an the of to in on at for from with by and or but is are was were be been am it its this that these those i you \
    he she we they me my your his her our their him them us as so if then than not no do does did have has had will \
    would can could should just very really too also about into out up down over what which who when where how why \
    there here all some any more most one get got make made im thats let now der die das und ist nicht ein eine den \
    dem mit von zu auf für im le la les un une des et est que qui dans pour pas sur ne el los las y es en por con para";

/// The words of a text, as sorted numbers.
pub(super) type Terms = Vec<u32>;

/// The worth of words by their numbers, in how many texts each is, and how often it was said.
#[derive(Debug, Default)]
pub(super) struct Coverage {
    numbers: HashMap<String, u32>,
    worth: Vec<f64>,
    uses: Vec<usize>,
    said: Vec<u8>,
}

impl Coverage {
    /// The worth of the words of some texts, none said yet. One that is marked makes no word less rare.
    pub(super) fn from_texts<'a>(texts: impl Iterator<Item = (&'a str, bool)>) -> (Self, Vec<Terms>) {
        let mut coverage = Self::default();
        let mut all = Vec::new();
        let mut count = 1.0;
        for (text, repeats) in texts {
            let mut terms = Vec::new();
            each_word(text, |word, is_name| terms.push(coverage.number(word, is_name)));
            terms.sort_unstable();
            terms.dedup();
            if !repeats {
                count += 1.0;
                terms.iter().for_each(|term| coverage.uses[*term as usize] += 1);
            }
            all.push(terms);
        }
        for (worth, uses) in coverage.worth.iter_mut().zip(&coverage.uses) {
            *worth *= f64::ln(count / (*uses).max(1) as f64).powf(RARITY_POWER);
        }
        coverage.said = vec![0; coverage.worth.len()];
        (coverage, all)
    }

    /// The number of a word, with the worth of its form until the rarity of all is known.
    fn number(&mut self, word: &str, is_name: bool) -> u32 {
        let number = self.numbers.get(word).copied().unwrap_or_else(|| {
            let next = self.worth.len() as u32;
            let is_value = word.contains(|letter: char| "/_.".contains(letter) || letter.is_ascii_digit());
            self.numbers.insert(word.to_owned(), next);
            self.worth.push(if is_value { VALUE_WORTH } else { 1.0 });
            self.uses.push(0);
            next
        });
        if is_name {
            let known = &mut self.worth[number as usize];
            *known = known.max(NAME_WORTH);
        }
        number
    }

    /// The worth that a text would add, with a factor for words that no other text has.
    pub(super) fn gain(&self, terms: &[u32], single: f64) -> f64 {
        let factor = |term: usize| if self.uses[term] <= 1 { single } else { 1.0 };
        let left = |term: usize| AGAIN.powi(i32::from(self.said[term]));
        terms.iter().map(|term| *term as usize).map(|term| self.worth[term] * factor(term) * left(term)).sum()
    }

    pub(super) fn say(&mut self, terms: &[u32]) {
        for term in terms {
            let said = &mut self.said[*term as usize];
            *said = said.saturating_add(1);
        }
    }

    /// For each text, true if a later one is about the same thing: they share most rare words of both on average.
    pub(super) fn replaced(&self, texts: &[&Terms]) -> Vec<bool> {
        let mut places: Vec<Vec<usize>> = vec![Vec::new(); self.worth.len()];
        for (position, terms) in texts.iter().enumerate() {
            for term in *terms {
                if self.uses[*term as usize] <= SHARED_BY_MAX {
                    places[*term as usize].push(position);
                }
            }
        }
        // Here each word has its plain weight, lest the value that changed decides alone.
        let weight: Vec<f64> = self.worth.iter().map(|worth| worth.powf(1.0 / RARITY_POWER)).collect();
        let weight = |term: u32| weight[term as usize];
        let mass = |terms: &[u32]| terms.iter().map(|term| weight(*term)).sum::<f64>();
        let masses: Vec<f64> = texts.iter().map(|terms| mass(terms)).collect();
        // By text, with those that have anything: few of many.
        let (mut shared, mut sharing) = (vec![(0, 0.0); texts.len()], Vec::new());
        let is_replaced = |(position, terms): (usize, &&Terms)| {
            for term in terms.iter() {
                let later = &places[*term as usize];
                for place in &later[later.partition_point(|place| *place <= position)..] {
                    let (words, worth) = &mut shared[*place];
                    if *words == 0 {
                        sharing.push(*place);
                    }
                    (*words, *worth) = (*words + 1, *worth + weight(*term));
                }
            }
            sharing.drain(..).fold(false, |is_replaced, place| {
                let (words, worth) = std::mem::take(&mut shared[place]);
                let mass = f64::midpoint(masses[position], masses[place]);
                is_replaced || words >= SHARED_WORDS_MIN && mass > 0.0 && 100.0 * worth >= SHARED_PERCENT * mass
            })
        };
        texts.iter().enumerate().map(is_replaced).collect()
    }
}

/// Calls `take` with each word that is not mere grammar, in lower case: runs of letters and digits with the joints of
/// names between them, and pairs of letters of a script without spaces. With true for a name: a word with a capital
/// letter where no sentence begins.
fn each_word(text: &str, mut take: impl FnMut(&str, bool)) {
    let mut word = String::new();
    let (mut wide, mut is_name, mut begins): (Option<char>, bool, bool) = (None, false, true);
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        if is_wide(letter) {
            flush(&mut word, is_name, &mut take);
            if let Some(before) = wide.replace(letter) {
                take(&[before, letter].iter().collect::<String>(), false);
            }
            continue;
        }
        wide = None;
        let joins = "._/'’-".contains(letter)
            && !word.is_empty()
            && letters.peek().is_some_and(|next| next.is_alphanumeric() && !is_wide(*next));
        if letter.is_alphanumeric() || letter == '_' || joins {
            if word.is_empty() {
                is_name = letter.is_uppercase() && !std::mem::take(&mut begins);
            }
            if letter.is_ascii() { word.push(letter.to_ascii_lowercase()) } else { word.extend(letter.to_lowercase()) }
        } else {
            flush(&mut word, is_name, &mut take);
            begins |= ".!?:…“\"".contains(letter);
        }
    }
    flush(&mut word, is_name, &mut take);
}

fn flush(word: &mut String, is_name: bool, take: &mut impl FnMut(&str, bool)) {
    if !word.is_empty() && !COMMON.contains(word.as_str()) {
        take(word, is_name);
        // A file is the same with its folder and without.
        if let Some((_, base)) = word.rsplit_once('/').filter(|(_, base)| base.len() > 2) {
            take(base, false);
        }
    }
    word.clear();
}
