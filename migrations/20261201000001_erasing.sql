-- Erasures of large sessions, which are made in steps.

-- A session whose erasure has begun and has not ended. What is left to do follows from this row and the session, so that
-- a daemon that stopped in between goes on with it at its next start.
create table erasing (
    session_id integer primary key references session (id),
    next_revision integer not null,                 -- what comes before is erased
    actor text not null,                            -- who asked for it
    request_id text,                                -- of the request, whose answer is kept at the end
    payload_hash blob,                              -- as it is kept with the answer
    reason text not null,
    messages integer not null,                      -- what is erased so far, as in `erasure`
    parts integer not null,
    bytes integer not null,
    summaries integer not null,
    blobs integer not null,
    check ((request_id is null) = (payload_hash is null))
) strict;
