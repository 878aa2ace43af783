//! The order of the files of a crate: no file uses another one that uses it, directly or through others.
//!
//! A path to an item that its module only imports leads to the file that defines the item, so that a `mod.rs` that lists
//! the names of its folder is not part of every circle.

use super::paths::PathReader;
use super::*;

/// The files of a module with their paths and names.
struct Files {
    /// The file of each module, by its segments below the root.
    modules: BTreeMap<Vec<String>, String>,
    parsed: BTreeMap<String, Parsed>,
}

struct Parsed {
    code: String,
    paths: Vec<Vec<String>>,
    /// Imported names, with their full paths.
    names: BTreeMap<String, Vec<String>>,
    /// Modules of which all names are imported.
    globs: Vec<Vec<String>>,
}

impl Files {
    fn of(code: &BTreeMap<String, String>) -> Self {
        let modules: BTreeMap<Vec<String>, String> = code.keys().map(|file| (module_of(file), file.clone())).collect();
        let parse = |(file, code): (&String, &String)| (file.clone(), Parsed::of(&modules, file, code));
        Self { parsed: code.iter().map(parse).collect(), modules }
    }

    /// The file that defines the item at a path; none for a path outside of the library and for a module alone.
    fn target(&self, path: &[String], depth: usize) -> Option<&str> {
        let (root, below) = path.split_first()?;
        if root != "crate" || self.modules.contains_key(below) || depth == 5 {
            return None;
        }
        let end = (1..below.len()).rev().find(|&end| self.modules.contains_key(&below[..end]))?;
        let file = &self.modules[&below[..end]];
        let parsed = &self.parsed[file];
        let (name, rest) = below[end..].split_first()?;
        let imported = parsed.names.get(name).into_iter().cloned();
        let globs = parsed.globs.iter().filter(|glob| self.defines(glob, name));
        let from_globs = globs.map(|glob| glob.iter().chain([name]).cloned().collect::<Vec<_>>());
        let full = imported.chain(from_globs).map(|path| [path, rest.to_vec()].concat());
        full.filter_map(|path| self.target(&path, depth + 1)).next().or(Some(file))
    }

    fn defines(&self, module: &[String], name: &str) -> bool {
        let Some(parsed) = self.modules.get(&module[1..]).map(|file| &self.parsed[file]) else { return false };
        let item = format!(r"\b(?:struct|enum|fn|const|static|trait|type)\s+{name}\b");
        parsed.names.contains_key(name) || Regex::new(&item).expect("a pattern").is_match(&parsed.code)
    }

    /// The files of each circle.
    fn circles(&self) -> Vec<Vec<String>> {
        // The root only lists the modules, and names what they have.
        let files: Vec<&String> = self.parsed.keys().filter(|file| !module_of(file).is_empty()).collect();
        let uses: BTreeMap<&str, BTreeSet<&str>> = files
            .iter()
            .map(|file| {
                let targets = self.parsed[*file].paths.iter().filter_map(|path| self.target(path, 0));
                (file.as_str(), targets.filter(|target| target != file && !module_of(target).is_empty()).collect())
            })
            .collect();
        // Everything that a file uses, directly or through others.
        let mut reached = uses.clone();
        for _ in 0..files.len() {
            let step = |all: &BTreeSet<&str>| all.iter().flat_map(|file| &uses[file]).copied().collect::<Vec<_>>();
            let more: Vec<Vec<&str>> = reached.values().map(step).collect();
            let before: usize = reached.values().map(BTreeSet::len).sum();
            reached.values_mut().zip(more).for_each(|(all, more)| all.extend(more));
            if before == reached.values().map(BTreeSet::len).sum::<usize>() {
                break;
            }
        }
        let mut circles: BTreeSet<Vec<String>> = BTreeSet::new();
        for (file, all) in reached.iter().filter(|(file, all)| all.contains(*file)) {
            let mutual = all.iter().filter(|other| reached[**other].contains(file));
            circles.insert(mutual.map(|other| (*other).to_owned()).collect());
        }
        circles.into_iter().collect()
    }
}

impl Parsed {
    fn of(modules: &BTreeMap<Vec<String>, String>, file: &str, code: &str) -> Self {
        let own = module_of(file);
        let full = |segments: Vec<String>| {
            let child: Vec<String> = own.iter().chain(segments.first()).cloned().collect();
            match modules.contains_key(&child) && !["crate", "self", "super"].contains(&segments[0].as_str()) {
                true => ["crate".to_owned()].into_iter().chain(own.iter().cloned()).chain(segments).collect(),
                false => absolute(&own, segments),
            }
        };
        let (paths, imports) = PathReader::of(code).run();
        let paths: Vec<Vec<String>> = paths.into_iter().map(|path| full(path.segments)).collect();
        let all =
            |path: &Vec<String>| path.split_last().filter(|(last, _)| *last == "*").map(|(_, glob)| glob.to_vec());
        Self {
            code: code.to_owned(),
            globs: paths.iter().filter_map(all).collect(),
            names: imports.into_iter().map(|(name, path)| (name, full(path))).collect(),
            paths,
        }
    }
}

#[test]
fn files_do_not_use_each_other_in_circles() {
    let mut breaches = Vec::new();
    for (name, folder) in CRATES {
        let circles = Files::of(&product_code(folder)).circles();
        let breach = |circle: Vec<String>| Breach {
            file: format!("{name}: {}", circle[0]),
            line: 1,
            rule: format!("these files use each other in a circle: {}", circle.join(", ")),
        };
        breaches.extend(circles.into_iter().map(breach));
    }
    assert_none(breaches);
}

#[test]
fn circles_are_found_through_names_that_a_module_imports() {
    let file = |name: &str, text: &str| (name.to_owned(), text.to_owned());
    let facade = file("src/policy/mod.rs", "mod a;\nmod b;\nmod c;\npub use a::A;\npub use c::*;");
    let circles = |a: &str, b: &str, c: &str| {
        let files = [file("src/policy/a.rs", a), file("src/policy/b.rs", b), file("src/policy/c.rs", c)];
        Files::of(&files.into_iter().chain([facade.clone()]).collect()).circles()
    };
    let (a, b, c) = ("src/policy/a.rs".to_owned(), "src/policy/b.rs".to_owned(), "src/policy/c.rs".to_owned());
    let none: Vec<Vec<String>> = Vec::new();
    assert_eq!(circles("struct A;", "use super::A;", "use crate::policy::A;\nstruct C;"), none);
    assert_eq!(circles("use super::b::B;", "use super::A;", ""), [vec![a.clone(), b.clone()]]);
    assert_eq!(
        circles("use super::b;\nfn f() { b::g() }", "use crate::policy::C;", "use super::A;\nenum C {}"),
        [vec![a, b, c]]
    );
}
