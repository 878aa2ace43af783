-- A summary by hand may say where what it is made of begins.

-- The revision of the first place of it; null: the beginning of the view.
alter table job add column head_start integer;
