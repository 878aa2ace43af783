-- What the status page says beside how reductions end: who asked for them, and what summaries cost.

-- Reductions are told apart by who asked too. Those that ended before were counted without that: their rows have 0.
create table reduction_tally_by_trigger (
    kind integer not null,                          -- as in `job`
    level integer not null,                         -- as in `job`, 0 for none
    trigger integer not null,                       -- as in `job`, 0 for those that ended before this was counted
    state integer not null,                         -- how they ended, as in `job`
    count integer not null,
    freed_tokens integer not null,                  -- what those in force took out of views
    primary key (kind, level, trigger, state)
) strict, without rowid;

insert into reduction_tally_by_trigger (kind, level, trigger, state, count, freed_tokens)
select kind, level, 0, state, count, freed_tokens from reduction_tally;
drop table reduction_tally;
alter table reduction_tally_by_trigger rename to reduction_tally;

-- What requests to models came to: counters that are written in the transaction that puts a request on the books, so
-- that nobody has to walk the requests.
create table spending_tally (
    summarizer text not null,                       -- its name in the configuration
    model text not null,                            -- as in `summary_request`, cut; empty: all that came too late for a row
    requests integer not null,
    failures integer not null,                      -- requests without a summary in the reply
    input_tokens integer not null,                  -- this and the following as far as providers said
    output_tokens integer not null,
    reasoning_tokens integer not null,
    cache_read_tokens integer not null,
    cache_write_tokens integer not null,
    cost_micros integer not null,                   -- millionths of a US dollar, as far as it is known
    unpriced integer not null,                      -- requests whose cost nobody knows
    duration_ms integer not null,
    primary key (summarizer, model)
) strict, without rowid;

-- What was asked before counts too; its tokens are in columns that only the program can read, and stay unknown. No
-- figure of a provider's may be so large that the sum is none.
insert into spending_tally (summarizer, model, requests, failures, input_tokens, output_tokens, reasoning_tokens,
    cache_read_tokens, cache_write_tokens, cost_micros, unpriced, duration_ms)
select summarizer, substr(model, 1, 100), count(*), count(failure), 0, 0, 0, 0, 0,
    sum(min(max(coalesce(cost_micros, 0), 0), 1000000000000)), count(*) - count(cost_micros),
    sum(min(max(duration_ms, 0), 1000000000000))
from summary_request group by 1, 2;
