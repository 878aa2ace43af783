//! What a request becomes when it is decoded, read from its encoded bytes: the elements of its lists, and the memory of
//! all of it. A list of numbers in memory takes several times the bytes that it is sent in, compression makes those a
//! thousand times shorter, and a message takes hundreds of times the two bytes that it can have on the wire.

use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};
use prost_reflect::{Cardinality, FieldDescriptor, Kind, MessageDescriptor};
use std::collections::HashMap;
use std::sync::LazyLock;

/// Messages and elements of lists that a request has at most, inside of each other: each takes memory, whatever its bytes.
pub const REQUEST_VALUES_MAX: usize = 266_240;
/// Messages inside of others up to which the library decodes.
const DEPTH_MAX: u32 = 100;
/// Fields of one message that are counted, at most.
const COUNTED_MAX: usize = 8;
/// Bytes of a text or a list in a message, besides its content.
const TEXT_BYTES: usize = 24;
/// Bytes of the smallest allocation of a text.
const ALLOCATED_BYTES_MIN: usize = 8;
const TIME_BYTES: usize = 16;
/// Bytes by which a choice, or a message that may be missing, can be larger than its value.
const CHOICE_BYTES: usize = 8;

/// The messages of all requests.
static SHAPES: LazyLock<Shapes> = LazyLock::new(Shapes::read);

/// The messages that requests have inside, the requests among them by their names.
#[derive(Default)]
struct Shapes {
    all: Vec<Shape>,
    by_name: HashMap<String, usize>,
}

/// What is known of a message.
#[derive(Default)]
pub(super) struct Shape {
    /// Its fields by their numbers.
    fields: Vec<Option<Field>>,
    /// The most bytes that it has in memory, without what it points to.
    bytes: usize,
    /// Number of its fields that are counted.
    counted: usize,
    /// True if it has a list inside, at any depth.
    has_lists: bool,
}

struct Field {
    name: String,
    content: Content,
    /// Bytes of one element in memory; zero for what lies in the message itself.
    element_bytes: usize,
    /// Where its elements are counted, and their most.
    counted: Option<(usize, usize)>,
    is_list: bool,
}

#[derive(Debug, Clone, Copy)]
enum Content {
    /// Texts and bytes.
    Text,
    /// Numbers that begin with their least significant seven bits.
    Varint,
    /// Numbers of this many bytes.
    Fixed(usize),
    /// Times and durations, which JSON has as texts.
    Time,
    /// The message with this place.
    Message(usize),
}

/// Why a request is not decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TooMany {
    /// It has too many messages and elements of lists.
    Values,
    /// A list has more elements than it may have: its field, from the request on, and their most.
    Elements(String, usize),
}

/// What a request grows to.
struct Measure {
    /// Messages and elements of lists that may still come.
    values_left: usize,
    bytes: usize,
}

/// The shape of a request by its name; none for an answer, whose writer bounds it.
pub(super) fn request(name: &str) -> Option<&'static Shape> {
    name.ends_with("Request").then(|| SHAPES.by_name.get(name).map(|place| &SHAPES.all[*place]))?
}

/// The most elements of a list in a request, as the protos declare it; none for a list without one.
pub fn elements_max(field: &FieldDescriptor) -> Option<usize> {
    let extension = super::DESCRIPTORS.get_extension_by_name("longhand.v1.elements_max")?;
    let options = field.options();
    let declared = options.has_extension(&extension).then(|| options.get_extension(&extension).as_i32())??;
    usize::try_from(declared).ok()
}

/// The fields with lists of all requests, with those of the messages inside.
pub fn lists() -> Vec<FieldDescriptor> {
    let mut found = Vec::new();
    for name in SHAPES.by_name.keys() {
        let message = super::DESCRIPTORS.get_message_by_name(name);
        found.extend(message.iter().flat_map(|message| message.fields()).filter(is_list));
    }
    found.sort_unstable_by(|one, other| one.full_name().cmp(other.full_name()));
    found
}

fn is_list(field: &FieldDescriptor) -> bool {
    field.cardinality() == Cardinality::Repeated
}

/// True for times and durations.
fn is_time(message: &MessageDescriptor) -> bool {
    message.package_name() == "google.protobuf"
}

