//! What people said, as it follows the summaries of others.

use super::Talk;
use crate::what_people_said;
use longhand_core::policy::summary::SAID_HEADING;
use longhand_core::policy::tokens;
use serde_json::json;

const NAMES: [&str; 12] = [
    "Falmouth",
    "Zanzibar",
    "Tregarthen",
    "Quetzal",
    "Okafor",
    "Sonora",
    "Kampala",
    "Miro",
    "Hedda",
    "Bernd",
    "Farida",
    "Ines",
];

fn talk() -> Talk {
    NAMES.iter().enumerate().fold(Talk::default(), |talk, (number, name)| {
        talk.user(&format!("The harbour of {name} has {} berths, and its tables stay in feet.", number + 31))
            .works("read", json!({"path": format!("/w/{name}.rs")}), "fn berth() {}")
            .model(&format!("I read the file of {name}."))
    })
}

#[test]
fn what_people_said_is_verbatim_in_order_and_within_its_budget() {
    let input = talk().input("longhand@1");
    let digest = crate::digest(&input);
    for budget in [0, 3, 60, 120, 200, 2_000] {
        let text = what_people_said(&digest, &input.counting, budget);
        assert!(tokens::estimate_text(&input.counting, &text) <= budget, "{budget}: {text}");
        let places = NAMES.map(|name| text.find(&format!("The harbour of {name} has ")));
        let shown: Vec<usize> = places.into_iter().flatten().collect();
        assert!(shown.is_sorted(), "{text}");
        assert_eq!(text.is_empty(), shown.is_empty(), "{budget}: {text}");
        assert!(text.is_empty() || text.starts_with(&format!("{SAID_HEADING}\n")), "{text}");
        assert!(!text.contains("I read") && !text.contains(".rs"), "{text}");
        assert_eq!(shown.len() == NAMES.len(), budget == 2_000, "{budget}: {text}");
    }
    let nobody = Talk::default().model("I begin.").input("longhand@1");
    assert_eq!(what_people_said(&crate::digest(&nobody), &nobody.counting, 2_000), "");
}
