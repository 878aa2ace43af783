//! The ledger of names: which files and identifiers the history deals with, and how much each matters.
//!
//! What matters is what comes up again: recently, often, all through the conversation, in somebody's own words, and
//! above all what was written, changed or failed.

use super::commands::{self, Purpose};
use super::digest::{Action, Digest, Outcome, Said, Speaker};
use super::names::{self, Token};
use super::statements;
use super::text;
use super::tools::Kind;
use std::collections::{BTreeMap, HashMap, HashSet};

/// In what way a file came up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Contact {
    /// It was made, or replaced whole.
    Written,
    /// It was changed.
    Edited,
    /// A tool failed on it.
    Failed,
    /// It was looked into.
    Read,
    /// The user named it.
    Asked,
    /// The model named it.
    Told,
    /// A command or another input names it.
    Used,
    /// An output names it.
    Listed,
    /// A stack trace or markup names it.
    Traced,
}

const CONTACTS: usize = 9;

/// What a contact of each kind is worth, in the order of [`Contact`].
const CONTACT_WORTH: [f64; CONTACTS] = [5.0, 5.0, 3.0, 2.5, 4.0, 2.0, 1.5, 0.6, 0.15];

/// How much of each text is read for names, from its start. What comes later in a long output is seldom looked at.
const SCAN_BYTES_MAX: usize = 32_768;

/// What a name in a stack trace or in markup weighs beside one in plain output.
const TRACE_SHARE: f64 = 0.2;

/// A reason shorter than this says little more than "change it", and does not replace an earlier one.
const REASON_LENGTH_GOOD: usize = 32;

/// A file of the history.
#[derive(Debug, Clone, Default)]
pub(super) struct File {
    /// How it is spelled where it was spelled best.
    pub(super) path: String,
    counts: [u32; CONTACTS],
    freshest: [f64; CONTACTS],
    /// When it was last written or edited.
    pub(super) changed_at: Option<usize>,
    /// What the model said when it last changed the file.
    pub(super) reason: Option<String>,
    /// What an earlier summary said about it.
    pub(super) carried: Option<String>,
}

impl File {
    /// How often it came up in one way.
    pub(super) fn count(&self, contact: Contact) -> u32 {
        self.counts[contact as usize]
    }

    /// Whether it was written or edited.
    pub(super) fn is_changed(&self) -> bool {
        self.count(Contact::Written) + self.count(Contact::Edited) > 0
    }

    /// How much it matters.
    pub(super) fn score(&self) -> f64 {
        let own: f64 = (0..CONTACTS)
            .filter(|kind| self.counts[*kind] > 0)
            .map(|kind| CONTACT_WORTH[kind] * (self.freshest[kind] + 0.1) * (1.0 + f64::from(self.counts[kind]).ln()))
            .sum();
        let carried = if self.carried.is_some() { 1.0 } else { 0.0 };
        let foreign = if !self.is_changed() && is_foreign(&self.path) {
            0.1
        } else if self.path.starts_with(['/', '~']) {
            0.6
        } else {
            1.0
        };
        (own + carried) * foreign
    }

    fn touch(&mut self, contact: Contact, recency: f64) {
        self.counts[contact as usize] += 1;
        let freshest = &mut self.freshest[contact as usize];
        *freshest = freshest.max(recency);
    }

    fn absorb(&mut self, other: &Self) {
        for kind in 0..CONTACTS {
            self.counts[kind] += other.counts[kind];
            self.freshest[kind] = self.freshest[kind].max(other.freshest[kind]);
        }
        if other.changed_at >= self.changed_at {
            self.changed_at = other.changed_at;
            if other.reason.is_some() {
                self.reason.clone_from(&other.reason);
            }
        }
        if self.carried.is_none() {
            self.carried.clone_from(&other.carried);
        }
    }
}

/// Whether a file belongs to somebody else: fetched, generated, or outside of any project.
fn is_foreign(path: &str) -> bool {
    const FOREIGN: &[&str] = &[
        "node_modules",
        "deps",
        "_build",
        "target",
        "dist",
        "vendor",
        ".git",
        "__pycache__",
        "site-packages",
        ".venv",
        "venv",
        ".cargo",
        ".rustup",
        ".cache",
        "Library",
        "lib64",
    ];
    path.split('/').any(|segment| FOREIGN.contains(&segment)) || path.starts_with("/usr/") || path.starts_with("/opt/")
}

/// An identifier of the history.
#[derive(Debug, Clone, Default)]
struct NameFacts {
    score: f64,
    last_at: usize,
    in_last: u32,
    /// In how many messages it stands.
    spread: u32,
    /// Whether anything but an output has it.
    is_used: bool,
    homes: Vec<(usize, f64)>,
}

