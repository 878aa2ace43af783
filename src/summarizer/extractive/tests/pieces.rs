//! The pieces that sections are made of.

use super::super::commands::{self, Purpose};
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
        ("Task", json!({"description": "look", "prompt": "around"}), Kind::Tell, vec![]),
        ("WebSearch", json!({"query": "x"}), Kind::Tell, vec![]),
        ("AskUserQuestion", json!({"questions": []}), Kind::Ask, vec![]),
        ("TaskOutput", json!({"task_id": "x"}), Kind::Other, vec![]),
        ("weather", json!("not an object"), Kind::Other, vec![]),
    ];
    for (tool, input, kind, paths) in cases {
        let call = tools::understand(tool, &input.to_string());
        let found: Vec<&str> = call.touches.iter().map(|touch| touch.path.as_str()).collect();
        assert_eq!((call.kind, found), (kind, paths), "{tool} {input}");
    }
    assert_eq!(tools::understand("shell", r#"{"command":["bash","-lc","ls -a"]}"#).command.as_deref(), Some("ls -a"));
    assert_eq!(tools::understand("odd", "{broken").about, "{broken");
}

#[test]
fn commands_are_told_by_their_verb() {
    let cases = [
        ("cargo test --all", Purpose::Verify),
        ("npm run check", Purpose::Verify),
        ("./run_tests.sh --fast", Purpose::Verify),
        ("cp a/test.json b/check.json", Purpose::Change),
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
    assert_eq!(commands::shown("cat > a.py <<'EOF'\nprint(1)\nEOF"), "cat > a.py <<'EOF' …");
}

#[test]
fn a_command_line_is_read_as_the_commands_that_it_runs() {
    let cases: [(&str, &[&str]); 6] = [
        ("cd packages/web && npm run check 2>&1 | tail -3", &["npm run check", "tail -3"]),
        (
            "git add -A && git commit -m \"a; b && c\" && git push",
            &["git add -A", "git commit -m \"a; b && c\"", "git push"],
        ),
        ("MIX_ENV=test mix test > out.txt; echo done", &["mix test", "echo done"]),
        ("# look\nls", &["ls"]),
        ("(make all)", &["make all)"]),
        ("", &[]),
    ];
    for (line, expected) in cases {
        assert_eq!(commands::simple(line), expected, "{line}");
    }
}

#[test]
fn the_deciding_line_of_an_output_is_not_its_first() {
    let banner = "==> dep\nCompiling 12 files (.ex)\n".repeat(40);
    let cases = [
        (
            format!(
                "{banner}    warning: the following pattern can never match\n    │\n 12 │   nil -> :ok\n    └─ lib/a.ex:12:5\n\
                 Compilation failed due to warnings while using the --warnings-as-errors option"
            ),
            "warning: the following pattern can never match (lib/a.ex:12)",
        ),
        (
            "Traceback (most recent call last):\n  File \"a.py\", line 3, in f\n    x()\nKeyError: 'b'".to_owned(),
            "KeyError: 'b'",
        ),
        (
            "error[E0308]: mismatched types\n --> src/lib.rs:4:9\nerror: aborting due to 1 previous error".to_owned(),
            "error[E0308]: mismatched types (src/lib.rs:4)",
        ),
        (
            "error: could not compile `x`\nsrc/a.ts(3,1): error TS2304: Cannot find name 'x'.".to_owned(),
            "src/a.ts(3,1): error TS2304: Cannot find name 'x'.",
        ),
        ("ok\nok\nthe disk says no".to_owned(), "the disk says no"),
    ];
    for (output, expected) in cases {
        assert_eq!(commands::deciding(&output).as_deref(), Some(expected), "{output}");
    }
    assert_eq!(commands::deciding(""), None);
}
