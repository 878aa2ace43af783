-- Progress of the scrub, which verifies the store in the background: one row, absent before the first pass.
create table scrub (
    id integer primary key check (id = 1),
    session_id integer,                             -- the last session that the unfinished pass has checked, 0 before
                                                    -- the first; null if no pass is unfinished
    start_time integer,                             -- begin of the current or the last pass, in microseconds since 1970
    sessions integer not null,                      -- extent of the current pass, or of the last one
    events integer not null,
    findings integer not null,
    end_time integer,                               -- end of the last complete pass; null before the first
    last_findings integer not null                  -- findings of the last complete pass
) strict;
