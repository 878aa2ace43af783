//! Tokens that were given to somebody else, and the streams of single sessions.

use super::calls::{Answer, Said as _, methods};
use super::requests::{Filler, Slot, everything};
use super::world::{Kind, Side, World, made_up};
use super::{check_text, without};
use futures::future::join_all;
use http::Method;
use prost_reflect::{MethodDescriptor, Value as Field};
use serde_json::{Value, json};

const SSE: &str = "text/event-stream";
const JSON: &str = "application/json";

/// Tokens that a side was given.
struct Given {
    of: &'static str,
    /// Page tokens and cursors, each with the field that takes it.
    places: Vec<(&'static str, String)>,
    view_token: String,
}

/// Uses what every side was given as every other one.
pub(super) async fn show_nothing_of_others(world: &World, seed: u64) {
    let mut given = Vec::new();
    for side in &world.sides {
        let view_token = view_token(world, side, &side.sessions[0]).await;
        given.push(Given { of: side.name, places: places(world, side).await, view_token });
    }
    join_all(world.sides.iter().map(|side| sessions_of_others_have_no_streams(world, side))).await;
    for side in &world.sides {
        leases_of_others_hold_nothing(world, side, seed).await;
        for given in given.iter().filter(|given| given.of != side.name) {
            view_tokens_of_others_are_unknown(world, side, given).await;
        }
    }
    // At the same time, since each of the streams is idle for a while before it is complete.
    let pairs = world.sides.iter().flat_map(|side| given.iter().map(move |given| (side, given)));
    let others = pairs.filter(|(side, given)| given.of != side.name);
    join_all(others.map(|(side, given)| places_of_others_lead_to_one_s_own(world, side, given, seed))).await;
}

/// The answer to a method as JSON.
async fn call(world: &World, side: &Side, name: &str, fields: Value) -> Vec<Value> {
    let method = methods().into_iter().find(|method| method.name() == name).expect("a method");
    let request = prost_reflect::DynamicMessage::deserialize(method.input(), fields).expect("a request");
    world.call(side, &method, &request).await.messages
}

async fn view_token(world: &World, side: &Side, session: &str) -> String {
    let frames = call(world, side, "GetView", json!({ "sessionId": session })).await;
    frames[0]["header"]["viewToken"].as_str().expect("a view token").to_owned()
}

/// The page tokens and cursors of every method that gives some, for its own first session and for everything.
async fn places(world: &World, side: &Side) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    for method in methods() {
        let Some(field) = place_field(&method) else { continue };
        let input = method.input();
        let mut request = everything(&input);
        request.set_field_by_name("page_size", Field::I32(1));
        for (name, kind) in [("session_id", Kind::Session), ("message_id", Kind::Message)] {
            if let (Some(field), Some(own)) = (input.get_field_by_name(name), side.own(kind)) {
                request.set_field(&field, Field::String(own));
            }
        }
        let last = world.call(side, &method, &request).await.messages.pop().unwrap_or_default();
        let cursor = last.pointer("/progress/cursor").or_else(|| last.pointer("/events/cursor"));
        let place = last.get("nextPageToken").or_else(|| last.get("nextCursor")).or(cursor);
        found.extend(place.and_then(Value::as_str).map(|place| (field, place.to_owned())));
    }
    let kinds = |wanted: &str| found.iter().filter(|(field, _)| *field == wanted).count();
    assert!(kinds("page_token") >= 2 && kinds("after_cursor") >= 2, "{} was given {found:?}", side.name);
    // One cursor is like another; page tokens are of different lists.
    let mut has_cursor = false;
    found.retain(|(field, _)| *field != "after_cursor" || !std::mem::replace(&mut has_cursor, true));
    found
}

/// The field in which a method takes a place to go on from.
fn place_field(method: &MethodDescriptor) -> Option<&'static str> {
    let input = method.input();
    ["page_token", "after_cursor"].into_iter().find(|name| input.get_field_by_name(name).is_some())
}

/// Goes on from somebody else's place in every list and stream.
async fn places_of_others_lead_to_one_s_own(world: &World, side: &Side, given: &Given, seed: u64) {
    let mut filler = Filler::new(side, seed);
    for method in methods() {
        for (field, place) in &given.places {
            for slot in Slot::named(&method.input(), field) {
                let request = slot.with(&filler.request(&method.input(), &slot), place);
                let grpc = world.call(side, &method, &request).await;
                let http = world.http(side, &method, &request).await;
                for text in std::iter::once(grpc).chain(http).collect::<Vec<_>>().texts() {
                    check_text(side, &format!("{} from the {field} of {}", method.full_name(), given.of), &text);
                }
            }
        }
    }
    let cursors = given.places.iter().filter(|(field, _)| *field == "after_cursor");
    for (_, cursor) in cursors {
        let own = &side.sessions[0];
        let options = "includeContent=true";
        for (uri, accept) in [
            (format!("/v1/events?after={cursor}&{options}&progressInterval=1s"), SSE),
            (format!("/v1/events?offset={cursor}&{options}"), JSON),
            (format!("/v1/events?offset={cursor}&live=sse&{options}&progressInterval=1s"), SSE),
            (format!("/v1/sessions/{own}/events?after={cursor}&{options}&progressInterval=1s"), SSE),
            (format!("/v1/sessions/{own}/events?offset={cursor}&{options}"), JSON),
            (format!("/v1/sessions/{own}/events?offset={cursor}&live=sse&{options}&progressInterval=1s"), SSE),
        ] {
            let answer = world.send(side, Method::GET, &uri, String::new(), accept).await;
            check_text(side, &uri, &vec![answer].texts().concat());
        }
    }
}

