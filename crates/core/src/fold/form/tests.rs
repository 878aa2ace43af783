use super::*;
use crate::fold::{Fold, FoldInput};
use crate::model::ids::{CompactionId, MessageId, PartId, SessionId};
use crate::model::layout::{CoveredHistory, OmittedHistory, Span};
use crate::model::message::{Finish, GivenView, Message, MessageKind};
use crate::model::part::{ERASED_MARKER, Marker, Opaque, Part};
use crate::model::time::Timestamp;
use crate::policy::Policy;
use crate::policy::pairing::violations;
use proptest::prelude::*;
use uuid::Uuid;

const SO_FAR: &str = r#"{"type":"compaction","content":"So far.","signature":"s"}"#;
const FAILED: &str = r#"{"type":"compaction","content":null}"#;
const ITEM: &str = r#"{"type":"compaction","id":"cmp_1","encrypted_content":"x"}"#;
const ANTHROPIC: Form = Form::Of(Compactor::Anthropic);
const OPENAI: Form = Form::Of(Compactor::OpenAi);

fn message(revision: Revision, role: Role, bodies: Vec<PartBody>) -> SourceMessage {
    let id = |number: i64| Uuid::from_u128(number as u128);
    let parts = (0..).zip(bodies).map(|(index, body)| Part {
        id: PartId(id(revision * 100 + index)),
        client_id: None,
        revision,
        body: body.into(),
        metadata_json: None,
    });
    let message = Message {
        id: MessageId(id(revision)),
        session_id: SessionId(id(1)),
        client_id: None,
        revision,
        role,
        kind: MessageKind::Normal,
        parts: parts.collect(),
        sealed_revision: Some(revision),
        finish: Finish::default(),
        model: String::new(),
        provider: String::new(),
        create_time: Timestamp(0),
        origin_time: None,
        actor: String::new(),
        metadata_json: None,
        replaces: None,
    };
    SourceMessage { message: message.into(), placement: None, pruned: Vec::new(), counts: None }
}

fn says(revision: Revision, role: Role) -> SourceMessage {
    message(revision, role, vec![PartBody::Text(format!("words {revision}"))])
}

fn block(provider: &str, data: &str) -> PartBody {
    let (provider, kind) = (provider.to_owned(), "compaction".to_owned());
    PartBody::Opaque(Opaque { provider, kind, data: data.into() })
}

/// Instructions, a turn, a reply with a block in its middle, and a turn.
fn talk(provider: &str, data: &str) -> Vec<SourceMessage> {
    let text = |text: &str| PartBody::Text(text.to_owned());
    vec![
        says(1, Role::System),
        says(2, Role::User),
        says(3, Role::Assistant),
        says(4, Role::User),
        message(5, Role::Assistant, vec![text("before"), block(provider, data), text("behind")]),
        says(6, Role::User),
    ]
}

/// The revisions of messages, with the numbers of their parts.
fn summary(messages: &[SourceMessage]) -> Vec<(Revision, usize)> {
    messages.iter().map(|source| (source.message.revision, source.message.parts.len())).collect()
}

fn shown(form: Form, layout: &Layout, sources: &[SourceMessage]) -> Vec<(Revision, usize)> {
    summary(FormedView::new(form, layout, sources).shown(sources))
}

fn given(mut source: SourceMessage, revision: Revision) -> SourceMessage {
    let view = GivenView { revision, hash: [0; 32], window: ModelWindow::default(), shortened: false };
    source.message.finish.view = Some(view);
    source
}

#[test]
fn a_block_goes_first_for_its_provider_and_the_originals_stand_for_others() {
    let (layout, sources) = (Layout::everything(), talk("anthropic", SO_FAR));
    let formed = FormedView::new(ANTHROPIC, &layout, &sources);
    assert_eq!(summary(formed.shown(&sources)), [(1, 1), (5, 2), (6, 1)]);
    // What the reply said before its block is covered too.
    assert_eq!(summary(formed.covered()), [(2, 1), (3, 1), (4, 1), (5, 1)]);
    let compaction = formed.compaction().expect("a compaction");
    assert_eq!(compaction.covered, [RevisionRange { first: 2, last: 4 }]);
    assert_eq!((compaction.compactor, compaction.message), (Compactor::Anthropic, sources[4].message.id));
    for form in [OPENAI, Form::Originals] {
        let others = [(1, 1), (2, 1), (3, 1), (4, 1), (5, 2), (6, 1)];
        assert_eq!(shown(form, &layout, &sources), others, "the block is nothing for others");
    }
    assert_eq!(shown(Form::Newest, &layout, &sources), [(1, 1), (5, 2), (6, 1)]);
    assert_eq!(shown(OPENAI, &layout, &talk("openai_responses", ITEM)), [(1, 1), (5, 2), (6, 1)]);
}

#[test]
fn a_block_that_failed_stays_and_stands_for_nothing() {
    let (layout, sources) = (Layout::everything(), talk("anthropic", FAILED));
    let whole = [(1, 1), (2, 1), (3, 1), (4, 1), (5, 3), (6, 1)];
    assert_eq!(shown(ANTHROPIC, &layout, &sources), whole);
    assert_eq!(shown(Form::Originals, &layout, &sources)[4], (5, 2));
}