impl Shapes {
    fn read() -> Self {
        let mut shapes = Self::default();
        let methods = super::DESCRIPTORS.services().flat_map(|service| service.methods().collect::<Vec<_>>());
        for method in methods {
            shapes.add(&method.input());
        }
        shapes
    }

    /// The place of a message, whose shape is made if it is not there. A message inside of itself is behind a pointer.
    fn add(&mut self, message: &MessageDescriptor) -> usize {
        if let Some(place) = self.by_name.get(message.full_name()) {
            return *place;
        }
        let place = self.all.len();
        self.all.push(Shape::default());
        self.by_name.insert(message.full_name().to_owned(), place);
        let mut shape = Shape::default();
        let mut choices: HashMap<String, usize> = HashMap::new();
        for descriptor in message.fields() {
            let number = descriptor.number() as usize;
            let (field, bytes) = self.field(&descriptor, &mut shape);
            match descriptor.containing_oneof().filter(|choice| !choice.is_synthetic()) {
                Some(choice) => {
                    let most = choices.entry(choice.name().to_owned()).or_default();
                    *most = bytes.max(*most);
                }
                None => shape.bytes += bytes,
            }
            if shape.fields.len() <= number {
                shape.fields.resize_with(number + 1, || None);
            }
            shape.fields[number] = Some(field);
        }
        shape.bytes += choices.values().map(|bytes| bytes + CHOICE_BYTES).sum::<usize>();
        self.all[place] = shape;
        place
    }

    /// A field, and its bytes in the message.
    fn field(&mut self, descriptor: &FieldDescriptor, shape: &mut Shape) -> (Field, usize) {
        let is_list = is_list(descriptor);
        let (content, bytes) = match descriptor.kind() {
            Kind::String | Kind::Bytes => (Content::Text, TEXT_BYTES),
            Kind::Message(inner) if is_time(&inner) => (Content::Time, TIME_BYTES + CHOICE_BYTES),
            Kind::Message(inner) => {
                let place = self.add(&inner);
                shape.has_lists |= self.all[place].has_lists;
                (Content::Message(place), self.all[place].bytes + CHOICE_BYTES)
            }
            Kind::Double | Kind::Fixed64 | Kind::Sfixed64 => (Content::Fixed(8), 16),
            Kind::Float | Kind::Fixed32 | Kind::Sfixed32 => (Content::Fixed(4), 8),
            Kind::Int32 | Kind::Uint32 | Kind::Sint32 | Kind::Enum(_) | Kind::Bool => (Content::Varint, 8),
            Kind::Int64 | Kind::Uint64 | Kind::Sint64 => (Content::Varint, 16),
        };
        shape.has_lists |= is_list;
        // A message that comes twice is merged, and so are the lists in it: it comes once.
        let merges_lists = matches!(content, Content::Message(place) if self.all[place].has_lists);
        let declared = || elements_max(descriptor).unwrap_or(REQUEST_VALUES_MAX);
        let most = if is_list { Some(declared()) } else { merges_lists.then_some(1) };
        let counted = most.map(|most| {
            shape.counted += 1;
            (shape.counted - 1, most)
        });
        let name = descriptor.name().to_owned();
        let element_bytes = if is_list { bytes } else { 0 };
        let own_bytes = if is_list { TEXT_BYTES } else { bytes };
        (Field { name, content, element_bytes, counted, is_list }, own_bytes)
    }
}

impl Shape {
    /// The most bytes of memory that a request takes once it is decoded. What is malformed is left to the decoder,
    /// which reads up to the first error as this does.
    pub(super) fn measure(&self, bytes: &[u8]) -> Result<usize, TooMany> {
        let mut measure = Measure { values_left: REQUEST_VALUES_MAX, bytes: self.bytes };
        measure.message(self, bytes, DEPTH_MAX)?;
        Ok(measure.bytes)
    }
}

