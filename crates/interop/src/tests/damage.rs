//! Damaged files: what is whole is read once, and what is not is kept as a record and reported.

use super::*;

/// A request, its call, the result and the answer, as rows of a format.
fn rows(format: Format) -> Vec<String> {
    let claude = |kind: &str, id: &str, parent: Option<&str>, message: Value| {
        json!({"parentUuid":parent,"isSidechain":false,"sessionId":"s","type":kind,"uuid":id,
            "timestamp":"2026-01-02T03:04:05.250Z","message":message})
    };
    let pi = |id: &str, parent: Option<&str>, message: Value| json!({"type":"message","id":id,"parentId":parent,"timestamp":"2026-01-02T03:04:05.250Z","message":message});
    let text = |text: &str| json!([{"type":"text","text":text}]);
    let use_block = json!({"type":"tool_use","id":"c","name":"read","input":{"path":"/a"}});
    let call_block = json!({"type":"toolCall","id":"c","name":"read","arguments":{"path":"/a"}});
    let result = json!({"type":"tool_result","tool_use_id":"c","content":"found {\"type\":\"user\"}"});
    let rows = match format {
        Format::ClaudeCode => vec![
            claude("user", "u", None, json!({"role":"user","content":"look {\"timestamp\":1}"})),
            claude("assistant", "a", Some("u"), json!({"id":"m1","role":"assistant","content":[use_block]})),
            claude("user", "r", Some("a"), json!({"role":"user","content":[result]})),
            claude("assistant", "b", Some("r"), json!({"id":"m2","role":"assistant","content":text("done")})),
        ],
        Format::Pi => vec![
            json!({"type":"session","version":3,"id":"s","timestamp":"2026-01-02T03:04:05.000Z","cwd":"/"}),
            pi("u", None, json!({"role":"user","content":"look {\"timestamp\":1}"})),
            pi("a", Some("u"), json!({"role":"assistant","content":[call_block],"stopReason":"toolUse"})),
            pi("r", Some("a"), json!({"role":"toolResult","toolCallId":"c","toolName":"read","content":text("found")})),
            pi("b", Some("r"), json!({"role":"assistant","content":text("done"),"stopReason":"stop"})),
        ],
    };
    rows.iter().map(Value::to_string).collect()
}

const FORMATS: [Format; 2] = [Format::ClaudeCode, Format::Pi];

/// Checks that a text has the one conversation of [`rows`], and returns the texts of its malformed records.
#[track_caller]
fn conversation(text: &str, format: Format) -> Vec<String> {
    let transcript = read(text, format);
    check(text, &transcript);
    assert_eq!((transcript.branches.len(), transcript.children.len()), (1, 0), "{text}");
    let spoken = transcript.branches[0].entries.iter().filter(|entry| matches!(entry, Entry::Message { .. }));
    assert_eq!(spoken.map(Entry::client_id).collect::<Vec<_>>(), ["u", "a", "r", "b"], "{text}");
    let totals = expectations(&transcript);
    assert_eq!((totals.calls, totals.unanswered_calls), (1, 0), "{text}");
    let records = transcript.branches[0].entries.iter().filter_map(|entry| match entry {
        Entry::Record { line, message } => Some((*line, message)),
        Entry::Message { .. } | Entry::Compaction(_) | Entry::Edit(_) => None,
    });
    let mut malformed = Vec::new();
    for (line, message) in records {
        let PartBody::Record(record) = &*message.parts[0].body else { panic!("{message:?}") };
        if record.kind == MALFORMED_RECORD {
            assert!(problems(&transcript).iter().any(|(number, _)| *number == line), "line {line} is not reported");
            malformed.push(record.data.clone());
        }
    }
    malformed
}

#[test]
fn two_records_on_one_line_are_both_read() {
    for format in FORMATS {
        let rows = rows(format);
        for between in ["", " ", "\t\r", "\u{feff}"] {
            assert_eq!(conversation(&rows.join(between), format), Vec::<String>::new());
            // The format is found too.
            let options = Options::default();
            assert_eq!(parse(rows.join(between).as_bytes(), &options).unwrap(), read(&rows.join(between), format));
        }
        let transcript = read(&format!("{}\n{}", rows[0], rows[1..].concat()), format);
        let number = rows.len() - 1;
        let message = format!("{number} objects stand on this line: each is read by itself");
        assert_eq!(problems(&transcript), [(2, message.as_str())]);
    }
}

