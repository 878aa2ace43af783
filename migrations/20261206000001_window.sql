-- Windows by revision, like policies: a view as it was is judged by the window that was active then. `session.window`
-- stays, as the copy that belongs to the head.

create table window (
    session_id integer not null references session (id),
    revision integer not null,
    body blob not null,                             -- encoded, as in `session`
    primary key (session_id, revision)
) strict, without rowid;

-- Earlier windows of a session from before this table are not known. Its row stands before the session's first event, so
-- that no event has to account for it; every later session has one at its first event, which covers any before that.
insert into window (session_id, revision, body) select id, coalesce(fork_revision, 0), window from session;

create trigger window_is_final before update on window
begin select raise(abort, 'a window never changes'); end;
create trigger window_stays before delete on window
begin select raise(abort, 'a window is never deleted'); end;
