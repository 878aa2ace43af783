-- What times of events were by a clock that was confirmed.

-- A time in which both went on together. Times of events never go back, and stay ahead of a clock that was wrong: what is
-- to be erased by its age is dated by these rows. Only the newest one grows.
create table clock_segment (
    event_time integer primary key,                 -- at its begin: microseconds since 1970, as are all times
    confirmed_time integer not null,                -- at its begin
    micros integer not null                         -- its length
) strict;
