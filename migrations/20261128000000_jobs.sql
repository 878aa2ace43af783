-- Jobs that were lost, and whose turn it is.

-- How often a daemon or a worker stopped without a word while it had the job; a job that is lost too often is what makes
-- them stop. Attempts that ended with a word are not counted, nor those that a stopping daemon gave back.
alter table job add column lost integer not null default 0;

-- Microseconds since 1970: when the due mark was set. Sessions are looked at in this order, so that one that is due
-- again waits behind those that have not had their turn; null, from before there was a column, comes first.
alter table session add column due_time integer;

drop index session_due;
create index session_due on session (due_time) where due_revision is not null;
