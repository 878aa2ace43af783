//! Names in text: identifiers and paths, found in one pass.

/// Something with a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// A path with at least one directory.
    Path(&'a str),
    /// A file name without a directory.
    File(&'a str),
    /// An identifier that is no everyday word.
    Name(&'a str),
}

/// The longest token that is taken for a name. Longer ones are data.
const NAME_LENGTH_MAX: usize = 64;

/// The longest token that is taken for a path.
const PATH_LENGTH_MAX: usize = 240;

const EXTENSIONS: &[&str] = &[
    "rs", "py", "js", "ts", "tsx", "jsx", "mjs", "cjs", "go", "java", "kt", "kts", "c", "h", "cc", "cpp", "hpp", "cs",
    "rb", "ex", "exs", "erl", "heex", "eex", "leex", "php", "swift", "scala", "clj", "hs", "ml", "lua", "sh", "bash",
    "zsh", "fish", "ps1", "bat", "sql", "html", "htm", "css", "scss", "less", "vue", "svelte", "json", "jsonl", "yaml",
    "yml", "toml", "ini", "cfg", "conf", "env", "xml", "md", "mdx", "rst", "txt", "csv", "tsv", "lock", "proto",
    "graphql", "gradle", "dart", "zig", "nim", "r", "jl", "ipynb", "tf", "nix", "cmake", "mk", "log", "svg", "png",
    "jpg", "pdf", "plist", "service", "patch", "diff", "prisma", "astro", "output",
];

/// Calls `take` with every named thing in a text, in order.
pub(super) fn scan<'a>(text: &'a str, mut take: impl FnMut(Token<'a>)) {
    let is_part = |letter: char| {
        letter.is_ascii_alphanumeric() || matches!(letter, '_' | '.' | '/' | '~' | '@' | '-' | ':' | '+')
    };
    let mut escaped = false;
    for piece in text.split_inclusive(|letter: char| !is_part(letter)) {
        let mut chunk = piece.trim_end_matches(|letter: char| !is_part(letter));
        // In `"one\nTwo"` the name is `Two`.
        if std::mem::replace(&mut escaped, piece.ends_with('\\')) {
            chunk = chunk.strip_prefix(['n', 'r', 't']).unwrap_or(chunk);
        }
        if chunk.len() < 3 || chunk.len() > PATH_LENGTH_MAX {
            continue;
        }
        scan_chunk(chunk, &mut take);
    }
}

fn scan_chunk<'a>(chunk: &'a str, take: &mut impl FnMut(Token<'a>)) {
    let bare = chunk.trim_end_matches(['.', ':', '-', '+', '/', '@']);
    if bare.contains('/') {
        if !bare.contains("://") {
            let path = without_line_number(bare);
            if is_path(path) {
                take(Token::Path(path));
                return;
            }
        } else {
            return;
        }
        // A directory: its segments are no names.
        if bare.starts_with(['/', '~']) && bare.matches('/').count() > 2 {
            return;
        }
    }
    for word in bare.split(['/', '~', '@', '+', '-']) {
        if is_file_name(word) && bare.len() == word.len() {
            take(Token::File(word));
        } else if bare.contains('-') && is_file_name(bare) {
            take(Token::File(bare));
            return;
        } else {
            scan_word(word, take);
        }
    }
}

fn scan_word<'a>(word: &'a str, take: &mut impl FnMut(Token<'a>)) {
    let word = word.trim_matches(['.', ':']);
    if word.len() < 4 || word.len() > NAME_LENGTH_MAX {
        return;
    }
    let is_dotted = word.contains('.') && word.starts_with(|letter: char| letter.is_ascii_uppercase());
    let is_scoped = word.contains("::");
    if (is_dotted || is_scoped) && is_qualified(word) {
        take(Token::Name(word));
        return;
    }
    for piece in word.split(['.', ':']) {
        if is_name(piece) {
            take(Token::Name(piece));
        }
    }
}

/// `Module.function`, `Type::method`: every segment is an identifier.
fn is_qualified(word: &str) -> bool {
    let mut segments = word.split(['.', ':']).filter(|segment| !segment.is_empty()).peekable();
    let mut count = 0;
    let shaped = segments.by_ref().all(|segment| {
        count += 1;
        segment.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_')
            && segment.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
    });
    shaped && count >= 2 && is_plausible(word)
}

/// Whether a word is written as programmers write names: with an underscore or a capital inside.
fn is_name(word: &str) -> bool {
    if word.len() < 4 || !is_plausible(word) || word.starts_with(|letter: char| letter.is_ascii_digit()) {
        return false;
    }
    let letters = word.as_bytes();
    let has_underscore = word.trim_matches('_').contains('_');
    let has_hump = letters.windows(2).any(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase());
    has_underscore || has_hump
}

/// Whether a word could mean something: keys, hashes and base64 have too many digits and changes of case.
fn is_plausible(word: &str) -> bool {
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    let humps =
        word.as_bytes().windows(2).filter(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase()).count();
    let letters = word.bytes().filter(u8::is_ascii_alphabetic).count();
    letters >= 3 && digits * 3 <= word.len() && humps * 4 <= word.len() + 4
}

fn is_file_name(word: &str) -> bool {
    let Some((stem, extension)) = word.rsplit_once('.') else { return false };
    stem.bytes().any(|letter| letter.is_ascii_alphabetic())
        && !matches!(extension, "log" | "output" | "env")
        && EXTENSIONS.contains(&extension)
}

/// Whether a token with a slash names a file: its last segment has an extension.
pub(super) fn is_path(path: &str) -> bool {
    let base = base_name(path);
    let Some((stem, extension)) = base.rsplit_once('.') else {
        return matches!(
            base,
            "Makefile" | "Dockerfile" | "Gemfile" | "Rakefile" | "Procfile" | "Justfile" | "LICENSE"
        );
    };
    let named = !stem.is_empty() || path.len() > base.len() + 1;
    // An ending that nobody knows is one only where the directories make it likely.
    let is_likely = path.matches('/').count() > 1
        && (1..=6).contains(&extension.len())
        && extension.starts_with(|letter: char| letter.is_ascii_lowercase())
        && extension.bytes().all(|letter| letter.is_ascii_alphanumeric());
    named
        && (is_likely || EXTENSIONS.contains(&extension))
        && !path.contains("//")
        && !path.contains(':')
        && !base.contains('@')
}

fn without_line_number(path: &str) -> &str {
    match path.find(':') {
        Some(colon) if path[colon + 1..].starts_with(|letter: char| letter.is_ascii_digit()) => &path[..colon],
        _ => path,
    }
}

/// The last segment of a path, whichever way its slashes lean.
pub(super) fn base_name(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

/// The path that a line of a summary is about: the quoted one that it begins with.
pub(super) fn leading_path(line: &str) -> Option<&str> {
    let quoted = line.trim_start().strip_prefix("- ")?.strip_prefix('`')?;
    let path = quoted.split('`').next()?;
    is_path(path).then_some(path)
}
