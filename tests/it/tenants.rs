//! Nothing of a tenant reaches another one, and nothing reaches an access token that is bound to other sessions: every
//! RPC of the descriptor, every HTTP route that it declares, and every stream, with every id of what the caller must not
//! see in every field that takes an id.
//!
//! A call with such an id gets exactly what it gets with an id that nobody ever had. A page token, a cursor, a view token
//! or a lease that was given to somebody else shows nothing of whom it was given to.

mod access_limits;
mod bindings;
mod blobs;
mod calls;
mod content;
mod counted;
mod places;
mod quotas;
mod requests;
mod tokens;
mod world;

use crate::support::cases;
use calls::{Answer, Said as _};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use requests::{Filler, Slot};
use world::{Side, World};

/// The frames that a stream over everything may have before it is complete.
const FRAMES_MAX: usize = 4_000;

/// What an answer says, without the id that was asked for.
fn without(text: &str, id: &str) -> String {
    text.replace(id, "{id}")
}

/// Fails if a text has anything of what the side must not see.
fn check_text(side: &Side, what: &str, text: &str) {
    for secret in side.hidden.secrets() {
        assert!(!text.contains(secret), "{what}: the answer to {} has {secret:?}: {text}", side.name);
    }
}

/// Calls every method with every hidden id in every field that takes one, and with ids that nobody has.
///
/// Ids that clients give themselves are names in their own tenant, and free there whatever others use.
async fn ids_of_others_are_not_there(world: &World, side: &Side, seed: u64, are_given: bool) {
    let mut filler = Filler::new(side, seed);
    let methods = calls::methods();
    let mut slots = 0;
    for method in &methods {
        for slot in Slot::all(&method.input()).into_iter().filter(|slot| slot.is_given() == are_given) {
            slots += 1;
            // The other fields are the caller's own, or not given.
            let base = filler.request(&method.input(), &slot);
            for (kind, hidden) in side.hidden.ids() {
                let made_up = world::made_up(*kind, hidden);
                let mut answers = Vec::new();
                for id in [&made_up, hidden] {
                    let request = slot.with(&base, id);
                    let what = format!("{} with {id} in {slot}", method.full_name());
                    let grpc = world.call(side, method, &request).await;
                    let http = world.http(side, method, &request).await;
                    let answers_now: Vec<Answer> = std::iter::once(grpc).chain(http).collect();
                    // What was given is kept, and comes back.
                    for text in answers_now.texts().iter().filter(|_| !are_given) {
                        check_text(side, &what, &without(text, id));
                    }
                    let said = answers_now.outcome(id);
                    answers.push((what, said));
                }
                let [(_, nobodys), (what, others)] = answers.try_into().expect("two answers");
                assert_eq!(others, nobodys, "{what}, a {kind:?} of others, for {}", side.name);
            }
        }
    }
    assert!(methods.len() > 40 && slots > if are_given { 5 } else { 40 }, "{slots} fields for ids");
}

/// Reads everything that a side can list and follow.
async fn everything_is_one_s_own(world: &World, side: &Side) {
    for (what, text) in world.everything(side, FRAMES_MAX).await {
        check_text(side, &what, &text);
        if what.contains("events") || what.contains("sessions") {
            for session in &side.sessions {
                assert!(text.contains(session.as_str()), "{what} of {} lacks {session}: {text}", side.name);
            }
        }
    }
}

#[test]
fn nothing_of_one_tenant_or_binding_reaches_another() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    // Each case makes some ten thousand calls.
    let config = Config { cases: cases(1), max_shrink_iters: 0, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, world::rng());
    let outcome = runner.run(&(any::<u64>(), world::histories()), |(seed, histories)| {
        runtime.block_on(async {
            let world = World::new(&histories).await;
            for side in &world.sides {
                everything_is_one_s_own(&world, side).await;
            }
            for side in &world.sides {
                ids_of_others_are_not_there(&world, side, seed, false).await;
            }
            tokens::show_nothing_of_others(&world, seed).await;
            for side in world.sides.iter().filter(|side| !side.is_bound) {
                ids_of_others_are_not_there(&world, side, seed, true).await;
            }
        });
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn every_kind_of_id_has_a_field() {
    let names: Vec<String> =
        calls::methods().iter().flat_map(|method| Slot::all(&method.input())).map(|slot| slot.to_string()).collect();
    for name in [
        "session_id",
        "message_id",
        "compaction_id",
        "parent_session_id",
        "at.session_id",
        "prompt_id",
        "approval_id",
        "access_token_id",
    ] {
        assert!(names.iter().any(|found| found == name), "{name} is in no request: {names:?}");
    }
}
