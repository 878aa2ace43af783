//! Server-sent events, the form in which providers stream their replies.
//!
//! Bytes come in pieces of any size; events follow the standard: lines end in CR, LF or both, a blank line ends an
//! event, several data lines are one text, comments are ignored.
//!
//! Crates for the client side have no bound on an event, end a stream at bytes that are no UTF-8, and drop the last event
//! of providers that omit its blank line.

/// One event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Event {
    /// Its name, or empty.
    pub(super) name: String,
    /// Its data.
    pub(super) data: String,
}

/// An event exceeds the maximum size: the input is no stream of events.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLong;

/// Parses a stream of events.
#[derive(Debug, Default)]
pub(super) struct Reader {
    line: Vec<u8>,
    /// True if the last byte was a CR: an LF that comes next belongs to it.
    after_return: bool,
    began: bool,
    name: String,
    data: Option<String>,
}

/// Maximum size of one event, in bytes. Providers repeat a whole reply in their last event.
const EVENT_BYTES_MAX: usize = 8 * 1024 * 1024;

impl Reader {
    /// The events that these bytes complete.
    pub(super) fn read(&mut self, bytes: &[u8]) -> Result<Vec<Event>, TooLong> {
        let mut events = Vec::new();
        for &byte in bytes {
            let after_return = std::mem::replace(&mut self.after_return, byte == b'\r');
            match byte {
                b'\n' if after_return => {}
                b'\n' | b'\r' => events.extend(self.end_line()),
                _ => self.line.push(byte),
            }
            if self.line.len() + self.data.as_ref().map_or(0, String::len) > EVENT_BYTES_MAX {
                return Err(TooLong);
            }
        }
        Ok(events)
    }

    /// The last event, if the stream ended before its blank line. The standard drops it; some providers end so.
    pub(super) fn finish(&mut self) -> Option<Event> {
        let last = self.end_line();
        last.or_else(|| self.end_event())
    }

    fn end_line(&mut self) -> Option<Event> {
        let line = std::mem::take(&mut self.line);
        let line = String::from_utf8_lossy(&line);
        let line = if self.began { &line } else { line.trim_start_matches('\u{feff}') };
        self.began = true;
        if line.is_empty() {
            return self.end_event();
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.name),
            "data" => match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => self.data = Some(value.to_owned()),
            },
            // A comment, an id, a reconnection time, or an unknown field.
            _ => {}
        }
        None
    }

    fn end_event(&mut self) -> Option<Event> {
        let name = std::mem::take(&mut self.name);
        self.data.take().map(|data| Event { name, data })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read_all(bytes: &[u8]) -> Vec<(String, String)> {
        let mut reader = Reader::default();
        let mut events = reader.read(bytes).expect("short");
        events.extend(reader.finish());
        events.into_iter().map(|event| (event.name, event.data)).collect()
    }

    fn check(stream: &str, expected: &[(&str, &str)]) {
        let found = read_all(stream.as_bytes());
        let found: Vec<(&str, &str)> = found.iter().map(|(name, data)| (name.as_str(), data.as_str())).collect();
        assert_eq!(found, expected, "{stream:?}");
    }

    #[test]
    fn events_are_read_as_the_standard_says() {
        check("", &[]);
        check("data: a\n\n", &[("", "a")]);
        check("data:a\r\n\r\ndata:  b\r\rdata: c\n\n", &[("", "a"), ("", " b"), ("", "c")]);
        check("event: ping\ndata: {}\n\ndata: x\n\n", &[("ping", "{}"), ("", "x")]);
        check("data: a\ndata\ndata: b\n\n", &[("", "a\n\nb")]);
        check(": comment\n\n:\n\nid: 7\nretry: 10\nother: x\n\n", &[]);
        check("\u{feff}data: a\n\ndata: \u{feff}b\n\n", &[("", "a"), ("", "\u{feff}b")]);
        check("event: alone\n\ndata: a\n\n", &[("", "a")]);
        check("data: not ended", &[("", "not ended")]);
        check("data: ended by its line\n", &[("", "ended by its line")]);
    }

    #[test]
    fn bytes_that_are_no_text_do_not_stop_the_stream() {
        assert_eq!(read_all(b"data: \xff\n\ndata: b\n\n")[1].1, "b");
    }

    #[test]
    fn an_endless_event_is_refused() {
        let mut reader = Reader::default();
        let long = vec![b'x'; EVENT_BYTES_MAX / 2];
        assert_eq!(reader.read(&long), Ok(Vec::new()));
        assert_eq!(reader.read(b"\n\ndata: "), Ok(Vec::new()));
        assert_eq!(reader.read(&long), Ok(Vec::new()));
        assert_eq!(reader.read(b"\ndata: "), Ok(Vec::new()));
        assert_eq!(reader.read(&long), Err(TooLong));
    }

    proptest! {
        #[test]
        fn it_does_not_matter_how_the_bytes_are_split(
            stream in "(data|event|:|id|[a-z\u{e9}\u{1f600}: ]|\r|\n|\r\n|\n\n){0,40}", cuts in prop::collection::vec(1..9usize, 0..60)
        ) {
            let mut reader = Reader::default();
            let mut found = Vec::new();
            let mut rest = stream.as_bytes();
            for cut in cuts {
                let (now, later) = rest.split_at(cut.min(rest.len()));
                found.extend(reader.read(now).expect("short"));
                rest = later;
            }
            found.extend(reader.read(rest).expect("short"));
            found.extend(reader.finish());
            let found: Vec<(String, String)> = found.into_iter().map(|event| (event.name, event.data)).collect();
            prop_assert_eq!(found, read_all(stream.as_bytes()));
        }
    }
}
