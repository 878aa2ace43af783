use super::{Loaded, LoadedSession, POLICY_COPIES, parse_policy};
use crate::app::{self, Longhand};
use crate::clock::Clock;
use crate::limits;
use crate::model::message::{Finish, MessageKind, NewMessage, Role};
use crate::model::part::{NewPart, PartBody};
use crate::scheduler::{self, Scheduler};
use crate::store::{self, Caller, SessionKey, Store};
use crate::summarizer::{Extractive, Levels};
use std::sync::Arc;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// A store with one session, to which nothing happens by itself.
struct World {
    app: Longhand,
    store: Store,
    session: String,
    key: SessionKey,
    _directory: TempDir,
}

impl World {
    async fn start() -> Self {
        let directory = tempfile::tempdir().expect("a temporary folder");
        let clock = Clock::default();
        let durability = store::Durability::ProcessCrash;
        let options = store::Options { directory: directory.path().join("store"), durability };
        let (store, writer) = Store::open(options, clock.clone()).await.expect("the store opens");
        tokio::spawn(writer);
        let summarizers = Levels::all(Arc::new(Extractive));
        let scheduler = Scheduler::new(store.clone(), clock.clone(), summarizers, scheduler::Options::default());
        let options = app::Options {
            default_preset: "opencode@seed".to_owned(),
            defaults: Vec::new(),
            vocabularies: Vec::new(),
            stopping: CancellationToken::new(),
        };
        let app = Longhand::new(store.clone(), scheduler.handle(), &clock, options);
        let (created, _) = app.create_session(Default::default(), Caller::default()).await.expect("a session");
        let session = created.session.id.to_string();
        let key = store.find_session(&session).await.expect("it is there");
        Self { app, store, session, key, _directory: directory }
    }

    async fn append(&self, bytes: usize) {
        let message = NewMessage {
            client_id: None,
            role: Role::User,
            kind: MessageKind::Normal,
            parts: vec![NewPart::new(PartBody::Text("a".repeat(bytes)))],
            finish: Some(Finish::default()),
            model: String::new(),
            provider: String::new(),
            origin_time: None,
            open_timeout_ms: None,
            metadata_json: None,
        };
        self.app.append(&self.session, vec![message], None, None, Caller::default()).await.expect("appended");
    }

    async fn load(&self) -> LoadedSession {
        let source = self.store.source(self.key, None).await.expect("the rows");
        let policy = Arc::new(parse_policy(&source.policy, &[]).expect("a policy"));
        LoadedSession::new(&self.store, source, policy, None).await.expect("a session")
    }
}

#[tokio::test]
async fn a_session_that_grows_large_is_read_with_room_again() {
    let world = World::start().await;
    let loaded = Loaded::new(world.store.clone(), 1 << 30);
    let third = limits::LARGE_VIEW_BYTES / 3;
    world.append(third).await;
    loaded.keep(&Arc::new(world.load().await));
    world.append(third).await;
    let (session, _) = loaded.session(world.key).await.expect("read").expect("it is kept");
    assert_eq!(session.fold.hashes, world.load().await.fold.hashes);
    world.append(third).await;
    assert!(loaded.session(world.key).await.expect("read").is_none(), "it has become large");
    assert!(loaded.find(world.key).is_none(), "nothing of it is kept");
    loaded.keep(&Arc::new(world.load().await));
    assert!(loaded.find(world.key).is_none(), "nor is it kept anew");
}

#[tokio::test]
async fn the_budget_holds_for_sessions_without_words() {
    let world = World::start().await;
    let budget = 1 << 20;
    let loaded = Loaded::new(world.store.clone(), budget);
    let policy_bytes = POLICY_COPIES * world.load().await.source.policy.json.len();
    for key in 0..500 {
        let mut session = world.load().await;
        session.source.session = SessionKey(key);
        loaded.keep(&Arc::new(session));
    }
    let kept = loaded.kept().len();
    assert!(kept > 10 && kept * policy_bytes <= budget, "{kept} sessions with policies of {policy_bytes} bytes");
    assert!(loaded.find(SessionKey(499)).is_some(), "the newest is kept");
}
