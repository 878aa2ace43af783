use super::*;
use crate::model::message::{NewMessage, Role};

fn reply(model: &str) -> TranscriptEntry {
    TranscriptEntry::Message(Box::new(NewMessage {
        model: model.to_owned(),
        ..NewMessage::sealed(Role::Assistant, Vec::new())
    }))
}

#[test]
fn presets_are_chosen_by_name_and_once() {
    let names = |words: &[&str]| {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        chosen(&words).map(|chosen| chosen.iter().map(|preset| preset.name.clone()).collect::<Vec<_>>())
    };
    assert_eq!(names(&["opencode@seed", "opencode@seed", "pi@1.5"]).expect("presets"), ["opencode@seed", "pi@1.5"]);
    assert_eq!(names(&[]).expect("presets").len(), presets::all().len());
    let error = names(&["opencode@seed", "nobody"]).expect_err("no such preset");
    assert!(error.to_string().contains("\"nobody\"") && error.to_string().contains("pi@1.5"), "{error}");
}

#[test]
fn the_main_model_wrote_most() {
    let model = |models: &[&str]| main_model(&models.iter().map(|model| reply(model)).collect::<Vec<_>>());
    assert_eq!(model(&["a", "b", "", "b", "", ""]), "b");
    assert_eq!(model(&["a", "b", "b", "a"]), "a");
    assert_eq!(model(&["", ""]), "");
    assert_eq!(model(&[]), "");
}