#[test]
fn a_record_after_a_stub_or_zeros_is_read() {
    for format in FORMATS {
        let rows = rows(format);
        let last = rows.len() - 1;
        let cut = &rows[last - 1];
        let stubs = (1..cut.len()).filter(|end| cut.is_char_boundary(*end)).map(|end| cut[..end].to_owned());
        let tails = (1..cut.len()).filter(|start| cut.is_char_boundary(*start)).map(|start| cut[start..].to_owned());
        let zeros = ["\0".repeat(3), "\u{fffd}\0\0".to_owned(), "[1,".to_owned(), "{\"a\":".repeat(40)];
        for stub in stubs.chain(tails).chain(zeros) {
            for position in 0..rows.len() {
                let mut damaged = rows.clone();
                damaged[position] = format!("{stub}{}", rows[position]);
                assert_eq!(conversation(&damaged.join("\n"), format), [stub.trim()], "{stub} before {position}");
            }
            let damaged = format!("{}{stub}", rows.join("\n"));
            assert_eq!(conversation(&damaged, format), [stub.trim()], "{stub} at the end");
        }
    }
}

#[test]
fn an_object_inside_a_cut_record_is_no_record() {
    let inner = json!({"type":"user","uuid":"x","sessionId":"s","timestamp":1,"message":{"content":"inner"}});
    for format in FORMATS {
        let rows = rows(format);
        for outer in [json!({"data":[1, inner, 2]}), json!({"data":{"a":inner,"b":1}})] {
            let outer = outer.to_string();
            let stub = &outer[..outer.len() - 1];
            let text = format!("{}\n{stub}{}", rows[0], rows[1..].join("\n"));
            assert_eq!(conversation(&text, format), [stub]);
        }
    }
}

#[test]
fn an_endless_nest_of_openings_is_given_up_in_time() {
    let rows = rows(Format::ClaudeCode);
    let nest = "{\"a\":".repeat(200_000);
    let transcript = read(&format!("{}\n{nest}\n{}", rows[0], rows[3]), Format::ClaudeCode);
    assert_eq!(record_kinds(&transcript.branches[0]), [MALFORMED_RECORD]);
}

#[test]
fn a_message_from_the_end_of_a_line_is_shortened_with_its_own_text() {
    let long =
        json!({"type":"user","uuid":"long","sessionId":"s","message":{"content":"x".repeat(100_000)}}).to_string();
    let text = format!("{}{long}", rows(Format::ClaudeCode)[0]);
    let options = Options { message_bytes: 50_000, ..Options::default() };
    let transcript = parse(text.as_bytes(), &options).unwrap();
    let records = transcript.branches[0].entries.iter().filter_map(|entry| match entry {
        Entry::Record { message, .. } => Some(&*message.parts[0].body),
        _ => None,
    });
    let pieces = records.map(|body| if let PartBody::Record(record) = body { record.data.as_str() } else { "" });
    assert_eq!(pieces.collect::<String>(), long);
}

#[test]
fn a_row_that_comes_twice_is_read_once() {
    for format in FORMATS {
        let rows = rows(format);
        for first in 0..rows.len() {
            for position in first + 1..=rows.len() {
                let mut repeated = rows.clone();
                repeated.insert(position, format!(" {}\r", rows[first]));
                assert_eq!(conversation(&repeated.join("\n"), format), Vec::<String>::new());
                let transcript = read(&repeated.join("\n"), format);
                let message = "it repeats an earlier line: it is read once";
                assert_eq!(problems(&transcript), [(position + 1, message)]);
            }
        }
        let twice = [rows.clone(), rows.clone()].concat().join("\n");
        assert_eq!(conversation(&twice, format), Vec::<String>::new());
        let number = rows.len() - 1;
        let message = format!("it repeats an earlier line, as {number} later ones do: each is read once");
        assert_eq!(problems(&read(&twice, format)), [(rows.len() + 1, message.as_str())]);
    }
}

