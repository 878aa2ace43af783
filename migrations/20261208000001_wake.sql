-- A decision names the least that must happen before the next one can differ from it. A session is due when that has
-- happened; nothing else is compared with a policy here.

drop index session_idle;
alter table session drop column output_tokens;
alter table session drop column output_checked;
alter table session drop column routine_count;
alter table session drop column routine_checked;
alter table session drop column view_count;
alter table session drop column view_checked;
alter table session drop column idle_until;

-- Growth of the history in bytes since the session was made: words, names and ids, 512 for each part, 16 384 for each
-- media item.
alter table session add column appended_bytes integer not null default 0;

-- The `appended_bytes` at which the session is due; null: no growth makes it due.
alter table session add column wake_bytes integer;

-- 1 where the end of a reply makes the session due.
alter table session add column wake_on_reply integer not null default 0 check (wake_on_reply in (0, 1));

-- 1 where a message of the user makes the session due.
alter table session add column wake_on_request integer not null default 0 check (wake_on_request in (0, 1));

-- Microseconds since 1970: the time at which the session is due; null: none.
alter table session add column wake_time integer;

create index session_wake on session (wake_time) where wake_time is not null;

-- Sessions of an earlier version are decided with their next message.
update session set wake_bytes = 0;
