//! The paths that a source file uses: those of `use` trees flattened, and those in the code, with imported names replaced.

use super::is_word;
use regex::Regex;
use std::collections::BTreeMap;

/// A resolved path, and its line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Used {
    pub(super) segments: Vec<String>,
    pub(super) line: usize,
}

impl Used {
    /// True if the path is the prefix, is below it, or is a glob that may import it.
    pub(super) fn reaches(&self, prefix: &str) -> bool {
        let prefix: Vec<&str> = prefix.split("::").collect();
        let (own, glob) = match self.segments.split_last() {
            Some((last, parent)) if last == "*" => (parent, true),
            _ => (self.segments.as_slice(), false),
        };
        let shared = own.iter().zip(&prefix).take_while(|(left, right)| left == *right).count();
        shared == prefix.len() || (glob && shared == own.len())
    }
}

struct Token<'a> {
    text: &'a str,
    line: usize,
}

fn tokens(code: &str) -> Vec<Token<'_>> {
    let pattern = Regex::new(r"\w+|::|\S").expect("a pattern");
    let number =
        |(line, text)| pattern.find_iter(text).map(move |found| Token { text: found.as_str(), line: line + 1 });
    code.lines().enumerate().flat_map(number).collect()
}

/// Walks the tokens and collects paths: those of `use` trees flattened, and those in the code.
pub(super) struct PathReader<'a> {
    tokens: Vec<Token<'a>>,
    at: usize,
    imports: BTreeMap<String, Vec<String>>,
    paths: Vec<Used>,
}

impl<'a> PathReader<'a> {
    pub(super) fn of(code: &'a str) -> Self {
        Self { tokens: tokens(code), at: 0, imports: BTreeMap::new(), paths: Vec::new() }
    }

    fn text(&self, offset: usize) -> &'a str {
        self.tokens.get(self.at + offset).map_or("", |token| token.text)
    }

    /// Returns the paths, with imported names replaced, and the imports.
    pub(super) fn run(mut self) -> (Vec<Used>, BTreeMap<String, Vec<String>>) {
        while self.at < self.tokens.len() {
            if self.text(0) == "use" && self.text(1) != "<" {
                self.at += 1;
                self.use_tree(&[]);
            } else {
                self.path();
            }
        }
        let imports = self.imports;
        (self.paths.into_iter().map(|path| resolve_import(path, &imports)).collect(), imports)
    }

    fn path(&mut self) {
        let line = self.tokens[self.at].line;
        let mut segments = Vec::new();
        while self.text(0).starts_with(is_word) {
            segments.push(self.text(0).to_owned());
            self.at += 1;
            if self.text(0) != "::" || !self.text(1).starts_with(is_word) {
                break;
            }
            self.at += 1;
        }
        match segments.len() {
            0 => self.at += 1,
            1 => {}
            _ => self.paths.push(Used { segments, line }),
        }
    }

    fn use_tree(&mut self, prefix: &[String]) {
        let mut segments = prefix.to_vec();
        let line = self.tokens.get(self.at).map_or(0, |token| token.line);
        loop {
            match self.text(0) {
                "::" => self.at += 1,
                "{" => {
                    self.at += 1;
                    while !matches!(self.text(0), "}" | "") {
                        self.use_tree(&segments);
                        self.at += usize::from(self.text(0) == ",");
                    }
                    self.at += 1;
                    return;
                }
                "*" => {
                    segments.push("*".to_owned());
                    self.at += 1;
                    break;
                }
                word if word.starts_with(is_word) && word != "as" => {
                    if word != "self" || segments.is_empty() {
                        segments.push(word.to_owned());
                    }
                    self.at += 1;
                }
                _ => break,
            }
        }
        let mut name = segments.last().cloned().unwrap_or_default();
        if self.text(0) == "as" {
            name = self.text(1).to_owned();
            self.at += 2;
        }
        self.imports.insert(name, segments.clone());
        self.paths.push(Used { segments, line });
        if prefix.is_empty() && self.text(0) == ";" {
            self.at += 1;
        }
        // A token that cannot be part of a tree must not stop the walk.
        self.at += usize::from(!prefix.is_empty() && !matches!(self.text(0), "," | "}" | ""));
    }
}

/// Replaces an imported name by its path.
fn resolve_import(mut path: Used, imports: &BTreeMap<String, Vec<String>>) -> Used {
    for _ in 0..4 {
        match imports.get(&path.segments[0]) {
            Some(full) if full[0] != path.segments[0] => {
                path.segments = full.iter().chain(&path.segments[1..]).cloned().collect();
            }
            _ => break,
        }
    }
    path
}

/// The module of a source file, as segments below the crate's root.
pub(super) fn module_of(file: &str) -> Vec<String> {
    let path = file.trim_start_matches("src/").trim_end_matches(".rs");
    let path = path.strip_suffix("/mod").unwrap_or(path);
    path.split('/').filter(|segment| *segment != "lib").map(str::to_owned).collect()
}

/// The paths of a file, with `self`, `super` and the library's own name made absolute.
pub(super) fn paths(file: &str, code: &str) -> Vec<Used> {
    let module = module_of(file);
    let path = |Used { segments, line }| Used { segments: absolute(&module, segments), line };
    PathReader::of(code).run().0.into_iter().map(path).collect()
}

/// A path in a module, from the crate's root.
pub(super) fn absolute(module: &[String], mut segments: Vec<String>) -> Vec<String> {
    let supers = segments.iter().take_while(|segment| *segment == "super").count();
    let from_self = segments[0] == "self";
    if supers > 0 || from_self {
        let base = module.len().saturating_sub(supers);
        let below = segments.split_off(supers.max(usize::from(from_self)));
        segments = std::iter::once("crate".to_owned()).chain(module[..base].to_vec()).chain(below).collect();
    } else if segments[0] == "longhand" {
        segments[0] = "crate".to_owned();
    }
    segments
}
