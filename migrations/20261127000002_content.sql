-- What each session takes of its tenant's quota of bytes.

-- Bytes of content that were written to this session, before compression: parts of messages of every kind with their
-- metadata, text of open drafts, titles and metadata of the session. What a fork inherits counts for its source alone.
alter table session add column content_bytes integer not null default 0;

update session set content_bytes =
    case when fork_id is null then octet_length(title) + coalesce(octet_length(metadata_json), 0) else 0 end
    + (select coalesce(sum(m.parts_length), 0) from message m where m.session_id = session.id)
    + (select coalesce(sum(p.length), 0) from message m join part p on p.message_id = m.id where m.session_id = session.id)
    + (select coalesce(sum(octet_length(d.body)), 0) from message m join draft d on d.message_id = m.id
        where m.session_id = session.id and m.sealed_revision is null);
