-- Messages that are still being written. A row goes when its message is sealed.
create table open_message (
    message_id integer primary key,
    session_id integer not null,
    timeout_ms integer not null,                    -- the message is sealed when nothing is written to it for so long
    expire_time integer                             -- microseconds since 1970; null while the session is archived
) strict;

create index open_message_by_session on open_message (session_id);
create index open_message_expiry on open_message (expire_time) where expire_time is not null;

-- A start of the daemon sets the times anew.
insert into open_message (message_id, session_id, timeout_ms, expire_time)
select m.id, m.session_id, 600000, case s.state when 1 then 0 end
from message m join session s on s.id = m.session_id where m.sealed_revision is null;
