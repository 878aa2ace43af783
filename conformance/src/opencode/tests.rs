use super::history::Compaction;
use super::*;

/// A conversation with three requests, of which the second got a failed reply.
fn failed() -> Vec<SourceMessage> {
    let mut conversation = Conversation::generate(1, 0, &Profile { turns: 2..=2, calls: false, ..PROFILE });
    let template = conversation.messages[0].clone();
    let message = |index: i64, role, reason, text: &str| {
        let mut source = template.clone();
        source.message.id.0 = uuid::Uuid::from_u128(index as u128);
        (source.message.revision, source.message.role) = (index, role);
        source.message.sealed_revision = Some(index);
        source.message.finish = Finish { reason, ..Finish::default() };
        source.message.parts.truncate(1);
        source.message.parts[0].body = PartBody::Text(text.to_owned()).into();
        source
    };
    conversation.messages = vec![
        message(1, Role::User, None, "one"),
        message(2, Role::Assistant, Some(FinishReason::Stop), "two"),
        message(3, Role::User, None, "three"),
        message(4, Role::Assistant, Some(FinishReason::Error), &"half ".repeat(400)),
        message(5, Role::User, None, "four"),
        message(6, Role::Assistant, Some(FinishReason::Stop), "five"),
    ];
    conversation.messages
}

fn history(compactions: &[Compaction]) -> History {
    History { messages: failed(), compactions: compactions.to_vec() }
}

#[test]
fn a_failed_reply_is_shown_and_counted() {
    let question = Viewed { history: history(&[]) };
    let ours = question.sent(&question.history.sources());
    assert_eq!((ours.len(), ours[3]["text"].as_str().map(str::len)), (7, Some(2_000)));
    let theirs = json!(question.without_failed());
    assert_eq!(question.explain(&theirs, None), Some(FAILED));
    assert_eq!(question.explain(&json!([]), None), None);
    let tail = (None, Some(50));
    let select = Select { history: history(&[]), window: WINDOWS[0], tail };
    assert_eq!(select.ours(), json!({"summarizes": true, "tail": 4}));
    // Without counting it, the turn before stays too; as a reply without failure, it would count for OpenCode too.
    let theirs = json!({"summarizes": true, "tail": 2});
    assert_eq!(select.explain(&theirs, Some(&select.ours())), Some(FAILED));
    assert_eq!(select.explain(&theirs, Some(&theirs)), None);
    assert_eq!(select.explain(&theirs, None), None);
    let again = select.again().expect("a reply failed");
    assert_eq!(again["messages"][3]["finish"], "stop");
}

#[test]
fn an_earlier_summary_is_not_shown_again() {
    let first = Compaction { at: 2, tail: Some(1) };
    let second = Compaction { at: 4, tail: Some(2) };
    let question = Viewed { history: history(&[first, second]) };
    let ours = question.sent(&question.history.sources());
    let texts: Vec<&str> = ours.iter().filter_map(|it| it["text"].as_str()).map(|text| &text[..4]).collect();
    assert_eq!(texts, ["Summ", "half", "five"]);
    assert_eq!(ours[1]["text"], summary_text(1));
    let mut theirs = ours.clone();
    let again = [json!({"role": "user", "texts": ["What did we do so far?"]}), ours[1].clone()];
    theirs.splice(3..3, again);
    assert_eq!(question.explain(&json!(theirs), None), None, "the same summary twice");
    theirs[4]["text"] = json!(summary_text(0));
    assert_eq!(question.explain(&json!(theirs), None), Some(ONE_SUMMARY));
}

#[test]
fn messages_keep_their_positions_in_both_forms() {
    for index in 0..200 {
        let history = History::draw(&conversation(7, index, &PROFILE), 2);
        let (written, positions) = history.in_opencode();
        assert_eq!(positions.len(), history.messages.len());
        assert_eq!(written.len(), {
            let results = history.messages.iter().filter(|source| source.message.role == Role::Tool).count();
            history.messages.len() - results + 2 * history.compactions.len()
        });
        for (source, position) in history.messages.iter().zip(&positions) {
            let role = if source.message.role == Role::User { "user" } else { "assistant" };
            assert_eq!(written[*position]["role"], role, "conversation {index}");
        }
    }
}

#[test]
fn an_unanswered_request_explains_only_where_the_tail_ends() {
    let mut history = history(&[]);
    history.messages.truncate(5);
    let select = Select { history, window: WINDOWS[0], tail: (Some(0), None) };
    // A failed reply answers nothing.
    assert_eq!(select.ours(), json!({"summarizes": true, "tail": 2}));
    assert_eq!(select.explain(&json!({"summarizes": true, "tail": null}), None), Some(UNANSWERED));
    assert_eq!(select.explain(&json!({"summarizes": true, "tail": 1}), None), None);
}