/// An identifier with its weight and the file it belongs to.
#[derive(Debug, Clone)]
pub(super) struct Name {
    /// The identifier.
    pub(super) text: String,
    /// How much it matters.
    pub(super) score: f64,
    /// The file where it came up most, as an index into the ledger's files.
    pub(super) home: Option<usize>,
}

/// Files and identifiers of a history.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// The directory that relative paths start from, if the history has absolute ones.
    pub(super) root: Option<String>,
    /// Every file, by weight.
    pub(super) files: Vec<File>,
    /// Every identifier, by weight.
    pub(super) names: Vec<Name>,
}

/// Collects by spelling; spellings of one file are joined at the end.
struct Collector<'d> {
    spellings: Vec<File>,
    by_spelling: HashMap<&'d str, usize>,
    bare: BTreeMap<&'d str, File>,
    names: HashMap<&'d str, NameFacts>,
    directories: Vec<(&'d str, f64)>,
}

impl Ledger {
    /// Collects the files and identifiers of a history, and those of the summary that stood before it.
    pub(super) fn collect(digest: &Digest<'_>, previous: Option<&str>) -> Self {
        let mut collector = Collector {
            spellings: Vec::new(),
            by_spelling: HashMap::new(),
            bare: BTreeMap::new(),
            names: HashMap::new(),
            directories: Vec::new(),
        };
        if let Some(previous) = previous {
            // A summary's mention stands for many of its history's, which is older than anything here.
            let carried = digest.recency(0).max(0.2);
            for line in previous.lines() {
                let home = names::leading_path(line).map(|path| collector.spelling(path));
                collector.mention(line, 0, carried, 3.0, home, Contact::Told);
            }
        }
        for said in &digest.said {
            let (contact, weight) = match said.speaker {
                Speaker::User => (Contact::Asked, 3.0),
                Speaker::Assistant => (Contact::Told, 2.0),
                Speaker::Thought => (Contact::Used, 0.7),
            };
            collector.mention(&said.text, said.at, digest.recency(said.at), weight, None, contact);
        }
        // Why a file was changed: what the model said before, or else what the user asked.
        let mut spoken = digest.said.iter().filter(|said| said.speaker != Speaker::Thought).peekable();
        let mut reason: Option<&Said<'_>> = None;
        for action in &digest.actions {
            while let Some(said) = spoken.next_if(|said| said.at <= action.at) {
                reason = Some(said);
            }
            collector.act(action, digest.recency(action.at), reason.filter(|said| action.at - said.at <= 6));
        }
        collector.finish()
    }

    /// Adds what an earlier summary said about files.
    pub(super) fn annotate(&mut self, notes: &[(String, String)]) {
        for (path, note) in notes {
            let path = relative_to(path, self.root.as_deref());
            match self.files.iter_mut().find(|file| file.path == path) {
                Some(file) => file.carried = Some(note.clone()),
                None => {
                    let carried = Some(note.clone());
                    self.files.push(File { path: path.to_owned(), carried, ..File::default() });
                }
            }
        }
    }
}

impl<'d> Collector<'d> {
    fn spelling(&mut self, path: &'d str) -> usize {
        let next = self.spellings.len();
        let place = *self.by_spelling.entry(path).or_insert(next);
        if place == next {
            self.spellings.push(File { path: path.to_owned(), ..File::default() });
        }
        place
    }

    /// Reads a text for names. `home` is the file the text is about.
    fn mention(&mut self, text: &'d str, at: usize, recency: f64, weight: f64, home: Option<usize>, contact: Contact) {
        names::scan(commands::head(text, SCAN_BYTES_MAX), |token| match token {
            // Where an import climbs from is not said, only what it is called.
            Token::Path(path) if path.starts_with("../") => {
                self.bare.entry(names::base_name(path)).or_default().touch(contact, recency);
            }
            // Traces go through files that nobody works on.
            Token::Path(path) if contact == Contact::Traced && !self.by_spelling.contains_key(path) => {}
            Token::Path(path) => {
                let place = self.spelling(path.strip_prefix("./").unwrap_or(path));
                self.spellings[place].touch(contact, recency);
            }
            Token::File(base) => self.bare.entry(base).or_default().touch(contact, recency),
            Token::Name(name) => {
                let facts = self.names.entry(name).or_default();
                if facts.last_at != at || facts.in_last == 0 {
                    facts.last_at = at;
                    facts.in_last = 0;
                    facts.spread += 1;
                }
                facts.is_used |= !matches!(contact, Contact::Listed | Contact::Traced);
                facts.in_last += 1;
                // Saying a name again in one breath counts for less and less, and soon for nothing.
                if facts.in_last <= 4 {
                    let count = f64::from(facts.in_last);
                    let gain = weight * recency * (count.sqrt() - (count - 1.0).sqrt());
                    facts.score += gain;
                    if let Some(home) = home {
                        match facts.homes.iter_mut().find(|(file, _)| *file == home) {
                            Some((_, share)) => *share += gain,
                            None => facts.homes.push((home, gain)),
                        }
                    }
                }
            }
        });
    }

