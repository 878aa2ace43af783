//! What must be true of a session's log, views and statuses.

use super::{Answer, Tracked};
use crate::support::TestApp;
use longhand::app::append::ListMessages;
use longhand::app::views::ServedView;
use longhand::model::Revision;
use longhand::model::compaction::RevisionRange;
use longhand::model::event::{Event, EventBody};
use longhand::model::ids::{CompactionId, MessageId, PartId};
use longhand::model::layout::OmitReason;
use longhand::model::message::{MessageKind, MessageState, Role};
use longhand::model::view::ViewKind;
use longhand::policy::pairing;
use std::collections::{HashMap, HashSet};

/// P7: each compaction that started has one start event and one end event.
pub(super) fn each_started_compaction_ends_once(log: &[Event]) {
    let mut begun: HashMap<CompactionId, usize> = HashMap::new();
    let mut ended: HashMap<CompactionId, usize> = HashMap::new();
    for event in log {
        match &event.body {
            EventBody::CompactionStarted { compaction, .. } => *begun.entry(*compaction).or_default() += 1,
            EventBody::Compacted { compaction, .. }
            | EventBody::CompactionFailed { compaction, .. }
            | EventBody::CompactionCancelled { compaction, .. } => *ended.entry(*compaction).or_default() += 1,
            _ => {}
        }
    }
    for (compaction, times) in begun {
        assert_eq!((times, ended.get(&compaction)), (1, Some(&1)), "{compaction} began and ended once");
    }
    assert!(ended.values().all(|times| *times == 1), "no end is reported twice: {ended:?}");
}

/// Checks that every message is shown, covered by a summary in the view, or left out for a reason, and that the view is
/// valid input for a model.
pub(super) fn accounted(session: &Tracked, view: &ServedView) {
    assert_eq!(pairing::violations(&view.messages), Vec::<String>::new());
    if let Some(covered) = &view.covered {
        // The attachments of a summary may be in a separate message.
        let summaries = view.messages.iter().filter(|message| message.kind == ViewKind::Summary);
        let mut revisions: Vec<Revision> = summaries.map(|message| message.revision).collect();
        revisions.dedup();
        assert_eq!(revisions, [covered.summary]);
    }
    // Retrieved passages are shown in addition to their messages.
    let own = view.messages.iter().filter(|message| message.kind == ViewKind::Shown);
    let mut parts: Vec<PartId> = own.flat_map(|message| &message.parts).filter_map(|part| part.source).collect();
    parts.sort_unstable();
    assert!(parts.windows(2).all(|pair| pair[0] != pair[1]), "something is shown twice: {:?}", view.messages);
    let shown: HashSet<MessageId> = view.messages.iter().filter_map(|message| message.source).collect();
    for written in &session.written {
        let written = written.at(view.revision);
        if written.kind == MessageKind::Record {
            assert!(!shown.contains(&written.id), "records are in no view");
            continue;
        }
        if written.kind == MessageKind::Edit && written.edited_at.is_none() {
            // A fork from within the edit: the replacement exists, the mark that shows it does not.
            continue;
        }
        let is_shown = shown.contains(&written.id);
        let is_covered = view
            .covered
            .as_ref()
            .is_some_and(|covered| covered.ranges.iter().any(|range| range.contains(written.revision)));
        let is_omitted = view.omitted.iter().any(|omitted| omitted.range.contains(written.revision));
        let is_left_out = view.shortened_away.iter().any(|range| range.contains(written.revision));
        let is_empty = view.empty.iter().any(|range| range.contains(written.revision));
        assert!(
            is_shown || is_covered || is_omitted || is_left_out || is_empty,
            "{written:?} is nowhere: {:?} {:?}",
            view.covered,
            view.omitted
        );
        if is_shown && !session.ever_pinned.contains(&written.original) && written.kind == MessageKind::Normal {
            // The tail of a summary may retain requests, and no other messages of these tests.
            assert!(
                !is_covered || written.role == Role::User || session.has_front,
                "{written:?} is shown beside the summary that stands for it: {:?}",
                view.messages.iter().map(|m| (m.revision, m.role, m.kind)).collect::<Vec<_>>()
            );
            assert!(!is_omitted, "{written:?} is shown although it was left out: {:?}", view.omitted);
        }
    }
}

/// Checks that the status of every message states what a view of the same revision does with it.
pub(super) async fn statuses_agree(test: &TestApp, session: &str, at: Revision, view: &Answer) {
    let mut list =
        ListMessages { page_size: 1_000, as_of: Some(at), derived: true, records: true, ..ListMessages::default() };
    let shown: HashSet<MessageId> = view.messages.iter().filter_map(|message| message.source).collect();
    loop {
        let page = test.app.messages().list(session, list.clone()).await.expect("a page");
        for (message, status) in page.messages.iter().zip(&page.statuses) {
            let contains = |range: &RevisionRange| range.contains(message.revision);
            let is_empty = view.empty.iter().any(contains);
            let context = || format!("{message:?} at {at} is {status:?}, and the view is {view:?}");
            let is_shown = shown.contains(&message.id) || is_empty;
            assert_eq!(status.state == MessageState::Active, is_shown, "{}", context());
            let reason = match status.state {
                MessageState::Unknown => panic!("{}", context()),
                MessageState::Active => continue,
                MessageState::Record | MessageState::Superseded => {
                    assert_eq!(message.kind, MessageKind::Record, "{}", context());
                    continue;
                }
                MessageState::Inactive => {
                    // An edit whose mark came later, by which a fork may begin, is not in force either.
                    assert!(message.kind.is_derived() || message.kind == MessageKind::Edit, "{}", context());
                    let is_covered = view.covered.iter().flat_map(|covered| &covered.ranges).any(contains);
                    let is_introduction = matches!(message.kind, MessageKind::Summary | MessageKind::Marker);
                    assert!(is_introduction || !is_covered, "{}", context());
                    continue;
                }
                MessageState::Covered => {
                    let covered = view.covered.as_ref().filter(|covered| covered.ranges.iter().any(contains));
                    let by = covered.map(|covered| (covered.mark, covered.compaction));
                    assert_eq!(status.by_revision.zip(status.by_compaction), by, "{}", context());
                    assert!(status.by_message.is_some_and(|summary| shown.contains(&summary)), "{}", context());
                    continue;
                }
                MessageState::Rewound => OmitReason::Rewound,
                MessageState::Edited | MessageState::Removed | MessageState::Undone => OmitReason::Edited,
                MessageState::Omitted => OmitReason::Compacted,
                MessageState::Replayed => OmitReason::Replayed,
            };
            let omitted = view.omitted.iter().zip(&view.omitted_by).find(|(omitted, _)| contains(&omitted.range));
            let (omitted, by) = omitted.unwrap_or_else(|| panic!("{}", context()));
            assert_eq!((omitted.reason, Some(omitted.mark)), (reason, status.by_revision), "{}", context());
            assert_eq!(status.by_compaction, *by, "{}", context());
            let has_other = matches!(status.state, MessageState::Edited | MessageState::Replayed);
            assert_eq!(status.by_message.is_some(), has_other, "{}", context());
        }
        if page.next_page_token.is_empty() {
            return;
        }
        list.page_token = page.next_page_token;
    }
}
