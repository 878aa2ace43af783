//! Tests of the readers of commands, tool calls and text.

use super::super::commands::{self, Purpose};
use super::super::coverage::Coverage;
use super::super::statements;
use super::super::text::{self, Lead};
use super::super::tools::{self, Kind};
use serde_json::json;

#[test]
fn texts_are_clipped_behind_words() {
    let cases = [
        ("short", 10, "short"),
        ("One sentence here. And another one that is long", 30, "One sentence here. And…"),
        ("no sentence ends in this long line of words", 20, "no sentence ends in…"),
        ("call `some_function_name` now and again", 12, "call `some_`…"),
        ("一二三四五六七八九十", 4, "一二三…"),
    ];
    for (given, limit, expected) in cases {
        assert_eq!(text::clip(given, limit), expected, "{given}");
        assert!(text::clip(given, limit).chars().count() <= limit + 2, "{given}");
    }
}

#[test]
fn sentences_end_behind_their_marks() {
    let line = "Show a count (e.g. `Closed 7. rows`). Is it v1.2? 先别动表。Go on";
    let expected = ["Show a count (e.g. `Closed 7. rows`).", "Is it v1.2?", "先别动表。", "Go on"];
    assert_eq!(text::sentences_of(line), expected);
}

#[test]
fn lines_are_classified_by_their_beginning() {
    let cases = [
        ("# Title", Lead::Heading, "Title"),
        ("#hashtag", Lead::Plain, "#hashtag"),
        ("- point", Lead::Bullet, "point"),
        ("2. second", Lead::Plain, "second"),
        ("2.5 litres", Lead::Plain, "2.5 litres"),
        ("* [ ] open", Lead::Unchecked, "open"),
        ("1. [x] ticked", Lead::Bullet, "ticked"),
        ("✅ ticked", Lead::Bullet, "ticked"),
    ];
    for (line, lead, rest) in cases {
        let lines = text::prose(line);
        assert_eq!(lines[0], (lead, rest), "{line}");
    }
    assert_eq!(text::prose("```\ncode\nmore\n```\n| a table |\n> a quotation\n---\n"), []);
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
fn tools_are_classified_by_name_and_input() {
    let cases = [
        ("Read", json!({"file_path": "/a.rs"}), Kind::Other, vec!["/a.rs"]),
        ("read_file", json!({"path": "a.rs"}), Kind::Other, vec!["a.rs"]),
        ("mcp__fs__writeFile", json!({"path": "a.rs", "content": "x"}), Kind::Write, vec!["a.rs"]),
        ("MultiEdit", json!({"file_path": "a.rs", "edits": []}), Kind::Edit, vec!["a.rs"]),
        ("str_replace_editor", json!({"command": "view", "path": "a.rs"}), Kind::Other, vec!["a.rs"]),
        ("str_replace_editor", json!({"command": "create", "path": "a.rs"}), Kind::Write, vec!["a.rs"]),
        (
            "apply_patch",
            json!({"input": "*** Begin Patch\n*** Update File: a.rs\n*** Add File: b.rs\n"}),
            Kind::Edit,
            vec!["a.rs", "b.rs"],
        ),
        ("bash", json!({"command": "ls"}), Kind::Command, vec![]),
        ("shell", json!({"command": ["bash", "-lc", "ls"]}), Kind::Command, vec![]),
        ("grep", json!({"pattern": "x", "path": "src"}), Kind::Other, vec!["src"]),
        ("update_plan", json!({"plan": [{"step": "x", "status": "pending"}]}), Kind::Other, vec![]),
        ("Task", json!({"description": "look", "prompt": "around"}), Kind::Other, vec![]),
        ("WebSearch", json!({"query": "x"}), Kind::Other, vec![]),
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
fn commands_are_classified_by_their_verb() {
    let cases = [
        ("cargo test --all", Purpose::Verify),
        ("npm run check", Purpose::Verify),
        ("./run_tests.sh --fast", Purpose::Verify),
        ("cp a/test.json b/check.json", Purpose::Change),
        ("python -m pytest tests", Purpose::Verify),
        ("git commit -m 'test it'", Purpose::Record),
        ("git push origin main", Purpose::Record),
        ("git log --oneline", Purpose::Inspect),
        ("cat build.log", Purpose::Inspect),
        ("grep -rn test src", Purpose::Inspect),
        ("npm install left-pad", Purpose::Change),
    ];
    for (command, purpose) in cases {
        assert_eq!(commands::purpose(command), purpose, "{command}");
    }
    assert_eq!(commands::shown("cat > a.py <<'EOF'\nprint(1)\nEOF"), "cat > a.py <<'EOF' …");
}

#[test]
fn a_command_line_is_read_as_the_commands_that_it_runs() {
    let cases: [(&str, &[&str]); 9] = [
        ("cat > a.py <<'EOF'\nimport os; os.remove('b')\nEOF\npython3 a.py", &["cat", "python3 a.py"]),
        ("python3 - <<EOF\nprint(1)\nnever ends", &["python3 -"]),
        (
            "git commit -m \"$(cat <<'EOF'\nfix: a; b\nEOF\n)\" && git push",
            &["git commit -m \"$(cat \n)\"", "git push"],
        ),
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
    let cases = [
        (
            "Traceback (most recent call last):\n  File \"a.py\", line 3, in f\n    x()\nKeyError: 'b'".to_owned(),
            "KeyError: 'b'",
        ),
        (
            "error[E0308]: mismatched types\n --> src/lib.rs:4:9\nerror: aborting due to 1 previous error".to_owned(),
            "error[E0308]: mismatched types",
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

/// Outputs of failed runners, compilers and linters: the decisive line, and the line with counts.
#[test]
fn the_deciding_line_is_found_whoever_printed_it() {
    let cases = [
        (
            "=== RUN   TestTotal\n    total_test.go:31: got 12, want 13\n--- FAIL: TestTotal (0.00s)\nFAIL\nexit status 1",
            "total_test.go:31: got 12, want 13",
            None,
        ),
        ("# example.com/shop\n./main.go:12:2: undefined: Total", "./main.go:12:2: undefined: Total", None),
        (
            "tests/test_a.py .F.\n>       assert total([1]) == 2\nE       assert 1 == 2\n\ntests/test_a.py:7: AssertionError\n\
             FAILED tests/test_a.py::test_total\n==== 1 failed, 2 passed in 0.12s ====",
            "E assert 1 == 2",
            Some("1 failed, 2 passed in 0.12s"),
        ),
        (
            "FAIL src/cart.test.ts\n  ● cart › adds up\n\n    Expected: 3\n    Received: 2\n\n      at src/cart.test.ts:11:27\n\
             Tests:       1 failed, 21 passed, 22 total\nTime:        2.1 s",
            "● cart › adds up",
            Some("Tests: 1 failed, 21 passed, 22 total"),
        ),
        (
            "test b ... FAILED\nthread 'b' panicked at src/lib.rs:9:5:\nassertion `left == right` failed\n\
             test result: FAILED. 2 passed; 1 failed",
            "thread 'b' panicked at src/lib.rs:9:5: assertion `left == right` failed",
            Some("test result: FAILED. 2 passed; 1 failed"),
        ),
        (
            "[INFO] Scanning\norg.opentest4j.AssertionFailedError: expected: <3> but was: <2>\n\tat x(CartTest.java:21)\n\
             [INFO] BUILD FAILURE",
            "org.opentest4j.AssertionFailedError: expected: <3> but was: <2>",
            None,
        ),
        (
            "src/a.py:1:8: F401 `os` imported but unused\nFound 1 error.",
            "src/a.py:1:8: F401 `os` imported but unused",
            Some("Found 1 error."),
        ),
        (
            "npm ERR! code ERESOLVE\nnpm ERR! ERESOLVE unable to resolve dependency tree",
            "npm ERR! ERESOLVE unable to resolve dependency tree",
            None,
        ),
    ];
    for (output, deciding, counts) in cases {
        assert!(commands::reports_failure(output), "{output}");
        assert_eq!(commands::deciding(output).as_deref(), Some(deciding), "{output}");
        assert_eq!(commands::result(output).as_deref(), counts, "{output}");
    }
    let twice = "test result: ok. 3 passed; 0 failed\n\n   Doc-tests shop\n\ntest result: ok. 0 passed; 0 failed";
    assert_eq!(commands::result(twice).as_deref(), Some("test result: ok. 3 passed; 0 failed"));
    assert!(!commands::reports_failure(twice));
}

#[test]
fn names_and_values_are_worth_more_than_other_words_as_rare() {
    let gains = |texts: &[(&str, bool)]| -> Vec<f64> {
        let (coverage, all) = Coverage::from_texts(texts.iter().copied());
        all.iter().map(|terms| coverage.gain(terms, 1.0)).collect()
    };
    let more =
        [("Then tell Quetzal", "Then tell quetzal"), ("it costs 7600", "it costs plenty"), ("in 19/b", "in berth")];
    let as_much = [("Plenty is there", "plenty is there"), ("It is so. Berth!", "berth"), ("on-call", "berth")];
    for (cases, is_more) in [(more, true), (as_much, false)] {
        for (one, other) in cases {
            let (one, other) =
                (gains(&[(one, false), ("quay", false)])[0], gains(&[(other, false), ("quay", false)])[0]);
            assert!(if is_more { one > other } else { (one - other).abs() < 1e-9 }, "{one} {other}: {cases:?}");
        }
    }
    // A whole text makes the words of its pieces no less rare.
    let gains = gains(&[("berth crane", true), ("berth", false), ("crane", false), ("tide", false)]);
    assert!((gains[1] - gains[3]).abs() < 1e-9, "{gains:?}");
}

#[test]
fn a_value_stays_in_one_statement_with_its_exception() {
    for exception in [
        ", but for uploads 5.",
        ". For uploads 5.",
        ". Uploads: five!",
        "; uploads have 5, as ever.",
        "。 上传是五次。",
    ] {
        let words = format!(
            "As agreed with Farida, calls of the harbour office are repeated 3 times{exception} The tide tables of the quay stay in feet."
        );
        let pieces = statements::pieces(&words);
        assert!(pieces.iter().any(|(_, piece)| piece.contains(&format!("3 times{exception}"))), "{pieces:?}");
        assert!(pieces.len() > 1, "{pieces:?}");
    }
}
