//! Which shard a daemon takes, gives up or hands to another one: evenly, and one at a time.

use crate::postgres::{DaemonEntry, ShardEntry, Survey};
use std::collections::{BTreeMap, BTreeSet};

/// What a daemon does next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BalanceStep {
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
pub enum AwaitedDaemons {
    /// All: those that are cut off are on their way back.
    ForAll,
    /// Those that are there.
    ForRunning,
    /// None.
    ForNone,
}

/// A daemon that asks for its next step.
#[derive(Debug, Clone, Copy)]
pub struct AskingDaemon<'a> {
    /// The daemon.
    pub id: &'a str,
    /// The shards that it has.
    pub shards: &'a BTreeSet<String>,
    /// The shards that it could not open, and would try again now.
    pub due: &'a BTreeSet<String>,
}

/// The daemons that run and could open a shard, as far as they know.
fn able<'a>(survey: &'a Survey, shard: &'a str) -> impl Iterator<Item = &'a str> {
    let failed = move |daemon: &&DaemonEntry| daemon.failures.iter().any(|failure| failure.shard == shard);
    survey.daemons.iter().filter(move |daemon| !failed(daemon)).map(|daemon| daemon.id.as_str())
}

/// The next step of a daemon; none if all is as it should be.
///
/// A shard goes to its destination while that daemon runs and can open it, and else to a daemon that has less than its share
/// among those that can. A daemon with two shards more than another one hands it one: of the daemons with the most that with
/// the first id, so that one moves at a time. A shard that no daemon can open is tried by all, now and then.
///
/// While it `waits` for the last owners of shards that are on another server now, nobody else takes what is theirs: they alone
/// know what they acknowledged last.
pub fn next(survey: &Survey, mine: AskingDaemon<'_>, waits: AwaitedDaemons) -> Option<BalanceStep> {
    let AskingDaemon { id: me, shards: mine, due } = mine;
    let runs = |id: &str| survey.daemons.iter().any(|daemon| daemon.id == id);
    let can_open = |id: &str, shard: &str| able(survey, shard).any(|able| able == id);
    let may_open = |shard: &str| match able(survey, shard).next() {
        Some(_) => can_open(me, shard),
        None => due.contains(shard),
    };
    let destination = |name: &str| {
        let shard = survey.shards.iter().find(|shard| shard.name == name)?;
        shard.destination.as_deref().filter(|id| can_open(id, name))
    };
    if let Some(shard) = mine.iter().find(|shard| destination(shard).is_some_and(|id| id != me)) {
        return Some(BalanceStep::Give(shard.clone()));
    }
    let free = survey.shards.iter().filter(|shard| shard.owner.is_none() && !mine.contains(&shard.name));
    let is_waited_for = |last: &str| {
        last != me && (waits == AwaitedDaemons::ForAll || waits == AwaitedDaemons::ForRunning && runs(last))
    };
    let is_anothers = |shard: &&&ShardEntry| shard.is_moved && shard.last_owner.as_deref().is_some_and(is_waited_for);
    let free: Vec<&ShardEntry> = free.collect();
    let takeable = free.iter().filter(|shard| !is_anothers(shard)).map(|shard| shard.name.as_str());
    let takeable = takeable.filter(|shard| may_open(shard));
    let (destined, takeable): (Vec<&str>, Vec<&str>) = takeable.partition(|shard| destination(shard).is_some());
    if let Some(shard) = destined.into_iter().find(|shard| destination(shard) == Some(me)) {
        return Some(BalanceStep::Take(shard.to_owned()));
    }
    let is_below_share = |shard: &&str| mine.len() < survey.shards.len().div_ceil(able(survey, shard).count().max(1));
    let takeable: Vec<&str> = takeable.into_iter().filter(is_below_share).collect();
    if !takeable.is_empty() {
        // Daemons that look at once try different ones.
        let rank = survey.daemons.iter().position(|daemon| daemon.id == me).unwrap_or(0);
        return Some(BalanceStep::Take(takeable[rank % takeable.len()].to_owned()));
    }
    // One that nobody can open keeps the others from nothing.
    if free.iter().any(|shard| able(survey, &shard.name).next().is_some()) {
        return None;
    }
    let mut counts: BTreeMap<&str, usize> = survey.daemons.iter().map(|daemon| (daemon.id.as_str(), 0)).collect();
    for shard in survey.shards.iter().filter(|shard| shard.owner.is_some()) {
        let owner = shard.owner.as_deref()?;
        *counts.entry(owner).or_default() += 1;
        // A move is under way.
        if destination(&shard.name).is_some_and(|id| id != owner) {
            return None;
        }
    }
    let most = counts.values().copied().max()?;
    let (&hander, _) = counts.iter().find(|&(_, count)| *count == most)?;
    if hander != me {
        return None;
    }
    let is_pinned = |name: &&String| survey.shards.iter().any(|shard| shard.name == **name && shard.is_pinned);
    // A daemon with a failure is given nothing that another one serves: it may be able to open none.
    let is_well = |id: &str| survey.daemons.iter().any(|daemon| daemon.id == id && daemon.failures.is_empty());
    let mut takers: Vec<(&str, usize)> =
        counts.into_iter().filter(|&(id, count)| is_well(id) && most >= count + 2).collect();
    takers.sort_by_key(|&(_, count)| count);
    takers.into_iter().find_map(|(to, _)| {
        let shard = mine.iter().find(|name| !is_pinned(name))?;
        Some(BalanceStep::Hand { shard: shard.clone(), to: to.to_owned() })
    })
}

