//! Which shard a daemon takes, gives up or hands to another one: evenly, and one at a time.

use crate::store::{ShardEntry, Survey};
use std::collections::{BTreeMap, BTreeSet};

/// What a daemon does next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Take a shard that nobody has.
    Take(String),
    /// Give up a shard that another daemon is to own.
    Give(String),
    /// Have another daemon own one of the daemon's shards.
    Hand {
        /// The shard.
        shard: String,
        /// The other daemon.
        to: String,
    },
}

/// Which daemons are waited for that had shards before the database was on another server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waits {
    /// All: those that are cut off are on their way back.
    ForAll,
    /// Those that are there.
    ForRunning,
    /// None.
    ForNone,
}

/// The next step of a daemon that has these shards; none if all is as it should be.
///
/// A shard goes to its destination while that daemon runs, and else to a daemon that has less than its share. A daemon with
/// two shards more than another one hands it one: of the daemons with the most that with the first id, so that one moves at
/// a time.
///
/// While it `waits` for the last owners of shards that are on another server now, nobody else takes what is theirs: they alone
/// know what they acknowledged last.
pub fn next(survey: &Survey, me: &str, mine: &BTreeSet<String>, waits: Waits) -> Option<Step> {
    let runs = |id: &str| survey.daemons.iter().any(|daemon| daemon.id == id);
    let destination = |name: &str| {
        let shard = survey.shards.iter().find(|shard| shard.name == name)?;
        shard.destination.as_deref().filter(|id| runs(id))
    };
    if let Some(shard) = mine.iter().find(|shard| destination(shard).is_some_and(|id| id != me)) {
        return Some(Step::Give(shard.clone()));
    }
    let free = survey.shards.iter().filter(|shard| shard.owner.is_none() && !mine.contains(&shard.name));
    let is_waited_for = |last: &str| last != me && (waits == Waits::ForAll || waits == Waits::ForRunning && runs(last));
    let is_anothers = |shard: &&&ShardEntry| shard.is_moved && shard.last_owner.as_deref().is_some_and(is_waited_for);
    let free: Vec<&ShardEntry> = free.collect();
    let takeable = free.iter().filter(|shard| !is_anothers(shard)).map(|shard| shard.name.as_str());
    let (destined, takeable): (Vec<&str>, Vec<&str>) = takeable.partition(|shard| destination(shard).is_some());
    if let Some(shard) = destined.into_iter().find(|shard| destination(shard) == Some(me)) {
        return Some(Step::Take(shard.to_owned()));
    }
    let daemons = survey.daemons.len().max(1);
    if !takeable.is_empty() && mine.len() < survey.shards.len().div_ceil(daemons) {
        // Daemons that look at once try different ones.
        let rank = survey.daemons.iter().position(|daemon| daemon.id == me).unwrap_or(0);
        return Some(Step::Take(takeable[rank % takeable.len()].to_owned()));
    }
    if !free.is_empty() {
        return None;
    }
    let mut counts: BTreeMap<&str, usize> = survey.daemons.iter().map(|daemon| (daemon.id.as_str(), 0)).collect();
    for shard in &survey.shards {
        let owner = shard.owner.as_deref()?;
        *counts.entry(owner).or_default() += 1;
        // A move is under way.
        if destination(&shard.name).is_some_and(|id| id != owner) {
            return None;
        }
    }
    let (&to, &least) = counts.iter().filter(|(id, _)| runs(id)).min_by_key(|&(_, count)| *count)?;
    let most = counts.values().copied().max()?;
    let (&hander, _) = counts.iter().find(|&(_, count)| *count == most)?;
    if hander != me || most < least + 2 {
        return None;
    }
    let is_pinned = |name: &&String| survey.shards.iter().any(|shard| shard.name == **name && shard.is_pinned);
    let shard = mine.iter().find(|name| !is_pinned(name))?;
    Some(Step::Hand { shard: shard.clone(), to: to.to_owned() })
}

