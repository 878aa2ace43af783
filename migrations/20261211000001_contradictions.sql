-- How often summaries say what the history contradicts, for the status page: counters that are written in the transaction
-- that puts a summary in force, so that nobody has to walk the outcomes.

create table contradiction_tally (
    kind integer primary key,                       -- the subject of the claims: 1 a check, 2 a commit, 3 a file
    count integer not null
) strict;