    fn act(&mut self, action: &'d Action<'_>, recency: f64, near: Option<&Said<'_>>) {
        let mut home = None;
        for (path, kind) in &action.call.paths {
            let place = self.spelling(path.trim().strip_prefix("./").unwrap_or(path));
            home = Some(place);
            let contact = match (action.outcome, kind) {
                (Outcome::Failed, _) => Contact::Failed,
                (_, Kind::Write) => Contact::Written,
                (_, Kind::Edit) => Contact::Edited,
                (_, _) => Contact::Read,
            };
            let file = &mut self.spellings[place];
            file.touch(contact, recency);
            if matches!(contact, Contact::Written | Contact::Edited) {
                file.changed_at = Some(action.at);
                if let Some(reason) = near.and_then(reason_of)
                    && (file.reason.is_none() || reason.chars().count() >= REASON_LENGTH_GOOD)
                {
                    file.reason = Some(reason);
                }
            }
        }
        let home = home.filter(|_| action.call.paths.len() == 1);
        for words in &action.call.texts {
            self.mention(words, action.at, recency, 1.5, home, Contact::Used);
        }
        if let Some(command) = &action.call.command {
            self.mention(command, action.at, recency, 1.5, home, Contact::Used);
            if let Some(directory) = entered_directory(command) {
                self.directories.push((directory, recency));
            }
        }
        // What a look-around prints says less about the work than what the work itself prints.
        let weight = if action.purpose == Some(Purpose::Verify) { 0.7 } else { 0.5 };
        for line in commands::head(action.output, SCAN_BYTES_MAX).lines() {
            let is_frame = line.trim_start().starts_with(['(', '<']) || line.trim_start().starts_with("at ");
            let (weight, contact) =
                if is_frame { (weight * TRACE_SHARE, Contact::Traced) } else { (weight, Contact::Listed) };
            self.mention(line, action.at, recency, weight, home, contact);
        }
    }

    fn finish(self) -> Ledger {
        let root = find_root(&self.spellings, &self.directories);
        let (mut files, place_of) = join_spellings(&self.spellings, root.as_deref());
        add_bare_names(&mut files, self.bare);
        let mut order: Vec<usize> = (0..files.len()).collect();
        order.sort_by(|left, right| {
            files[*right]
                .score()
                .total_cmp(&files[*left].score())
                .then_with(|| files[*left].path.cmp(&files[*right].path))
        });
        let mut rank = vec![0; files.len()];
        for (new, old) in order.iter().enumerate() {
            rank[*old] = new;
        }
        let files: Vec<File> = order.iter().map(|old| files[*old].clone()).collect();
        let mut names: Vec<Name> = self
            .names
            .into_iter()
            .map(|(text, facts)| {
                let best = facts.homes.iter().fold(None, |best: Option<(usize, f64)>, home| match best {
                    Some(best) if best.1 >= home.1 => Some(best),
                    _ => Some(*home),
                });
                // A name whose weight comes from elsewhere belongs to no file.
                let home =
                    best.filter(|(_, share)| *share >= facts.score * 0.3).map(|(place, _)| rank[place_of[place]]);
                // What an output showed once and nobody took up is most likely noise.
                let noise = if !facts.is_used && facts.spread < 2 { 0.3 } else { 1.0 };
                Name { text: text.to_owned(), score: facts.score * noise, home }
            })
            .collect();
        names.sort_by(|left, right| right.score.total_cmp(&left.score).then_with(|| left.text.cmp(&right.text)));
        Ledger { root, files, names }
    }
}

/// The last sentence of what the model said before it changed a file.
fn reason_of(said: &Said<'_>) -> Option<String> {
    let lines = text::prose(commands::head(&said.text, 4_000));
    if said.speaker == Speaker::User {
        let asked = text::one_line(lines.first()?.text);
        return Some(format!("asked: “{}”", text::clip(&asked, 90)));
    }
    let line = lines.iter().rev().find(|line| matches!(line.lead, text::Lead::Plain))?;
    let plain = text::plain(line.text);
    let reason = text::sentences_of(&plain).last().map(|sentence| statements::intended(&text::one_line(sentence)))?;
    (reason.chars().count() >= 12).then_some(reason)
}