/// The shards on another server that nobody has and this daemon had last: it takes them again at once.
pub fn returning(survey: &Survey, me: &str) -> Vec<String> {
    let is_own =
        |shard: &&ShardEntry| shard.is_moved && shard.owner.is_none() && shard.last_owner.as_deref() == Some(me);
    survey.shards.iter().filter(is_own).map(|shard| shard.name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{DaemonEntry, ShardEntry};
    use std::time::Duration;

    /// A survey of daemons by their ids, and of shards by their owners, destinations and pins.
    fn survey(daemons: &[&str], shards: &[(&str, Option<&str>, Option<&str>, bool)]) -> Survey {
        let daemon = |id: &&str| DaemonEntry { id: (*id).to_owned(), address: String::new() };
        let shard = |&(name, owner, destination, is_pinned): &(&str, Option<&str>, Option<&str>, bool)| ShardEntry {
            name: name.to_owned(),
            owner: owner.map(str::to_owned),
            last_owner: owner.map(str::to_owned),
            is_moved: false,
            lease_left: Duration::ZERO,
            destination: destination.map(str::to_owned),
            is_pinned,
            head_seq: 0,
        };
        Survey {
            server: String::new(),
            daemons: daemons.iter().map(daemon).collect(),
            shards: shards.iter().map(shard).collect(),
        }
    }

    fn step(survey: &Survey, me: &str) -> Option<Step> {
        let mine = survey.shards.iter().filter(|shard| shard.owner.as_deref() == Some(me));
        next(survey, me, &mine.map(|shard| shard.name.clone()).collect(), Waits::ForNone)
    }

    #[test]
    fn on_another_server_the_last_owners_come_first() {
        let mut survey = survey(&["a", "b"], &[("s1", None, None, false), ("s2", None, Some("a"), true)]);
        for (last, me, waits, expected) in [
            ([None, None], "b", Waits::ForAll, Some("s1")),
            ([Some("a"), None], "b", Waits::ForAll, None),
            ([Some("a"), None], "b", Waits::ForRunning, None),
            ([Some("a"), None], "b", Waits::ForNone, Some("s1")),
            ([Some("c"), None], "b", Waits::ForAll, None),
            ([Some("c"), None], "b", Waits::ForRunning, Some("s1")),
            ([Some("a"), None], "a", Waits::ForAll, Some("s2")),
            ([Some("a"), Some("b")], "a", Waits::ForAll, Some("s1")),
            ([Some("b"), Some("b")], "a", Waits::ForAll, None),
            ([Some("b"), Some("b")], "a", Waits::ForNone, Some("s2")),
            ([Some("b"), Some("b")], "b", Waits::ForAll, Some("s1")),
        ] {
            for (shard, last) in survey.shards.iter_mut().zip(last) {
                (shard.last_owner, shard.is_moved) = (last.map(str::to_owned), true);
            }
            let expected = expected.map(|shard| Step::Take(shard.to_owned()));
            assert_eq!(next(&survey, me, &BTreeSet::new(), waits), expected, "{last:?}, {me}, {waits:?}");
            let own = last.iter().zip(["s1", "s2"]).filter(|(last, _)| **last == Some(me));
            assert_eq!(returning(&survey, me), own.map(|(_, shard)| shard).collect::<Vec<_>>());
        }
    }

    #[test]
    fn shards_go_where_they_should() {
        let take = |shard: &str| Some(Step::Take(shard.to_owned()));
        let give = |shard: &str| Some(Step::Give(shard.to_owned()));
        let hand = |shard: &str, to: &str| Some(Step::Hand { shard: shard.to_owned(), to: to.to_owned() });
        let (a, b, c) = (Some("a"), Some("b"), Some("c"));
        for (name, daemons, shards, me, expected) in [
            ("alone", vec!["a"], vec![("s1", None, None, false), ("s2", a, None, false)], "a", take("s1")),
            (
                "the second tries another",
                vec!["a", "b"],
                vec![("s1", None, None, false), ("s2", None, None, false)],
                "b",
                take("s2"),
            ),
            ("it has its share", vec!["a", "b"], vec![("s1", a, None, false), ("s2", None, None, false)], "a", None),
            (
                "a new one gets one",
                vec!["a", "b"],
                vec![("s1", a, None, false), ("s2", a, None, false)],
                "a",
                hand("s1", "b"),
            ),
            ("by the owner alone", vec!["a", "b"], vec![("s1", a, None, false), ("s2", a, None, false)], "b", None),
            (
                "not a pinned one",
                vec!["a", "b"],
                vec![("s1", a, a, true), ("s2", a, None, false)],
                "a",
                hand("s2", "b"),
            ),
            (
                "one at a time",
                vec!["a", "b"],
                vec![("s1", a, b, false), ("s2", a, None, false), ("s3", a, None, false)],
                "a",
                give("s1"),
            ),
            (
                "to its destination",
                vec!["a", "b"],
                vec![("s1", None, b, false), ("s2", a, None, false)],
                "b",
                take("s1"),
            ),
            ("to nobody else", vec!["a", "b", "c"], vec![("s1", None, b, true), ("s2", a, None, false)], "c", None),
            (
                "its destination is gone",
                vec!["a", "c"],
                vec![("s1", None, b, true), ("s2", a, None, false)],
                "c",
                take("s1"),
            ),
            (
                "enough is enough",
                vec!["a", "b"],
                vec![("s1", a, None, false), ("s2", a, None, false), ("s3", b, None, false)],
                "a",
                None,
            ),
            (
                "an owner that is gone has its lease yet",
                vec!["b"],
                vec![("s1", c, None, false), ("s2", b, None, false)],
                "b",
                None,
            ),
        ] {
            assert_eq!(step(&survey(&daemons, &shards), me), expected, "{name}");
        }
    }

    /// Whatever the begin: by steps of one daemon after the other, every shard is owned soon, and no daemon has two more
    /// than another.
    #[test]
    fn any_number_of_daemons_and_shards_comes_to_rest_evenly() {
        for daemons in 1..=5_usize {
            for shards in 1..=9_usize {
                let ids: Vec<String> = (0..daemons).map(|number| format!("d{number}")).collect();
                let names: Vec<String> = (1..=shards).map(|number| format!("s{number}")).collect();
                let entries: Vec<_> = names.iter().map(|name| (name.as_str(), Some("d0"), None, false)).collect();
                let mut world = survey(&ids.iter().map(String::as_str).collect::<Vec<_>>(), &entries);
                let mut is_moving = true;
                for _ in 0..10 * shards {
                    is_moving = false;
                    for me in &ids {
                        let Some(step) = step(&world, me) else { continue };
                        is_moving = true;
                        let of = |name: &str| world.shards.iter().position(|shard| shard.name == name).expect("known");
                        match step {
                            Step::Take(name) => {
                                let at = of(&name);
                                world.shards[at].owner = Some(me.clone());
                            }
                            Step::Give(name) => {
                                let at = of(&name);
                                world.shards[at].owner = None;
                            }
                            Step::Hand { shard, to } => {
                                let at = of(&shard);
                                world.shards[at].destination = Some(to);
                            }
                        }
                    }
                }
                assert!(!is_moving, "{daemons} daemons with {shards} shards do not come to rest");
                let counts =
                    ids.iter().map(|id| world.shards.iter().filter(|shard| shard.owner.as_ref() == Some(id)).count());
                let counts: Vec<usize> = counts.collect();
                assert!(counts.iter().sum::<usize>() == shards, "{counts:?}");
                assert!(counts.iter().max() <= counts.iter().min().map(|least| least + 1).as_ref(), "{counts:?}");
            }
        }
    }
}