/// The shards on another server that nobody has and this daemon had last: it takes them again at once, but for those that it
/// could not open, and are not due.
pub fn returning_shards(survey: &Survey, me: &str, due: &BTreeSet<String>) -> Vec<String> {
    let is_own = |shard: &&ShardEntry| {
        shard.is_moved
            && shard.owner.is_none()
            && shard.last_owner.as_deref() == Some(me)
            && (due.contains(&shard.name) || able(survey, &shard.name).any(|able| able == me))
    };
    survey.shards.iter().filter(is_own).map(|shard| shard.name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::postgres::{DaemonEntry, ShardEntry, ShardFailure};
    use std::time::Duration;

    /// A survey of daemons by their ids, and of shards by their owners, destinations and pins.
    fn survey(daemons: &[&str], shards: &[(&str, Option<&str>, Option<&str>, bool)]) -> Survey {
        let daemon = |id: &&str| DaemonEntry { id: (*id).to_owned(), address: String::new(), failures: Vec::new() };
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

    fn step(survey: &Survey, me: &str) -> Option<BalanceStep> {
        let mine = survey.shards.iter().filter(|shard| shard.owner.as_deref() == Some(me));
        let shards = mine.map(|shard| shard.name.clone()).collect();
        next(survey, AskingDaemon { id: me, shards: &shards, due: &BTreeSet::new() }, AwaitedDaemons::ForNone)
    }

    #[test]
    fn on_another_server_the_last_owners_come_first() {
        let mut survey = survey(&["a", "b"], &[("s1", None, None, false), ("s2", None, Some("a"), true)]);
        for (last, me, waits, expected) in [
            ([None, None], "b", AwaitedDaemons::ForAll, Some("s1")),
            ([Some("a"), None], "b", AwaitedDaemons::ForAll, None),
            ([Some("a"), None], "b", AwaitedDaemons::ForRunning, None),
            ([Some("a"), None], "b", AwaitedDaemons::ForNone, Some("s1")),
            ([Some("c"), None], "b", AwaitedDaemons::ForAll, None),
            ([Some("c"), None], "b", AwaitedDaemons::ForRunning, Some("s1")),
            ([Some("a"), None], "a", AwaitedDaemons::ForAll, Some("s2")),
            ([Some("a"), Some("b")], "a", AwaitedDaemons::ForAll, Some("s1")),
            ([Some("b"), Some("b")], "a", AwaitedDaemons::ForAll, None),
            ([Some("b"), Some("b")], "a", AwaitedDaemons::ForNone, Some("s2")),
            ([Some("b"), Some("b")], "b", AwaitedDaemons::ForAll, Some("s1")),
        ] {
            for (shard, last) in survey.shards.iter_mut().zip(last) {
                (shard.last_owner, shard.is_moved) = (last.map(str::to_owned), true);
            }
            let expected = expected.map(|shard| BalanceStep::Take(shard.to_owned()));
            let mine = AskingDaemon { id: me, shards: &BTreeSet::new(), due: &BTreeSet::new() };
            assert_eq!(next(&survey, mine, waits), expected, "{last:?}, {me}, {waits:?}");
            let own = last.iter().zip(["s1", "s2"]).filter(|(last, _)| **last == Some(me));
            assert_eq!(
                returning_shards(&survey, me, &BTreeSet::new()),
                own.map(|(_, shard)| shard).collect::<Vec<_>>()
            );
        }
    }

    #[test]
    fn shards_go_where_they_should() {
        let take = |shard: &str| Some(BalanceStep::Take(shard.to_owned()));
        let give = |shard: &str| Some(BalanceStep::Give(shard.to_owned()));
        let hand = |shard: &str, to: &str| Some(BalanceStep::Hand { shard: shard.to_owned(), to: to.to_owned() });
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

    /// By steps of one daemon after the other; false if they do not come to rest.
    fn comes_to_rest(world: &mut Survey) -> bool {
        let ids: Vec<String> = world.daemons.iter().map(|daemon| daemon.id.clone()).collect();
        for _ in 0..10 * world.shards.len() {
            let mut is_moving = false;
            for me in &ids {
                let Some(step) = step(world, me) else { continue };
                is_moving = true;
                let (BalanceStep::Take(name) | BalanceStep::Give(name) | BalanceStep::Hand { shard: name, .. }) = &step;
                let shard = world.shards.iter_mut().find(|shard| shard.name == *name).expect("known");
                match step {
                    BalanceStep::Take(_) => shard.owner = Some(me.clone()),
                    BalanceStep::Give(_) => shard.owner = None,
                    BalanceStep::Hand { to, .. } => shard.destination = Some(to),
                }
            }
            if !is_moving {
                return true;
            }
        }
        false
    }

    /// Whatever the begin: every shard is owned soon, and no daemon has two more than another.
    #[test]
    fn any_number_of_daemons_and_shards_comes_to_rest_evenly() {
        for daemons in 1..=5_usize {
            for shards in 1..=9_usize {
                let ids: Vec<String> = (0..daemons).map(|number| format!("d{number}")).collect();
                let names: Vec<String> = (1..=shards).map(|number| format!("s{number}")).collect();
                let entries: Vec<_> = names.iter().map(|name| (name.as_str(), Some("d0"), None, false)).collect();
                let mut world = survey(&ids.iter().map(String::as_str).collect::<Vec<_>>(), &entries);
                assert!(comes_to_rest(&mut world), "{daemons} daemons with {shards} shards do not come to rest");
                let counts =
                    ids.iter().map(|id| world.shards.iter().filter(|shard| shard.owner.as_ref() == Some(id)).count());
                let counts: Vec<usize> = counts.collect();
                assert!(counts.iter().sum::<usize>() == shards, "{counts:?}");
                assert!(counts.iter().max() <= counts.iter().min().map(|least| least + 1).as_ref(), "{counts:?}");
            }
        }
    }

    /// A shard that a daemon cannot open is served by one that can, however many it has; nobody takes, and nobody is handed,
    /// what it cannot open.
    #[test]
    fn what_a_sick_daemon_cannot_open_others_serve() {
        let names = ["s1", "s2", "s3", "s4"];
        for daemons in 2..=3_usize {
            // A bit for each daemon and shard.
            for sick in 0..1_u32 << (daemons * names.len()) {
                let fails = |daemon: usize, shard: usize| sick & 1 << (daemon * names.len() + shard) != 0;
                let ids = &["d0", "d1", "d2"][..daemons];
                let mut world = survey(ids, &names.map(|name| (name, None, Some("d0"), false)));
                for (number, daemon) in world.daemons.iter_mut().enumerate() {
                    let failed = names.iter().enumerate().filter(|&(shard, _)| fails(number, shard));
                    let failure =
                        |(_, name): (usize, &&str)| ShardFailure { shard: (*name).to_owned(), error: String::new() };
                    daemon.failures = failed.map(failure).collect();
                }
                assert!(comes_to_rest(&mut world), "{sick:b}");
                for (at, shard) in world.shards.iter().enumerate() {
                    let able = (0..daemons).filter(|&daemon| !fails(daemon, at)).map(|daemon| ids[daemon]);
                    let able: Vec<&str> = able.collect();
                    match &shard.owner {
                        Some(owner) => assert!(able.contains(&owner.as_str()), "{sick:b}: {shard:?}"),
                        None => assert!(able.is_empty(), "{sick:b}: {shard:?}"),
                    }
                }
            }
        }
    }

    #[test]
    fn what_nobody_can_open_is_tried_when_it_is_due() {
        let mut world = survey(&["a"], &[("s1", None, None, false)]);
        world.daemons[0].failures = vec![ShardFailure { shard: "s1".to_owned(), error: String::new() }];
        let step = |due: &BTreeSet<String>| {
            next(&world, AskingDaemon { id: "a", shards: &BTreeSet::new(), due }, AwaitedDaemons::ForNone)
        };
        assert_eq!(step(&BTreeSet::new()), None);
        assert_eq!(step(&BTreeSet::from(["s1".to_owned()])), Some(BalanceStep::Take("s1".to_owned())));
    }
}