/// The directory a command goes to first.
fn entered_directory(command: &str) -> Option<&str> {
    let directory = command.trim_start().strip_prefix("cd ")?.split([' ', ';', '&', '\n']).next()?;
    directory.starts_with('/').then(|| directory.trim_end_matches('/'))
}

/// The directory that the history's relative paths start from.
///
/// Where a relative path is the end of an absolute one, what stands before it is a candidate; so is a directory that
/// commands enter. Without either, it is the deepest directory that holds nearly all files that tools were given.
fn find_root(spellings: &[File], directories: &[(&str, f64)]) -> Option<String> {
    let relative: HashSet<&str> =
        spellings.iter().map(|file| file.path.as_str()).filter(|path| !path.starts_with(['/', '~'])).collect();
    let absolute: Vec<&File> =
        spellings.iter().filter(|file| file.path.starts_with('/') && !is_foreign(&file.path)).collect();
    let mut votes: BTreeMap<&str, f64> = BTreeMap::new();
    for file in &absolute {
        let weight = 1.0 + f64::from(file.count(Contact::Read)).min(3.0);
        let slashes = file.path.match_indices('/').map(|(at, _)| at);
        for at in slashes.filter(|at| *at > 0 && relative.contains(&file.path[at + 1..])) {
            *votes.entry(&file.path[..at]).or_default() += weight;
        }
    }
    for (directory, _) in directories {
        *votes.entry(directory).or_default() += 1.0;
    }
    if votes.is_empty() {
        let given: Vec<&str> = absolute
            .iter()
            .filter(|file| file.is_changed() || file.count(Contact::Read) > 0)
            .map(|file| file.path.as_str())
            .collect();
        for path in &given {
            for (at, _) in path.match_indices('/').filter(|(at, _)| *at > 0) {
                *votes.entry(&path[..at]).or_default() += 1.0;
            }
        }
        let most = given.len() as f64;
        let deepest = votes.iter().filter(|(_, count)| **count >= most * 0.8 && most >= 2.0).map(|(root, _)| *root);
        return deepest.max_by_key(|root| root.len()).map(str::to_owned);
    }
    let best = votes.iter().fold(("", 0.0), |best, (root, count)| if *count > best.1 { (root, *count) } else { best });
    Some(best.0.to_owned()).filter(|root| !root.is_empty())
}

/// Joins the spellings of one file, and says where each spelling went.
fn join_spellings(spellings: &[File], root: Option<&str>) -> (Vec<File>, Vec<usize>) {
    let mut files: Vec<File> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    let mut place_of = Vec::with_capacity(spellings.len());
    let known: HashSet<&str> = spellings.iter().map(|file| relative_to(&file.path, root)).collect();
    for spelling in spellings {
        let mut path = relative_to(&spelling.path, root);
        // Diffs put `a/` and `b/` before paths.
        if let Some(rest) = path.strip_prefix("a/").or_else(|| path.strip_prefix("b/"))
            && known.contains(rest)
        {
            path = rest;
        }
        let place = *places.entry(path).or_insert_with(|| {
            files.push(File { path: path.to_owned(), ..File::default() });
            files.len() - 1
        });
        files[place].absorb(spelling);
        place_of.push(place);
    }
    (files, place_of)
}

fn relative_to<'p>(path: &'p str, root: Option<&str>) -> &'p str {
    root.and_then(|root| path.strip_prefix(root)?.strip_prefix('/')).filter(|rest| !rest.is_empty()).unwrap_or(path)
}

/// Gives names without a directory to the file they most likely mean.
fn add_bare_names(files: &mut Vec<File>, bare: BTreeMap<&str, File>) {
    let mut by_base: HashMap<String, usize> = HashMap::new();
    for (place, file) in files.iter().enumerate() {
        let base = names::base_name(&file.path).to_owned();
        let best = by_base.entry(base).or_insert(place);
        if files[*best].score() < file.score() {
            *best = place;
        }
    }
    for (base, mut facts) in bare {
        // Compiled sources are imported by the name they will have.
        let source = base.strip_suffix(".js").map(|stem| [format!("{stem}.ts"), format!("{stem}.tsx")]);
        let found = by_base.get(base).or_else(|| source.iter().flatten().find_map(|name| by_base.get(name)));
        if let Some(place) = found {
            files[*place].absorb(&facts);
        } else if facts.count(Contact::Asked) + facts.count(Contact::Told) > 0
            || facts.count(Contact::Used) + facts.count(Contact::Listed) > 2
        {
            base.clone_into(&mut facts.path);
            files.push(facts);
        }
    }
}