#[test]
fn a_row_that_comes_again_with_other_surroundings_is_kept_as_a_record() {
    let rows = rows(Format::ClaudeCode);
    let mut again: Value = serde_json::from_str(&rows[1]).unwrap();
    again["gitBranch"] = "other".into();
    again["parentUuid"] = "b".into();
    again["message"]["stop_reason"] = "tool_use".into();
    let text = format!("{}\n{again}", rows.join("\n"));
    assert_eq!(conversation(&text, Format::ClaudeCode), Vec::<String>::new());
    assert_eq!(record_kinds(&read(&text, Format::ClaudeCode).branches[0]), [REPEATED_RECORD]);
}

#[test]
fn rows_of_one_reply_and_rows_with_other_words_are_no_repetitions() {
    let row = |uuid: &str, text: &str| {
        json!({"type":"assistant","uuid":uuid,"parentUuid":"p","sessionId":"s","message":{"id":"m","role":"assistant",
            "content":[{"type":"text","text":text}]}})
        .to_string()
    };
    let text = [row("a", "same"), row("b", "same"), row("b", "other")].join("\n");
    let transcript = read(&text, Format::ClaudeCode);
    check(&text, &transcript);
    assert_eq!(texts(messages(&transcript.branches[0])[0]), ["same", "same", "other"]);
}

#[test]
fn pi_entries_before_their_parents_stay_in_one_conversation() {
    let rows = rows(Format::Pi);
    for first in 1..rows.len() {
        for second in first + 1..rows.len() {
            let mut swapped = rows.clone();
            swapped.swap(first, second);
            assert_eq!(conversation(&swapped.join("\n"), Format::Pi), Vec::<String>::new());
        }
    }
}

#[test]
fn a_conversation_without_parents_is_joined_in_the_order_of_the_file() {
    for last in [3, 4, 5] {
        let mut rows: Vec<Value> =
            rows(Format::ClaudeCode).iter().map(|row| serde_json::from_str(row).unwrap()).collect();
        let mut next = rows[0].clone();
        next["uuid"] = "u2".into();
        rows.push(next);
        rows.truncate(last);
        for row in &mut rows {
            row["parentUuid"] = Value::Null;
        }
        let joined = transcript(&rows, Format::ClaudeCode);
        assert_eq!(joined.branches.len(), 1);
        assert_eq!(ids(&joined.branches[0]), ["u", "a", "r", "b", "u2"][..last]);
        for row in &mut rows {
            row["isSidechain"] = true.into();
        }
        rows.insert(0, json!({"type":"user","uuid":"main","sessionId":"s","message":{"content":"go"}}));
        let joined = transcript(&rows, Format::ClaudeCode);
        let children: Vec<_> = joined.children.iter().flat_map(|child| ids(&child.branches[0])).collect();
        assert_eq!(children, ["u", "a", "r", "b", "u2"][..last]);
        assert_eq!(joined.children[0].branches[0].entries.len(), last.min(4), "a new prompt may be a new agent's");
    }
}

#[test]
fn pi_entries_without_parents_are_joined_in_the_order_of_the_file() {
    let rows: Vec<String> = rows(Format::Pi).iter().map(|row| row.replace("\"parentId\":\"", "\"p\":\"")).collect();
    assert_eq!(conversation(&rows.join("\n"), Format::Pi), Vec::<String>::new());
}

#[test]
fn a_damaged_header_hides_no_session() {
    let rows = rows(Format::Pi);
    let text = format!("{}\n{}", &rows[0][..20], rows[1..].join("\n"));
    assert_eq!(parse(text.as_bytes(), &Options::default()).unwrap(), read(&text, Format::Pi));
    // A log of another agent.
    let other = [r#"{"timestamp":"2026-01-02T03:04:05Z","type":"session_meta","payload":{"id":"x"}}"#];
    assert!(matches!(detect(other), Err(ReadError::OtherAgent(_))));
}

#[test]
fn a_time_that_is_none_is_left_out_and_reported() {
    for format in FORMATS {
        for time in [json!("+010000-01-01T00:00:00Z"), json!("-000001-01-01T00:00:00Z"), json!(1e300), json!("soon")] {
            let mut row: Value = serde_json::from_str(&rows(format)[1]).unwrap();
            row["timestamp"] = time;
            let text = format!("{}\n{row}", rows(format)[0]);
            let transcript = read(&text, format);
            check(&text, &transcript);
            assert_eq!(messages(&transcript.branches[0]).last().unwrap().origin_time, None);
            let message = "its timestamp is no time between the years 1 and 9999: it is left out";
            assert_eq!(problems(&transcript), [(2, message)]);
        }
    }
}