impl Measure {
    fn message(&mut self, shape: &Shape, mut bytes: &[u8], depth: u32) -> Result<(), TooMany> {
        let mut counts = [0; COUNTED_MAX];
        while !bytes.is_empty() {
            let Ok((number, wire_type)) = decode_key(&mut bytes) else { return Ok(()) };
            let field = shape.fields.get(number as usize).and_then(Option::as_ref);
            if wire_type != WireType::LengthDelimited {
                if skip_field(wire_type, number, &mut bytes, DecodeContext::default()).is_err() {
                    return Ok(());
                }
                if let Some(field) = field.filter(|field| field.is_list) {
                    self.count(field, 1, &mut counts)?;
                }
                continue;
            }
            let length = decode_varint(&mut bytes).ok().and_then(|length| usize::try_from(length).ok());
            let Some((value, rest)) = length.and_then(|length| bytes.split_at_checked(length)) else { return Ok(()) };
            bytes = rest;
            if let Some(field) = field {
                self.field(field, value, depth, &mut counts)?;
            }
        }
        Ok(())
    }

    /// One value of a field, or several numbers of one.
    fn field(
        &mut self,
        field: &Field,
        value: &[u8],
        depth: u32,
        counts: &mut [usize; COUNTED_MAX],
    ) -> Result<(), TooMany> {
        match field.content {
            Content::Varint if field.is_list => {
                let elements = value.iter().filter(|byte| **byte < 0x80).count();
                self.count(field, elements, counts)
            }
            Content::Fixed(width) if field.is_list => self.count(field, value.len() / width, counts),
            // The decoder refuses a number in this form.
            Content::Varint | Content::Fixed(_) => Ok(()),
            Content::Text => {
                self.bytes = self.bytes.saturating_add(value.len().max(ALLOCATED_BYTES_MIN));
                if field.is_list { self.count(field, 1, counts) } else { Ok(()) }
            }
            Content::Time => {
                if field.is_list {
                    self.count(field, 1, counts)
                } else {
                    Ok(())
                }
            }
            Content::Message(place) => {
                self.count(field, 1, counts)?;
                let Some(depth) = depth.checked_sub(1) else { return Ok(()) };
                self.message(&SHAPES.all[place], value, depth).map_err(|refused| refused.within(&field.name))
            }
        }
    }

    /// Counts elements of a list, or a message, and their memory.
    fn count(&mut self, field: &Field, elements: usize, counts: &mut [usize; COUNTED_MAX]) -> Result<(), TooMany> {
        if let Some((place, most)) = field.counted {
            counts[place] += elements;
            if counts[place] > most {
                return Err(TooMany::Elements(field.name.clone(), most));
            }
            // A list is twice as long as it must be at most, and has room for four elements.
            let first = if counts[place] == elements { 2 } else { 0 };
            let room = elements.saturating_mul(2).saturating_add(first);
            self.bytes = self.bytes.saturating_add(room.saturating_mul(field.element_bytes));
        }
        self.values_left = self.values_left.checked_sub(elements).ok_or(TooMany::Values)?;
        Ok(())
    }
}

