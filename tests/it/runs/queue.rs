//! The queue of prompts as others change it.

use super::submit;
use crate::support::TestApp;
use longhand::app::prompts::Delivery;
use std::collections::BTreeSet;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_the_queue_is_the_queue_of_one_moment() {
    const PROMPTS: usize = 60;
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let mut ids = Vec::new();
    for _ in 0..PROMPTS {
        ids.push(submit(&test.app, &session, "x", Delivery::Queue).await);
    }
    let (app, moved) = (test.app.clone(), session.clone());
    let moving = tokio::spawn(async move {
        // The last one overtakes all others, again and again.
        for turn in 0..200 {
            let (first, last) = ((PROMPTS - turn % PROMPTS) % PROMPTS, PROMPTS - 1 - turn % PROMPTS);
            app.prompts().reorder(&moved, &ids[last], Some(&ids[first])).await.expect("moved");
        }
    });
    while !moving.is_finished() {
        let (page, _) = test.app.prompts().list(&session, false, 1_000, "").await.expect("the queue");
        let shown: BTreeSet<_> = page.iter().map(|prompt| prompt.id).collect();
        assert_eq!((page.len(), shown.len()), (PROMPTS, PROMPTS), "each prompt is there once");
    }
    moving.await.expect("no panic");
}
