-- How reductions fare, for the status page: counters that are written in the transaction that ends a job, so that
-- nobody has to walk the jobs.

create table reduction_tally (
    kind integer not null,                          -- as in `job`
    level integer not null,                         -- as in `job`, 0 for none
    state integer not null,                         -- how they ended, as in `job`
    count integer not null,
    freed_tokens integer not null,                  -- what those in force took out of views
    primary key (kind, level, state)
) strict, without rowid;

-- What ended before counts too; what it freed is in outcomes that only the program can read, and stays unknown.
insert into reduction_tally (kind, level, state, count, freed_tokens)
select kind, coalesce(level, 0), state, count(*), 0 from job where state >= 3 group by 1, 2, 3;

-- Few sessions are held, filled or resting at a time: the status page finds them without a walk.
create index session_held on session (hold_breaker) where hold_turns > 0;
create index session_filled on session (overhead_tokens) where overhead_tokens is not null;
create index session_cooling on session (cool_until) where cool_until is not null;
