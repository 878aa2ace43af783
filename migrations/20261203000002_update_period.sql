-- Lists by last change have an index of seconds, so that appends that follow each other closely do not write it.

alter table session add column update_period integer not null default 0;
update session set update_period = (update_time - (update_time % 1000000 + 1000000) % 1000000) / 1000000;
drop index session_updated;
create index session_updated on session (tenant, update_period);
