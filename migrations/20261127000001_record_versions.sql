-- Versions of a record, which share its client id.

-- The writer keeps client ids unique, except for those of records whose newer version a client asks for: the revision
-- orders the versions, and the newest is one seek.
drop index message_client;
create unique index message_client on message (session_id, client_id, revision) where client_id is not null;
