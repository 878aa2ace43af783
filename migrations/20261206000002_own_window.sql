-- A session is judged by its own window alone, whatever window a caller names: nothing is due under another one.
alter table session drop column due_window;