impl TooMany {
    /// The same refusal, of a message in a field.
    fn within(self, name: &str) -> Self {
        match self {
            Self::Values => Self::Values,
            Self::Elements(path, most) => Self::Elements(format!("{name}.{path}"), most),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate as pb;
    use prost::{Message as _, Name};

    fn shape<M: Name>() -> &'static Shape {
        let name = M::full_name();
        &SHAPES.all[SHAPES.by_name[&name]]
    }

    fn measure<M: prost::Message + Name>(message: &M) -> Result<usize, TooMany> {
        shape::<M>().measure(&message.encode_to_vec())
    }

    /// The values in a request, found by leaving ever fewer.
    fn values<M: prost::Message + Name>(message: &M) -> usize {
        let bytes = message.encode_to_vec();
        let refuses = |most| {
            let mut measure = Measure { values_left: most, bytes: 0 };
            measure.message(shape::<M>(), &bytes, DEPTH_MAX).is_err()
        };
        (0..1_000).find(|most| !refuses(*most)).expect("few values")
    }

    fn part(text: &str) -> pb::Part {
        let body = pb::part::Body::Text(pb::TextPart { text: text.to_owned() });
        pb::Part { body: Some(body), ..pb::Part::default() }
    }

    fn append(messages: usize, parts: usize) -> pb::AppendMessagesRequest {
        let origin_time = Some(prost_types::Timestamp { seconds: 7, nanos: 7 });
        let parts = vec![part("\u{2}\u{0}"); parts];
        let message = pb::NewMessage { parts, origin_time, ..pb::NewMessage::default() };
        pb::AppendMessagesRequest { messages: vec![message; messages], ..pb::AppendMessagesRequest::default() }
    }

    #[test]
    fn messages_and_elements_of_lists_are_counted_at_every_depth() {
        assert_eq!(values(&append(2, 3)), 14);
        let session_ids = vec![String::new(); 5];
        let subscribe = pb::SubscribeEventsRequest { session_ids, kinds: vec![1; 50], ..Default::default() };
        assert_eq!(values(&subscribe), 55, "packed numbers too");
        // Fields that nobody knows do not hide what follows them, and numbers may come one by one.
        let group = [0xfb, 0x07, 0x08, 0x01, 0xfc, 0x07];
        let apart = [0x10, 1].repeat(65);
        let unknown = [&group[..], &[0xfa, 0x07, 2, 0, 0], &apart].concat();
        let refused = TooMany::Elements("kinds".to_owned(), 64);
        assert_eq!(shape::<pb::SubscribeEventsRequest>().measure(&unknown), Err(refused.clone()));
        assert!(shape::<pb::SubscribeEventsRequest>().measure(&[0x12, 0x7f]).is_ok(), "the decoder says what is wrong");
        // Two numbers of two bytes, and 62 of one.
        let packed = [&[0x12, 66][..], &[0xff, 1, 0xff, 1], &[1; 62]].concat();
        assert!(shape::<pb::SubscribeEventsRequest>().measure(&packed).is_ok());
        let more = [&packed[..], &[0x12, 1, 1]].concat();
        assert_eq!(shape::<pb::SubscribeEventsRequest>().measure(&more), Err(refused), "both pieces count");
    }

    #[test]
    fn every_list_has_its_own_limit() {
        let many = 512;
        assert!(measure(&append(many, 1)).is_ok());
        assert_eq!(measure(&append(many + 1, 1)), Err(TooMany::Elements("messages".to_owned(), many)));
        let most = 256;
        assert_eq!(measure(&append(1, most + 1)), Err(TooMany::Elements("messages.parts".to_owned(), most)));
        // What comes twice would be merged.
        let write = |parts| {
            let new = pb::NewMessage { parts: vec![part("x"); parts], ..Default::default() };
            let message = Some(pb::write_target::Message::NewMessage(new));
            let frame = pb::write_message_request::Frame::Target(pb::WriteTarget { message, ..Default::default() });
            pb::WriteMessageRequest { frame: Some(frame) }.encode_to_vec()
        };
        let twice = write(most).repeat(2);
        let refused = shape::<pb::WriteMessageRequest>().measure(&twice);
        assert_eq!(refused, Err(TooMany::Elements("target".to_owned(), 1)));
        assert!(SHAPES.all.iter().all(|shape| shape.counted <= COUNTED_MAX));
    }

    #[test]
    fn no_message_is_larger_in_memory_than_its_shape_says() {
        fn check<M: Name>() {
            assert!(size_of::<M>() <= shape::<M>().bytes, "{} has {} bytes", M::NAME, size_of::<M>());
        }
        check::<pb::AppendMessagesRequest>();
        check::<pb::NewMessage>();
        check::<pb::Part>();
        check::<pb::ToolResultPart>();
        check::<pb::MediaPart>();
        check::<pb::Finish>();
        check::<pb::WriteMessageRequest>();
        check::<pb::SubscribeEventsRequest>();
        check::<pb::SearchHistoryRequest>();
        check::<pb::ListSessionsRequest>();
        check::<pb::RequestApprovalRequest>();
        check::<pb::EraseContentRequest>();
        check::<pb::ListHeadsRequest>();
        let parts = append(1, 100);
        let least = size_of::<pb::NewMessage>() + 100 * (size_of::<pb::Part>() + 2);
        let measured = measure(&parts).expect("few parts");
        assert!((least..20 * least).contains(&measured), "{measured} bytes, and {least} at least");
    }
}
