-- Receipts of erasures.

-- What was erased, by a hash that is keyed with the store's secret: of the tenant, the id that a client gave to a message
-- and the content of a part; of the tenant and the text of a summary; of the tenant and the source that the metadata of a
-- session named. An import that asks for it does not bring back what is here.
create table erased_content (
    hash blob not null primary key
) strict, without rowid;

create trigger erased_content_is_final before update on erased_content
begin select raise(abort, 'the receipt of an erasure never changes'); end;
create trigger erased_content_stays before delete on erased_content
begin select raise(abort, 'the receipt of an erasure is never deleted'); end;