#[test]
fn the_newest_block_is_the_only_one() {
    let mut sources = talk("anthropic", SO_FAR);
    sources.push(message(7, Role::Assistant, vec![block("anthropic", SO_FAR)]));
    sources.push(message(8, Role::Assistant, vec![block("openai", ITEM), block("anthropic", FAILED)]));
    sources.push(says(9, Role::User));
    let layout = Layout::everything();
    assert_eq!(shown(ANTHROPIC, &layout, &sources), [(1, 1), (7, 1), (8, 1), (9, 1)]);
    assert_eq!(shown(OPENAI, &layout, &sources), [(1, 1), (8, 1), (9, 1)]);
    // Behind the failed one, the newest block is that of Anthropic.
    assert_eq!(shown(Form::Newest, &layout, &sources), [(1, 1), (7, 1), (8, 1), (9, 1)]);
}

#[test]
fn a_block_stands_for_the_view_that_its_reply_was_given() {
    let mut sources = talk("anthropic", SO_FAR);
    sources[4] = given(sources[4].clone(), 3);
    let layout = Layout { pinned: vec![2], ..Layout::everything() };
    assert_eq!(shown(ANTHROPIC, &layout, &sources), [(1, 1), (5, 2), (2, 1), (4, 1), (6, 1)]);
}

#[test]
fn the_messages_of_the_user_before_an_item_are_its_window() {
    let sources = [says(1, Role::User), says(2, Role::User), message(3, Role::Assistant, vec![block("openai", ITEM)])];
    let formed = FormedView::new(OPENAI, &Layout::everything(), &sources);
    assert_eq!(summary(formed.shown(&sources)), [(1, 1), (2, 1), (3, 1)]);
    assert!(formed.covered().is_empty() && formed.compaction().is_some());
}

#[test]
fn a_change_of_what_it_stands_for_voids_a_block() {
    let (layout, sources) = (Layout::everything(), talk("anthropic", SO_FAR));
    let whole = [(1, 1), (2, 1), (3, 1), (4, 1), (5, 2), (6, 1)];
    let mut edited = sources.clone();
    edited[1].placement = Some(Placement::Edit(2));
    edited[1].message.revision = 7;
    let replaced = [(1, 1), (7, 1), (3, 1), (4, 1), (5, 2), (6, 1)];
    assert_eq!(shown(ANTHROPIC, &layout, &edited), replaced);
    let mut erased = sources.clone();
    let marker = Marker { name: ERASED_MARKER.to_owned(), text: String::new() };
    erased[2].message.parts[0].body = PartBody::Marker(marker).into();
    assert_eq!(shown(ANTHROPIC, &layout, &erased), whole);
    let omitted = |mark, reason| {
        let omitted = vec![OmittedHistory { range: RevisionRange { first: 2, last: 2 }, mark, reason }];
        Layout { omitted, ..Layout::everything() }
    };
    assert_eq!(shown(ANTHROPIC, &omitted(7, OmitReason::Edited), &sources), whole);
    let valid = [(1, 1), (5, 2), (6, 1)];
    assert_eq!(shown(ANTHROPIC, &omitted(3, OmitReason::Edited), &sources), valid, "it was so before");
    // An erasure of what a compaction left out would not show.
    assert_eq!(shown(ANTHROPIC, &omitted(7, OmitReason::Compacted), &sources), whole);
}

#[test]
fn a_summary_that_stands_for_more_takes_the_place_of_a_block() {
    let sources = talk("anthropic", SO_FAR);
    let summarized = |last| {
        let compaction = CompactionId(Uuid::nil());
        let ranges = vec![RevisionRange { first: 2, last }];
        let layout = Layout {
            spans: vec![Span::Placed { revision: 8, placement: Placement::Summary }],
            covered: Some(CoveredHistory { compaction, mark: 7, summary: 8, ranges }),
            ..Layout::default()
        };
        let mut summary = says(8, Role::Assistant);
        summary.placement = Some(Placement::Summary);
        let tail = sources.iter().filter(|source| source.message.revision > last).cloned();
        (layout, std::iter::once(summary).chain(tail).collect::<Vec<_>>())
    };
    let (layout, less) = summarized(3);
    let formed = FormedView::new(ANTHROPIC, &layout, &less);
    assert_eq!(summary(formed.shown(&less)), [(5, 2), (6, 1)]);
    let all = [RevisionRange { first: 2, last: 4 }];
    assert_eq!(formed.compaction().map(|compaction| &*compaction.covered), Some(&all[..]));
    // The reply was given a view that the summary reaches beyond.
    let (layout, mut more) = summarized(3);
    more[2] = given(more[2].clone(), 2);
    assert_eq!(shown(ANTHROPIC, &layout, &more), [(8, 1), (4, 1), (5, 2), (6, 1)]);
}

