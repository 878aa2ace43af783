//! Doctored streams of runs and trees of sessions: what is missing, repeated, out of order or left out is found.

use super::run_watches::{Followed, Signal, expected, fault};
use super::tests::{history, numbered};
use super::trees::{TreeCancel, cancel_fault, members};
use longhand::pb;
use pb::Event;
use pb::event::Body;
use std::collections::HashSet;

fn prompt(id: &str) -> Signal {
    Signal::Prompt(id.to_owned())
}

fn run(id: &str) -> Signal {
    Signal::Run(id.to_owned())
}

fn approval(id: &str) -> Signal {
    Signal::Approval(id.to_owned())
}

#[test]
fn an_agent_learns_what_its_run_has_in_the_log_once_and_in_order() {
    let steps = numbered(history());
    let events = || steps.iter().map(|(event, _)| event);
    let all = vec![prompt("p1"), prompt("p2"), approval("a1"), prompt("p3"), run("a"), run("a")];
    assert_eq!(expected(events(), 1), all);
    assert_eq!(expected(events(), 2), [run("b")], "the default of its question holds behind its end");
    assert_eq!(expected(events(), 3), []);
    let without = |index: usize| [&all[..index], &all[index + 1..]].concat();
    let twice = [&all[..2], &all[1..]].concat();
    let swapped = [&[all[1].clone(), all[0].clone()], &all[2..]].concat();
    let more = [&all[..], &[prompt("p4")]].concat();
    for (name, signals, is_over, has_ended, is_right) in [
        ("all of it", all.clone(), true, true, true),
        ("not yet all", all[..3].to_vec(), false, true, true),
        ("nothing yet", Vec::new(), false, false, true),
        ("a prompt is missing", without(1), true, true, false),
        ("the request to stop is missing", without(4), true, true, false),
        ("an answer is missing in the middle", without(2), false, true, false),
        ("the end is missing", all[..5].to_vec(), true, true, false),
        ("a prompt comes twice", twice.clone(), true, true, false),
        ("a prompt comes twice, not yet all", twice[..3].to_vec(), false, true, false),
        ("two are out of order", swapped, true, true, false),
        ("a prompt behind the end", more, true, true, false),
        ("the end of a run that goes on", all.clone(), true, false, false),
    ] {
        let followed = Followed { signals, is_over, epoch: 1, ..Followed::default() };
        assert_eq!(fault(&followed, &all, has_ended).is_none(), is_right, "{name}");
    }
}

fn event(seq: i64, session: &str, body: Body) -> Event {
    Event { seq, session_id: session.to_owned(), body: Some(body), ..Event::default() }
}

fn created(seq: i64, session: &str, parent: Option<&str>) -> Event {
    let parent_session_id = parent.map(str::to_owned);
    event(seq, session, Body::SessionCreated(pb::SessionCreated { parent_session_id, ..Default::default() }))
}

fn started(seq: i64, session: &str) -> Event {
    event(seq, session, Body::RunStarted(pb::RunStarted { run_id: format!("run of {session}"), epoch: 1 }))
}

fn stopped(seq: i64, session: &str) -> Event {
    let body = pb::RunCancelRequested { run_id: format!("run of {session}"), epoch: 1 };
    event(seq, session, Body::RunCancelRequested(body))
}

/// A root with a child, its child, a fork of that, and another session; all but the fork have a run.
fn tree() -> Vec<Event> {
    let forked = pb::SessionForked { source_session_id: "grandchild".to_owned(), ..Default::default() };
    vec![
        created(1, "root", None),
        created(2, "child", Some("root")),
        created(3, "grandchild", Some("child")),
        event(4, "fork", Body::SessionForked(forked)),
        created(5, "other", None),
        started(6, "root"),
        started(7, "grandchild"),
        started(8, "other"),
        stopped(9, "root"),
        stopped(10, "grandchild"),
        started(11, "child"),
    ]
}

#[test]
fn a_tree_has_those_that_work_for_its_root_and_with_forks_these_too() {
    let found = |root: &str, with_forks: bool| members(&tree(), root, with_forks);
    let set = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect::<HashSet<_>>();
    assert_eq!(found("root", false), set(&["root", "child", "grandchild"]));
    assert_eq!(found("child", true), set(&["child", "grandchild", "fork"]));
    assert_eq!(found("other", true), set(&["other"]));
}

#[test]
fn a_run_that_a_stopped_tree_left_out_or_that_is_of_another_one_is_found() {
    let runs = |ids: &[&str]| {
        let run =
            |id: &&str| pb::Run { run_id: format!("run of {id}"), cancel_revision: Some(2), ..pb::Run::default() };
        ids.iter().map(run).collect::<Vec<_>>()
    };
    let going = vec![pb::Run { run_id: "run of root".to_owned(), ..pb::Run::default() }];
    for (name, root, after_seq, to_seq, runs, expected) in [
        ("all", "root", 8, 10, runs(&["root", "grandchild"]), None),
        ("one begins meanwhile", "root", 10, 11, runs(&[]), None),
        ("one is left out", "root", 8, 9, runs(&["root"]), Some("was not asked to")),
        ("one that began before is left out", "child", 11, 11, runs(&[]), Some("was not asked to")),
        ("one of another tree", "root", 8, 10, runs(&["other"]), Some("which is not of it")),
        ("one goes on", "root", 8, 10, going, Some("or not to stop")),
    ] {
        let cancel = TreeCancel { root: root.to_owned(), after_seq, to_seq, runs };
        let found = cancel_fault(&tree(), &cancel);
        match expected {
            None => assert_eq!(found, None, "{name}"),
            Some(expected) => {
                assert!(found.as_ref().is_some_and(|fault| fault.contains(expected)), "{name}: {found:?}")
            }
        }
    }
}
