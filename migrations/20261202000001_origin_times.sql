-- When the messages of a session were written, if that was elsewhere.

-- The least and the greatest origin time of the session's own messages, in microseconds since 1970; null without one. A
-- list of sessions cannot read the heads of all messages for it.
alter table session add column origin_start_time integer;
alter table session add column origin_end_time integer;
