//! How files are called: in full once, under the folder that the work is done in, and everywhere else by as little of the
//! path as tells them apart.

use super::files::Files;
use super::text;
use std::collections::HashMap;

/// Names that say nothing without their folder.
const PLAIN: [&str; 12] =
    ["mod", "index", "main", "lib", "__init__", "page", "route", "layout", "test", "types", "utils", "config"];

/// The names of the files of a history.
#[derive(Debug, Default)]
pub(super) struct Names {
    root: Option<String>,
    /// How many files have each last segment.
    counts: HashMap<String, usize>,
}

impl Names {
    /// Reads which files there are.
    pub(super) fn of(files: &Files) -> Self {
        let mut counts: HashMap<String, usize> = HashMap::new();
        let read = files.read.keys().filter(|path| !files.is_changed(path));
        for path in files.changed.iter().map(|file| &file.path).chain(read) {
            *counts.entry(text::base_name(path).to_owned()).or_default() += 1;
        }
        Self { root: files.root(), counts }
    }

    /// The folder that the work is done in.
    pub(super) fn root(&self) -> Option<&str> {
        self.root.as_deref()
    }

    /// A path from that folder on.
    pub(super) fn relative<'p>(&self, path: &'p str) -> &'p str {
        let inside = self.root.as_deref().and_then(|root| path.strip_prefix(root)?.strip_prefix('/'));
        inside.unwrap_or(path)
    }

    /// A path as it is mentioned.
    pub(super) fn shown(&self, path: &str) -> String {
        let base = text::base_name(path);
        let stem = base.split('.').next().unwrap_or_default();
        let relative = self.relative(path);
        let short = match self.counts.get(base) {
            Some(1) if !PLAIN.contains(&stem) => base,
            Some(1) => {
                let folder = relative[..relative.len() - base.len()].trim_end_matches('/');
                &relative[folder.rfind('/').map_or(0, |at| at + 1)..]
            }
            _ => relative,
        };
        text::code(&short.replace('`', "'"))
    }
}
