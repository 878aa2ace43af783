//! The pieces that sections are made of.

use super::super::commands::{self, Purpose};
use super::super::names::{self, Token};
use super::super::text::{self, Lead};
use super::super::tools::{self, Kind};
use serde_json::json;

#[test]
fn texts_are_clipped_behind_sentences_or_words() {
    let cases = [
        ("short", 10, "short"),
        ("One sentence here. And another one that is long", 30, "One sentence here."),
        ("no sentence ends in this long line of words", 20, "no sentence ends in…"),
        ("call `some_function_name` now and again", 12, "call `some_`…"),
        ("v1.2 e.g. this. Then more words follow", 20, "v1.2 e.g. this."),
        ("一个很长的句子。后面还有很多别的内容", 10, "一个很长的句子。"),
        ("一二三四五六七八九十", 4, "一二三…"),
    ];
    for (given, limit, expected) in cases {
        assert_eq!(text::clip(given, limit), expected, "{given}");
        assert!(text::clip(given, limit).chars().count() <= limit + 2, "{given}");
    }
}

#[test]
fn lines_are_told_by_how_they_begin() {
    let cases = [
        ("# Title", Lead::Heading, "Title"),
        ("#hashtag", Lead::Plain, "#hashtag"),
        ("- point", Lead::Bullet, "point"),
        ("2. second", Lead::Number, "second"),
        ("2.5 litres", Lead::Plain, "2.5 litres"),
        ("* [ ] open", Lead::Unchecked, "open"),
        ("1. [x] ticked", Lead::Checked, "ticked"),
        ("✅ ticked", Lead::Checked, "ticked"),
    ];
    for (line, lead, rest) in cases {
        let lines = text::prose(line);
        assert_eq!((lines[0].lead, lines[0].text), (lead, rest), "{line}");
    }
    assert_eq!(text::prose("```\ncode\n```\n| a table |\n> a quotation\n---\n"), []);
}

#[test]
fn harmless_lines_have_no_tags_escapes_or_breaks() {
    let cases = [
        ("a\nb\tc", "a b c"),
        ("\u{1b}[1;31mred\u{1b}[0m", "red"),
        ("zero\u{200b}width\u{202e}", "zerowidth"),
        ("</summary> and <read-files>", "‹/summary> and ‹read-files>"),
        ("<system_note>x", "‹system_note>x"),
        ("Vec<String> and </div>", "Vec<String> and </div>"),
        ("an open `quotation", "an open `quotation`"),
    ];
    for (given, expected) in cases {
        assert_eq!(text::defuse(given), expected);
    }
    assert_eq!(text::code("a `b` c"), "`` a `b` c ``");
}

#[test]
fn tools_are_told_by_name_and_input() {
    let cases = [
        ("Read", json!({"file_path": "/a.rs"}), Kind::Read, vec!["/a.rs"]),
        ("read_file", json!({"path": "a.rs"}), Kind::Read, vec!["a.rs"]),
        ("mcp__fs__writeFile", json!({"path": "a.rs", "content": "x"}), Kind::Write, vec!["a.rs"]),
        ("MultiEdit", json!({"file_path": "a.rs", "edits": []}), Kind::Edit, vec!["a.rs"]),
        ("str_replace_editor", json!({"command": "view", "path": "a.rs"}), Kind::Read, vec!["a.rs"]),
        ("str_replace_editor", json!({"command": "create", "path": "a.rs"}), Kind::Write, vec!["a.rs"]),
        (
            "apply_patch",
            json!({"input": "*** Begin Patch\n*** Update File: a.rs\n*** Add File: b.rs\n"}),
            Kind::Edit,
            vec!["a.rs", "b.rs"],
        ),
        ("bash", json!({"command": "ls"}), Kind::Command, vec![]),
        ("shell", json!({"command": ["bash", "-lc", "ls"]}), Kind::Command, vec![]),
        ("grep", json!({"pattern": "x", "path": "src"}), Kind::Search, vec![]),
        ("update_plan", json!({"plan": [{"step": "x", "status": "pending"}]}), Kind::Tasks, vec![]),
        ("Task", json!({"description": "look", "prompt": "around"}), Kind::Other, vec![]),
        ("weather", json!("not an object"), Kind::Other, vec![]),
    ];
    for (tool, input, kind, paths) in cases {
        let call = tools::understand(tool, &input.to_string());
        let found: Vec<&str> = call.paths.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!((call.kind, found), (kind, paths), "{tool} {input}");
    }
    assert_eq!(tools::understand("shell", r#"{"command":["bash","-lc","ls -a"]}"#).command.as_deref(), Some("ls -a"));
    assert_eq!(tools::understand("odd", "{broken").texts, ["{broken"]);
}

#[test]
fn commands_are_told_by_their_verb() {
    let cases = [
        ("cargo test --all", Purpose::Verify),
        ("cd packages/web && npm run check 2>&1 | tail -3", Purpose::Verify),
        ("python -m pytest tests", Purpose::Verify),
        ("git commit -m 'test it'", Purpose::Record),
        ("git push origin main", Purpose::Record),
        ("git log --oneline", Purpose::Look),
        ("cat build.log", Purpose::Look),
        ("grep -rn test src", Purpose::Look),
        ("npm install left-pad", Purpose::Change),
    ];
    for (command, purpose) in cases {
        assert_eq!(commands::purpose(command), purpose, "{command}");
    }
    assert_eq!(commands::shown("make all 2>&1 | tail -5"), "make all");
    assert_eq!(commands::shown("cat > a.py <<'EOF'\nprint(1)\nEOF"), "cat > a.py <<'EOF' …");
}

#[test]
fn names_and_paths_are_found_and_noise_is_not() {
    let given = "see src/a/mod_name.rs:12 and `load_all`, fooBar(), Mod.Sub.call/2, io::Read, README.md, \
        https://x.example/a_b.html deadBEEF0123456789 the end. \"one\\nTwoWords\" ./run.sh 3.14 a/b";
    let mut paths = Vec::new();
    let mut files = Vec::new();
    let mut found = Vec::new();
    names::scan(given, |token| match token {
        Token::Path(path) => paths.push(path),
        Token::File(file) => files.push(file),
        Token::Name(name) => found.push(name),
    });
    assert_eq!(paths, ["src/a/mod_name.rs", "./run.sh"]);
    assert_eq!(files, ["README.md"]);
    assert_eq!(found, ["load_all", "fooBar", "Mod.Sub.call", "io::Read", "TwoWords"]);
}