#[test]
fn usage_from_before_a_block_measures_another_view() {
    let mut sources = talk("anthropic", SO_FAR);
    let reply = |revision, seen, tokens| {
        let mut reply = given(says(revision, Role::Assistant), seen);
        let usage = crate::model::usage::Usage { input: tokens, ..Default::default() };
        reply.message.finish.usage = Some(usage);
        reply
    };
    sources[4].message.finish.usage = Some(crate::model::usage::Usage { input: 9_000, ..Default::default() });
    sources.push(reply(7, 4, 8_000));
    let (policy, window) = (Policy::default(), ModelWindow { context: 100_000, ..ModelWindow::default() });
    let tokens = |sources: &[SourceMessage]| {
        let formed = FormedView::new(ANTHROPIC, &Layout::everything(), sources);
        let messages = formed.shown(sources);
        Fold::new(FoldInput { policy: &policy, messages, changed_revision: 1, window: &window }, None)
            .context_tokens(&window)
    };
    assert!(tokens(&sources) < 1_000, "{}", tokens(&sources));
    sources.push(says(8, Role::User));
    sources.push(reply(9, 8, 700));
    assert_eq!(tokens(&sources), 700);
}

#[test]
fn the_model_of_a_window_names_its_provider() {
    let form = |model: &str| Form::of_window(&ModelWindow { model: model.to_owned(), ..ModelWindow::default() });
    for model in ["claude-opus-5-5", "anthropic/claude-sonnet-5", "eu.anthropic.claude-sonnet-4-20250514-v1:0"] {
        assert_eq!(form(model), ANTHROPIC, "{model}");
    }
    for model in ["gpt-5.6", "openai/gpt-5", "o3", "codex-mini-latest"] {
        assert_eq!(form(model), OPENAI, "{model}");
    }
    assert_eq!(form("gemini-2.5-pro"), Form::Originals);
    assert_eq!((form(""), form("my-deployment")), (Form::Newest, Form::Newest));
}

fn any_message() -> impl Strategy<Value = (u8, u8, Option<i64>)> {
    (0..4_u8, 0..8_u8, proptest::option::weighted(0.3, 1..6_i64))
}

proptest! {
    /// Every message is shown or covered, once; at most one block stands for others, and begins the view; a model can be
    /// given it; and the form of a session that goes on is the form of all its messages.
    #[test]
    fn each_form_accounts_for_every_message(rows in proptest::collection::vec(any_message(), 1..24), pinned in 2..12_i64) {
        let roles = [Role::User, Role::Assistant, Role::Assistant, Role::System];
        let sources: Vec<SourceMessage> = (2..).zip(&rows).map(|(revision, (role, kind, seen))| {
            let role = roles[*role as usize];
            let text = PartBody::Text(format!("words {revision}"));
            let bodies = match (role, kind) {
                (Role::Assistant, 0) => vec![block("anthropic", SO_FAR)],
                (Role::Assistant, 1) => vec![text.clone(), block("anthropic", SO_FAR), text],
                (Role::Assistant, 2) => vec![block("openai_responses", ITEM), text],
                (Role::Assistant, 3) => vec![block("anthropic", FAILED), text],
                _ => vec![text],
            };
            let source = message(revision, role, bodies);
            match seen {
                Some(back) if role == Role::Assistant => given(source, (revision - back).max(1)),
                _ => source,
            }
        }).collect();
        let layout = Layout { pinned: vec![pinned], ..Layout::everything() };
        let (policy, window) = (Policy::default(), ModelWindow::default());
        for form in [Form::Newest, ANTHROPIC, OPENAI, Form::Originals] {
            let mut extended = FormedView::default();
            let mut fold = Fold::new(FoldInput { policy: &policy, messages: &[], changed_revision: 1, window: &window }, None);
            for end in 1..=sources.len() {
                let sources = &sources[..end];
                let kept = extended.extend(|| form, &layout, sources, end - 1);
                let formed = FormedView::new(form, &layout, sources);
                prop_assert_eq!(extended.shown(sources), formed.shown(sources));
                prop_assert_eq!(&extended.covered, &formed.covered);
                prop_assert_eq!(&extended.compaction, &formed.compaction);
                let input = FoldInput { policy: &policy, messages: formed.shown(sources), changed_revision: 1, window: &window };
                fold.extend(input, kept);
                let scratch = Fold::new(input, None);
                prop_assert_eq!(&fold.view, &scratch.view);
                prop_assert_eq!(violations(&fold.view.messages), Vec::<String>::new());
                let mut accounted = summary(formed.shown(sources));
                accounted.extend(summary(formed.covered()));
                let mut revisions: Vec<Revision> = accounted.iter().map(|(revision, _)| *revision).collect();
                revisions.sort_unstable();
                revisions.dedup();
                let all: Vec<Revision> = sources.iter().map(|source| source.message.revision).collect();
                prop_assert_eq!(revisions, all);
                let stands = |source: &SourceMessage| {
                    source.message.parts.iter().filter(|part| part.body.stands_for_history()).count()
                };
                let count: usize = formed.shown(sources).iter().map(stands).sum();
                prop_assert_eq!(count, usize::from(formed.compaction().is_some()));
                if form == Form::Originals {
                    prop_assert!(formed.covered().is_empty());
                }
            }
        }
    }
}
