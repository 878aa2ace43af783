use super::*;
use crate::policy::dsl;

fn collect(tools: FileTools, text: &str) -> (Vec<String>, Vec<String>) {
    FileOperations::collect(tools, &dsl::parse(text)).lists()
}

fn strings(paths: &[&str]) -> Vec<String> {
    paths.iter().map(|path| (*path).to_owned()).collect()
}

#[test]
fn pi_knows_three_tools_and_one_field() {
    let text = r#"a1
  call read#c1 in={"path": "/r"}
  call write#c2 in={"path": "/w"}
  call edit#c3 in={"path": "/e", "oldText": "x"}
  call read#c4 in={"path": ""}
  call read#c5 in={"path": 5}
  call read#c6 in={"file_path": "/no"}
  call Read#c7 in={"path": "/no"}
  call grep#c8 in={"path": "/no"}
  call read#c9 in="no object"
  call read#c10 in=["/no"]
"#;
    assert_eq!(collect(FileTools::Pi, text), (strings(&["/r"]), strings(&["/e", "/w"])));
}

#[test]
fn other_agents_tools_are_known_by_name_and_field() {
    for (tool, input, expected) in [
        ("Read", r#"{"file_path":"/a"}"#, Some(FileOperation::Read)),
        ("read_file", r#"{"absolute_path":"/a"}"#, Some(FileOperation::Read)),
        ("Write", r#"{"filePath":"/a","content":""}"#, Some(FileOperation::Write)),
        ("MultiEdit", r#"{"file_path":"/a"}"#, Some(FileOperation::Edit)),
        ("str_replace", r#"{"path":"/a"}"#, Some(FileOperation::Edit)),
        ("NotebookEdit", r#"{"notebook_path":"/a"}"#, Some(FileOperation::Edit)),
        ("Grep", r#"{"path":"/a"}"#, None),
        ("Read", r#"{"url":"/a"}"#, None),
        ("Read", "not JSON", None),
    ] {
        let call = ToolCall { tool: tool.to_owned(), input_json: input.to_owned(), ..ToolCall::default() };
        let actual = operation(FileTools::Any, &call);
        assert_eq!(actual, expected.map(|operation| (operation, "/a".to_owned())), "{tool} {input}");
    }
}

#[test]
fn a_file_that_was_modified_is_not_listed_as_read() {
    let text = "a1\n  call read#c1 in={\"path\":\"/a.ts\"}\n  call edit#c2 in={\"path\":\"/b.ts\"}";
    let later = "a2\n  call write#c3 in={\"path\":\"/a.ts\"}";
    assert_eq!(collect(FileTools::Pi, &format!("{text}\n{later}")), (vec![], strings(&["/a.ts", "/b.ts"])));
}

/// pi's recorded compaction after a compaction: the earlier lists were read /q.ts and modified /a.ts.
#[test]
fn the_lists_of_an_earlier_summary_go_on() {
    let mut operations = FileOperations::default();
    operations.inherit(strings(&["/q.ts"]), strings(&["/a.ts"]));
    let calls = "a1\n  call edit#c1 in={\"path\":\"/b.ts\"}\n  call write#c2 in={\"path\":\"/a.ts\"}";
    for part in &dsl::parse(calls)[0].message.parts {
        if let PartBody::ToolCall(call) = &*part.body {
            operations.add(FileTools::Pi, call);
        }
    }
    let names = |set: &BTreeSet<String>| set.iter().cloned().collect::<Vec<_>>();
    assert_eq!(names(&operations.read), ["/q.ts"]);
    assert_eq!(names(&operations.written), ["/a.ts"]);
    assert_eq!(names(&operations.edited), ["/a.ts", "/b.ts"]);
    assert_eq!(operations.lists(), (strings(&["/q.ts"]), strings(&["/a.ts", "/b.ts"])));
}

#[test]
fn paths_are_sorted_as_javascript_sorts() {
    let paths = sorted(strings(&["b", "\u{ffee}", "😀", "a"]));
    assert_eq!(paths, ["a", "b", "😀", "\u{ffee}"]);
}

#[test]
fn tags_are_written_and_read_back() {
    for (read, modified, text) in [
        (strings(&[]), strings(&[]), ""),
        (strings(&["/r"]), strings(&[]), "\n\n<read-files>\n/r\n</read-files>"),
        (strings(&[]), strings(&["/m"]), "\n\n<modified-files>\n/m\n</modified-files>"),
        (
            strings(&["/a b", "/r"]),
            strings(&["/m", "/n"]),
            "\n\n<read-files>\n/a b\n/r\n</read-files>\n\n<modified-files>\n/m\n/n\n</modified-files>",
        ),
    ] {
        assert_eq!(tags(&read, &modified), text);
        let summary = format!("## Goal\n- it{text}");
        assert_eq!(parse_tags(&summary), (read, modified));
        assert_eq!(strip_tags(&summary), "## Goal\n- it");
    }
}

#[test]
fn the_last_tags_count_and_broken_ones_do_not() {
    let quoted = "It said <read-files>\n/old\n</read-files> then\n\n<read-files>\n/new\n</read-files>";
    assert_eq!(parse_tags(quoted).0, ["/new"]);
    assert_eq!(strip_tags(quoted), "It said <read-files>\n/old\n</read-files> then");
    for broken in ["<read-files>", "</read-files>", "\n</read-files>\n<read-files>\n/x", "<read-files>\n</read-files>"]
    {
        assert_eq!(parse_tags(broken), (vec![], vec![]), "{broken:?}");
    }
}
