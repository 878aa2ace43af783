-- Lists by last change have an index of periods of ten seconds, so that most appends do not write it.

alter table session add column update_period integer not null default 0;
update session set update_period = update_time / 10000000;
drop index session_updated;
create index session_updated on session (tenant, update_period);