/// A reply that claims to answer somebody else's view is refused like one to a view that never was.
async fn view_tokens_of_others_are_unknown(world: &World, side: &Side, given: &Given) {
    let own = &side.sessions[0];
    let mut refusals = Vec::new();
    let mut forged = given.view_token.clone().into_bytes();
    forged[40] = if forged[40] == b'A' { b'B' } else { b'A' };
    for token in [String::from_utf8(forged).expect("ASCII"), given.view_token.clone()] {
        let usage = json!({ "inputTokens": "7", "outputTokens": "7" });
        let finish = json!({ "reason": "FINISH_REASON_STOP", "usage": usage, "viewToken": token });
        let reply = json!({
            "role": "ROLE_ASSISTANT",
            "parts": [{ "text": { "text": "a reply" } }],
            "finish": finish,
        });
        let body = json!({ "messages": [reply] }).to_string();
        let answer = vec![world.send(side, Method::POST, &format!("/v1/sessions/{own}/messages"), body, JSON).await];
        check_text(side, "a view token", &answer.texts().concat());
        refusals.push(answer.outcome(&token));
    }
    let [forged, others] = refusals.try_into().expect("two refusals");
    let is_of_own = sees(side, given);
    assert!(forged[0].as_ref().is_some_and(|refusal| refusal.contains("VIEW_TOKEN_INVALID")), "{forged:?}");
    assert!(is_of_own || others == forged, "{} with the view token of {}: {others:?}", side.name, given.of);
}

/// True if a side sees the sessions of another one.
fn sees(side: &Side, given: &Given) -> bool {
    side.name == "tenant one" && given.of.contains("bound")
}

/// The URLs of a session's streams, with what is accepted of them.
fn streams(session: &str) -> Vec<(Method, String, &'static str)> {
    let events = format!("/v1/sessions/{session}/events");
    let options = "includeContent=true&progressInterval=1s";
    vec![
        (Method::GET, format!("{events}?fromBeginning=true&includeDeltas=true&{options}"), SSE),
        (Method::GET, format!("{events}?offset=-1&{options}"), JSON),
        (Method::GET, format!("{events}?offset=-1&live=long-poll&{options}"), JSON),
        (Method::GET, format!("{events}?offset=-1&live=sse&{options}"), SSE),
        (Method::GET, format!("{events}?offset=now&{options}"), JSON),
        (Method::HEAD, events.clone(), JSON),
        (Method::GET, format!("/v1/sessions/{session}/view/events"), SSE),
    ]
}

/// A stream of somebody else's session is one of a session that never was.
async fn sessions_of_others_have_no_streams(world: &World, side: &Side) {
    let own = &side.sessions[0];
    for (method, uri, accept) in streams(own) {
        let answer = world.send(side, method, &uri, String::new(), accept).await;
        let text = vec![answer].texts().concat();
        check_text(side, &uri, &text);
        let has_content = !uri.contains("now") && (uri.contains("offset") || accept == SSE);
        assert!(!has_content || text.contains("marker-of-"), "{uri}: {text}");
    }
    for (kind, hidden) in side.hidden.ids() {
        let nobodys = made_up(*kind, hidden);
        for ((method, uri, accept), (_, other, _)) in streams(hidden).into_iter().zip(streams(&nobodys)) {
            let said = async |uri: &str, id: &str| -> Vec<Answer> {
                let answer = vec![world.send(side, method.clone(), uri, String::new(), accept).await];
                check_text(side, uri, &without(&answer.texts().concat(), id));
                answer
            };
            let (others, none) = (said(&uri, hidden).await, said(&other, &nobodys).await);
            let (others, none) = (others.outcome(hidden), none.outcome(&nobodys));
            assert!(others[0].as_ref().is_some_and(|refusal| refusal.starts_with("404")), "{uri}: {others:?}");
            assert_eq!(others, none, "{method} {uri} for {}", side.name);
        }
    }
}

/// The token of somebody else's lease is worth nothing, even with the compaction that it is for.
async fn leases_of_others_hold_nothing(world: &World, side: &Side, seed: u64) {
    let mut filler = Filler::new(side, seed);
    for (compaction, token) in side.hidden.leases() {
        let mut count = 0;
        for method in methods() {
            for slot in Slot::named(&method.input(), "lease_token") {
                count += 1;
                let mut request = slot.with(&filler.request(&method.input(), &slot), token);
                let mut said = Vec::new();
                for id in [compaction, &made_up(Kind::Compaction, compaction)] {
                    request.set_field_by_name("compaction_id", Field::String(id.clone()));
                    let answer = vec![world.call(side, &method, &request).await];
                    check_text(side, method.full_name(), &without(&answer.texts().concat(), id));
                    said.push(answer.outcome(id));
                }
                assert!(said[0][0].is_some() && said[0] == said[1], "{} of {}: {said:?}", method.name(), side.name);
            }
        }
        assert!(count >= 4, "{count} methods take a lease");
    }
}
