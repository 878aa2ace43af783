//! Erasures among the steps of random lives: what the writers of messages know of them afterwards.

use super::{Fixture, Written};
use longhand::app::Error;
use longhand::app::erase::{EraseAnswer, EraseRequest, EraseTarget};
use longhand::model::message::MessageKind;
use longhand::model::part::NewPart;

impl Written {
    /// The message without its content, as it is found now.
    fn erase(&mut self, found: &longhand::model::message::Message) {
        for (_, part) in &mut self.parts {
            *part = NewPart { client_id: part.client_id.clone(), ..NewPart::new(part.body.erased()) };
        }
        if self.sealed.is_none() {
            // It was open, and is sealed first.
            assert!(found.sealed_revision.is_some(), "{found:?}");
            (self.sealed, self.finish) = (found.sealed_revision, found.finish.clone());
        }
        self.finish.detail.clear();
    }
}

impl Fixture {
    /// Erases a message with everything that replaced it, in all sessions that have it. Views that were read before are
    /// not the same any more.
    pub(super) async fn erase(&mut self, at: usize, number: usize) -> Result<(), Error> {
        let Some(target) = self.chosen(at, number).filter(|written| written.kind != MessageKind::Record) else {
            return Ok(());
        };
        let (id, original) = (target.id.to_string(), target.original);
        let app = self.test.app.clone();
        let request = |dry_run| EraseRequest {
            target: EraseTarget::Messages(vec![id.clone()]),
            reason: "somebody asked for it".to_owned(),
            dry_run,
            expected_revision: None,
        };
        let session = self.sessions[at].id.clone();
        let would = app.content().erase(&session, request(true)).await?;
        let erased = app.content().erase(&session, request(false)).await?;
        // A compaction may have written a summary of it meanwhile.
        let said = |of: &EraseAnswer| (of.session, of.sizes.messages, of.sizes.parts, of.sizes.forks, of.existed);
        assert_eq!(said(&would), said(&erased));
        if erased.existed {
            return Ok(());
        }
        for session in &mut self.sessions {
            let mut has_lost = false;
            for written in session.written.iter_mut().filter(|written| written.original == original) {
                let (found, _, _) = app.messages().get(&session.id, &written.id.to_string()).await?;
                written.erase(&found);
                has_lost = true;
            }
            if has_lost {
                session.views.clear();
            }
        }
        Ok(())
    }
}
