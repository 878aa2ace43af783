//! The catalogue: files and names put into as few words as they need.
//!
//! What was worked on gets a line of its own with the names that belong to it; everything else is listed by directory.

use super::item::{Item, ORDER_FIRST, ORDER_LAST};
use super::ledger::{Contact, File, Ledger, Name};
use super::names;
use super::text;
use crate::policy::Topic;
use std::collections::{BTreeMap, BTreeSet};

/// What stands before the directory that paths start from.
pub(super) const ROOT_LABEL: &str = "Working directory: ";

/// What stands before lists: of files that were only read, of files that were only named, and of names.
pub(super) const LABELS: [&str; 4] = ["Changed: ", "Read: ", "Named: ", "Names: "];

/// Names are listed by weight per letter, softly: a long name must not cost three short ones of nearly its weight.
const LENGTH_PENALTY: f64 = 0.3;

/// About what the labels and bullets of the lists take.
const LABELS_LENGTH: usize = 50;

/// What weighs less was passed by, not worked with.
const FILE_SCORE_MIN: f64 = 0.07;

/// The same for names: about one mention in one old output.
const NAME_SCORE_MIN: f64 = 0.005;

/// The most files and names that are listed. A longer list is not read.
const FILES_MAX: usize = 70;
const NAMES_PER_FILE_MAX: usize = 60;
const NAMES_ELSEWHERE_MAX: usize = 120;

/// Writes the catalogue in at most `room` letters, bullets not counted. `measure` tells how long a text is.
pub(super) fn compose(ledger: &Ledger, room: usize, measure: &dyn Fn(&str) -> usize) -> Vec<Item> {
    let mut items = Vec::new();
    let mut room = room;
    if let Some(root) = &ledger.root {
        let line = format!("{ROOT_LABEL}{}", text::code(root));
        if measure(&line) + 3 <= room / 4 {
            room -= measure(&line) + 3;
            items.push(Item::placed(Topic::Files, &line, 1.0, ORDER_FIRST));
        }
    }
    let (detailed, grouped, spent) = choose_files(ledger, room * 9 / 20, measure);
    let chosen = choose_names(ledger, room.saturating_sub(spent + LABELS_LENGTH), measure);
    let mut homeless: Vec<&str> = Vec::new();
    let mut by_home: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
    for name in &chosen {
        match name.home.filter(|home| detailed.contains(home)) {
            Some(home) => {
                let names = by_home.entry(home).or_default();
                if names.len() < NAMES_PER_FILE_MAX {
                    names.push(&name.text);
                }
            }
            None if homeless.len() < NAMES_ELSEWHERE_MAX => homeless.push(&name.text),
            None => {}
        }
    }
    for place in &detailed {
        let file = &ledger.files[*place];
        let mut line = describe(file);
        if let Some(names) = by_home.get(place) {
            line.push_str(&format!("; names: {}", names.join(", ")));
        }
        items.push(Item::placed(Topic::Files, &line, file.score(), *place as i64));
    }
    let group_of = |file: &File| match (file.is_changed(), file.count(Contact::Read)) {
        (true, _) => 0,
        (false, 1..) => 1,
        (false, 0) => 2,
    };
    for (group, label) in LABELS.iter().take(3).enumerate() {
        let files = grouped.iter().map(|place| &ledger.files[*place]).filter(|file| group_of(file) == group);
        let paths: Vec<&str> = files.map(|file| file.path.as_str()).collect();
        if !paths.is_empty() {
            let line = format!("{label}{}", by_directory(&paths));
            items.push(Item::placed(Topic::Files, &line, 1.0, ORDER_LAST + group as i64));
        }
    }
    if !homeless.is_empty() {
        let line = format!("{}{}", LABELS[3], homeless.join(", "));
        items.push(Item::placed(Topic::Context, &line, 1.0, ORDER_LAST));
    }
    items
}

