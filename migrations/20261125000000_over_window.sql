-- Why views exceed their windows, for the status page and the metrics.

-- The reason for which the view leaves no space for a reply in the session's window: by the newest decision, or by what
-- its compaction did since. Null where it leaves some.
alter table session add column over_window integer check (over_window > 0);

-- Few sessions exceed their window at a time: the status page finds them without a scan.
create index session_over_window on session (over_window) where over_window is not null;
