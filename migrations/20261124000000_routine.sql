-- When the routine is worth a look, in numbers that an append keeps up without reading the view.

-- Parts in the view that the routine could act on. It counted tool outputs alone, which nothing compared with anything.
alter table session rename column output_count to routine_count;

-- routine_count when the routine last found nothing to do: it looks again when there are more.
alter table session add column routine_checked integer not null default 0;

-- Messages that the view shows at their own places; 0 until the scheduler first looks at a session that is older than
-- this column.
alter table session add column view_count integer not null default 0;

-- view_count when the routine last found nothing to do.
alter table session add column view_checked integer not null default 0;

-- When the session will have been idle for as long as its routine waits; null when nothing waits for that.
alter table session add column idle_until integer;

create index session_idle on session (idle_until) where idle_until is not null;
