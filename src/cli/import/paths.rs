//! The files of an import: those that are named, those in folders that are, and those that match a pattern.

use super::source::CHILDREN_FOLDER;
use crate::cli::failure::Usage;
use anyhow::Context;
use std::path::{Component, Path, PathBuf};

/// Most folders within each other: agents keep files two or three levels deep.
const DEPTH_MAX: usize = 16;

/// The files to import, each once, in the order of the paths, those of a folder by name.
pub(super) fn files(paths: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut files: Vec<PathBuf> = Vec::new();
    for path in paths {
        let matches = match path.try_exists() {
            Ok(false) if is_pattern(path) => matching(path)?,
            _ => vec![path.clone()],
        };
        for path in matches {
            if path.is_dir() {
                let before = files.len();
                add_folder(&path, 0, &mut files)?;
                anyhow::ensure!(files.len() > before, "{}: there is no .jsonl file in it", path.display());
            } else {
                files.push(path);
            }
        }
    }
    let mut taken = std::collections::HashSet::new();
    files.retain(|file| taken.insert(file.canonicalize().unwrap_or_else(|_| file.clone())));
    Ok(files)
}

/// Adds the transcripts in a folder and below it. Links are not followed: they may lead out of it, or to itself.
fn add_folder(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    let entries = std::fs::read_dir(folder).and_then(|entries| entries.collect::<std::io::Result<Vec<_>>>());
    let mut entries = entries.with_context(|| format!("cannot read {}", folder.display()))?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let (path, kind) = (entry.path(), entry.file_type());
        let Ok(kind) = kind else { continue };
        if kind.is_dir() && entry.file_name() != CHILDREN_FOLDER && depth < DEPTH_MAX {
            add_folder(&path, depth + 1, files)?;
        } else if kind.is_file() && path.extension().is_some_and(|extension| extension == "jsonl") {
            files.push(path);
        }
    }
    Ok(())
}

fn is_pattern(path: &Path) -> bool {
    path.to_str().is_some_and(|text| text.contains(['*', '?']))
}

/// The paths that match a pattern, by name.
fn matching(pattern: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut paths = vec![PathBuf::new()];
    for component in pattern.components() {
        let Component::Normal(name) = component else {
            paths.iter_mut().for_each(|path| path.push(component));
            continue;
        };
        let name = name.to_string_lossy();
        if !name.contains(['*', '?']) {
            paths.iter_mut().for_each(|path| path.push(&*name));
            paths.retain(|path| path.exists());
            continue;
        }
        let mut next = Vec::new();
        for path in paths {
            let folder = if path.as_os_str().is_empty() { Path::new(".") } else { path.as_path() };
            let Ok(entries) = folder.read_dir() else { continue };
            let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
            let mut names: Vec<String> = names.filter(|own| matches(&name, own)).collect();
            names.sort();
            next.extend(names.into_iter().map(|own| path.join(own)));
        }
        paths = next;
    }
    match paths.is_empty() {
        true => Err(Usage(format!("{}: nothing matches it", pattern.display())).into()),
        false => Ok(paths),
    }
}

/// True if a name matches a pattern, in which `*` stands for any letters and `?` for one. A leading dot has to be named.
fn matches(pattern: &str, name: &str) -> bool {
    if name.starts_with('.') && !pattern.starts_with('.') {
        return false;
    }
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    // For each length of the name, whether the pattern so far matches its beginning.
    let mut reached: Vec<bool> = (0..=name.len()).map(|length| length == 0).collect();
    for letter in pattern {
        let before = reached.clone();
        reached[0] = letter == '*' && before[0];
        for length in 1..=name.len() {
            reached[length] = match letter {
                '*' => before[length] || reached[length - 1],
                '?' => before[length - 1],
                letter => before[length - 1] && letter == name[length - 1],
            };
        }
    }
    reached[name.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_names() {
        for (pattern, name, expected) in [
            ("*.jsonl", "a.jsonl", true),
            ("*.jsonl", ".a.jsonl", false),
            (".*", ".a", true),
            ("a?c*", "abc", true),
            ("a?c*", "ac", false),
            ("*b*b", "abab", true),
            ("a", "ab", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn folders_and_patterns_give_each_file_once() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["b/two.jsonl", "b/subagents/agent-x.jsonl", "b/deep/three.jsonl", "a/one.jsonl", "a/notes.txt"] {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
            std::fs::write(path, "").expect("a file");
        }
        let at = |name: &str| folder.path().join(name);
        let all = [at("a/one.jsonl"), at("b/deep/three.jsonl"), at("b/two.jsonl")];
        assert_eq!(files(&[folder.path().to_owned(), at("a/one.jsonl")]).expect("files"), all);
        assert_eq!(files(&[at("*/*.jsonl")]).expect("files"), [at("a/one.jsonl"), at("b/two.jsonl")]);
        assert!(files(&[at("*/x*")]).is_err() && files(&[at("b/subagents/..")]).is_ok());
        assert_eq!(files(&[at("missing.jsonl")]).expect("it is named later"), [at("missing.jsonl")]);
    }
}
