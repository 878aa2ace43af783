-- Messages that were sealed after they came: a fork behind a message inherits those in front of it that were still being
-- written when it came, once they are sealed. Few messages stream, so the index is small.
create index message_late on message (session_id, sealed_revision) where sealed_revision > revision;
