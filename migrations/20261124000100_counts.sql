-- What messages weigh, kept so that no decision counts the same words twice. Derived data: decisions are the same
-- without it, and no chain vouches for it.

-- Ways of counting, by the name that a policy gives its own. Equal names mean equal counts.
create table counting (
    id integer primary key,
    name text not null unique
) strict;

-- A sealed message by one way of counting. It never changes, as the message does not.
create table message_count (
    counting_id integer not null references counting (id),
    message_id blob not null,                       -- the message's public id
    body blob not null,                             -- encoded: all of it, each of its parts
    primary key (counting_id, message_id)
) strict, without rowid;