fn choose_names<'l>(ledger: &'l Ledger, room: usize, measure: &dyn Fn(&str) -> usize) -> Vec<&'l Name> {
    let worth = |name: &Name| name.score / (measure(&name.text) as f64 + 4.0).powf(LENGTH_PENALTY);
    let mut order: Vec<&Name> = ledger.names.iter().filter(|name| name.score > NAME_SCORE_MIN).collect();
    order.sort_by(|left, right| worth(right).total_cmp(&worth(left)).then_with(|| left.text.cmp(&right.text)));
    let mut left = room;
    let mut chosen: Vec<&Name> = Vec::new();
    let mut qualified: BTreeSet<&str> = BTreeSet::new();
    for name in order {
        // `Module.function` says `function` and `Module` too.
        if qualified.contains(name.text.as_str()) {
            continue;
        }
        let cost = measure(&name.text) + 2;
        if cost > left {
            if left < 8 {
                break;
            }
            continue;
        }
        left -= cost;
        qualified.extend(name.text.split(['.', ':']).filter(|segment| segment.len() > 3));
        chosen.push(name);
    }
    chosen
}

/// Which files get a line of their own, which are only listed, both by weight, and about how much room that takes.
fn choose_files(ledger: &Ledger, room: usize, measure: &dyn Fn(&str) -> usize) -> (BTreeSet<usize>, Vec<usize>, usize) {
    let group_cost = |file: &File| measure(names::base_name(&file.path)) + 8;
    let mut listed: Vec<usize> = Vec::new();
    let mut spent = 0;
    for (place, file) in ledger.files.iter().enumerate() {
        let cost = group_cost(file);
        if file.score() < FILE_SCORE_MIN || listed.len() >= FILES_MAX || spent + cost > room * 7 / 10 {
            continue;
        }
        spent += cost;
        listed.push(place);
    }
    let mut detailed = BTreeSet::new();
    for place in &listed {
        let file = &ledger.files[*place];
        let worked_on = file.is_changed()
            || file.carried.is_some()
            || file.count(Contact::Failed) > 0
            || file.count(Contact::Asked) > 0 && file.path.contains('/')
            || file.count(Contact::Read) > 1;
        let cost = measure(&describe(file)) + 14;
        if worked_on && spent + cost <= room + group_cost(file) {
            spent = spent + cost - group_cost(file);
            detailed.insert(*place);
        }
    }
    let grouped = listed.into_iter().filter(|place| !detailed.contains(place)).collect();
    (detailed, grouped, spent)
}

/// A file with what was done to it and why.
fn describe(file: &File) -> String {
    let mut deeds: Vec<String> = Vec::new();
    let times = |deed: &str, count: u32| if count > 1 { format!("{deed} {count}×") } else { deed.to_owned() };
    for (contact, deed) in [
        (Contact::Written, "written"),
        (Contact::Edited, "edited"),
        (Contact::Read, "read"),
        (Contact::Failed, "a tool failed on it"),
    ] {
        let count = file.count(contact);
        if count > 0 && (contact != Contact::Read || !file.is_changed()) {
            deeds.push(times(deed, count));
        }
    }
    if deeds.is_empty() && file.carried.is_none() && file.count(Contact::Asked) > 0 {
        deeds.push("named by the user".to_owned());
    }
    let path = text::code(&file.path);
    let why = match (&file.reason, &file.carried) {
        (Some(reason), _) => Some(text::clip(reason, 110)),
        (None, Some(carried)) => Some(text::clip(carried, 140)),
        (None, None) => None,
    };
    let deeds = deeds.join(", ");
    match why {
        Some(why) if deeds.is_empty() => format!("{path} — {why}"),
        Some(why) => format!("{path} — {deeds}; {why}"),
        None if deeds.is_empty() => path,
        None => format!("{path} — {deeds}"),
    }
}

/// Paths with each directory named once.
fn by_directory(paths: &[&str]) -> String {
    let mut directories: Vec<(&str, Vec<&str>)> = Vec::new();
    for path in paths {
        let base = names::base_name(path);
        let directory = &path[..path.len() - base.len()];
        match directories.iter_mut().find(|(known, _)| *known == directory) {
            Some((_, bases)) => bases.push(base),
            None => directories.push((directory, vec![base])),
        }
    }
    let groups = directories.iter().map(|(directory, bases)| match (directory.is_empty(), bases.as_slice()) {
        (false, [base]) => format!("{directory}{base}"),
        (false, bases) => format!("{}: {}", text::code(directory), bases.join(", ")),
        (true, bases) => bases.join(", "),
    });
    groups.collect::<Vec<_>>().join("; ")
}
