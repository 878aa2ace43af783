-- Sessions that came from the archive of another store.
--
-- A chain commits to where its events were written: to their numbers in the log of that store, and to the session's
-- tenant there. Here the events have other numbers, and the session may have another tenant, so both are kept.

-- A session that came from an archive.
create table import (
    session_id integer primary key references session (id),
    store_id blob not null,                         -- the store that wrote the archive
    tenant text not null,                           -- the tenant that the chain commits to
    revision integer not null,                      -- the newest revision of the archive: later ones were written here
    time integer not null
) strict;

-- The numbers of its events that the chain commits to.
create table import_event (
    session_id integer not null references session (id),
    revision integer not null,
    seq integer not null,
    primary key (session_id, revision)
) strict, without rowid;

create trigger import_is_final before update on import
begin select raise(abort, 'where a session came from never changes'); end;
create trigger import_stays before delete on import
begin select raise(abort, 'where a session came from never changes'); end;
create trigger import_event_is_final before update on import_event
begin select raise(abort, 'where an event came from never changes'); end;
create trigger import_event_stays before delete on import_event
begin select raise(abort, 'where an event came from never changes'); end;
