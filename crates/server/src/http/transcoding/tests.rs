//! What is made without reflection is what reflection makes.

use super::super::protocol::DESCRIPTORS;
use super::super::tests::random;
use proptest::prelude::*;
use prost_reflect::prost::Message as _;
use prost_reflect::{DynamicMessage, MessageDescriptor};
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use serde_json::{Value, json};

/// The messages of all calls.
fn messages() -> Vec<MessageDescriptor> {
    let methods = DESCRIPTORS.services().flat_map(|service| service.methods().collect::<Vec<_>>());
    methods.flat_map(|method| [method.input(), method.output()]).collect()
}

/// The message that a text makes without reflection, as reflection encodes it: without defaults.
fn transcoded(descriptor: &MessageDescriptor, text: &str) -> Option<Vec<u8>> {
    let encoded = super::encode(descriptor.full_name(), text.as_bytes())?.into_bytes();
    Some(DynamicMessage::decode(descriptor.clone(), encoded.as_slice()).expect("a message").encode_to_vec())
}

/// The message that a text makes with reflection.
fn reflected(descriptor: &MessageDescriptor, text: &str) -> Option<Vec<u8>> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let message = DynamicMessage::deserialize(descriptor.clone(), &mut deserializer).ok()?;
    deserializer.end().ok()?;
    Some(message.encode_to_vec())
}

/// Changes one value somewhere in a text to something that is or is not of its type.
fn spoil(random_numbers: &mut StdRng, value: &mut Value) {
    match value {
        Value::Object(fields) if !fields.is_empty() && random_numbers.random_bool(0.8) => {
            let at = random_numbers.random_range(0..fields.len());
            let name = fields.keys().nth(at).expect("a field").clone();
            if random_numbers.random_bool(0.1) {
                let value = fields.remove(&name).expect("it is there");
                fields.insert(format!("{name}x"), value);
            } else {
                spoil(random_numbers, &mut fields[&name]);
            }
        }
        Value::Array(elements) if !elements.is_empty() && random_numbers.random_bool(0.8) => {
            let at = random_numbers.random_range(0..elements.len());
            spoil(random_numbers, &mut elements[at]);
        }
        _ => {
            let others = [
                json!(null),
                json!(true),
                json!(0),
                json!(-1),
                json!(3_000_000_000_u64),
                json!(u64::MAX),
                json!(1.0),
                json!(1.5),
                json!("7"),
                json!("+7"),
                json!(""),
                json!("-_-_"),
                json!("AP+/"),
                json!("AP+"),
                json!("2026-01-01T00:00:00Z"),
                json!("1.5s"),
                json!([]),
                json!([null]),
                json!({}),
            ];
            *value = others[random_numbers.random_range(0..others.len())].clone();
        }
    }
}

/// A text with a field's name in the protocol, or with a field twice.
fn respell(random_numbers: &mut StdRng, descriptor: &MessageDescriptor, text: &str) -> String {
    let fields: Vec<_> = descriptor.fields().collect();
    if fields.is_empty() {
        return text.to_owned();
    }
    let field = &fields[random_numbers.random_range(0..fields.len())];
    let key = format!("{:?}:", field.json_name());
    if random_numbers.random_bool(0.5) {
        return text.replacen(&key, &format!("{:?}:", field.name()), 1);
    }
    let one: Value = serde_json::from_str(text).expect("JSON");
    match one.get(field.json_name()) {
        Some(value) => format!("{{{key}{value},{}", &text[1..]),
        None => format!("{{{key}null{}{}", if text == "{}" { "" } else { "," }, &text[1..]),
    }
}

proptest! {
    #[test]
    fn a_text_makes_the_message_that_reflection_makes(seed: u64) {
        let mut random_numbers = StdRng::seed_from_u64(seed);
        for descriptor in messages() {
            let plain = serde_json::to_value(random(&mut random_numbers, &descriptor, 3)).expect("JSON");
            let text = plain.to_string();
            let made = transcoded(&descriptor, &text);
            prop_assert!(made.is_some(), "{} takes reflection: {}", descriptor.full_name(), text);
            prop_assert_eq!(made, reflected(&descriptor, &text), "{}", text);
            let mut spoiled = plain.clone();
            spoil(&mut random_numbers, &mut spoiled);
            for other in [spoiled.to_string(), respell(&mut random_numbers, &descriptor, &text), format!("{text} 1")] {
                if let Some(made) = transcoded(&descriptor, &other) {
                    prop_assert_eq!(Some(made), reflected(&descriptor, &other), "{}", other);
                }
            }
        }
    }

    #[test]
    fn a_message_has_the_text_that_reflection_writes(seed: u64) {
        let mut random_numbers = StdRng::seed_from_u64(seed);
        for descriptor in messages() {
            let message = random(&mut random_numbers, &descriptor, 3);
            let encoded = message.encode_to_vec();
            let text = super::json(descriptor.full_name(), &encoded);
            prop_assert!(text.is_some(), "{} takes reflection", descriptor.full_name());
            let written = serde_json::to_string(&message).expect("JSON");
            prop_assert_eq!(text.map(|text| String::from_utf8(text).expect("UTF-8")), Some(written));
            // Two encodings one behind the other are one message, and a cut or changed one may be none.
            let mut others = vec![[encoded.clone(), random(&mut random_numbers, &descriptor, 1).encode_to_vec()].concat()];
            if !encoded.is_empty() {
                others.push(encoded[..random_numbers.random_range(0..encoded.len())].to_vec());
                let mut changed = encoded.clone();
                changed[random_numbers.random_range(0..encoded.len())] = random_numbers.random();
                others.push(changed);
            }
            for other in others {
                let Some(text) = super::json(descriptor.full_name(), &other) else { continue };
                let message = DynamicMessage::decode(descriptor.clone(), other.as_slice());
                prop_assert!(message.is_ok(), "{} is none: {:?}", descriptor.full_name(), other);
                let written = serde_json::to_string(&message.expect("a message")).expect("JSON");
                prop_assert_eq!(String::from_utf8(text).expect("UTF-8"), written);
            }
        }
    }
}
