//! Rule 21: every RPC has a scope and an HTTP rule that can be served.

use super::{Made, compiler, ours_compiled, words};
use crate::tidy::assert_reviewed;
use longhand::pb::Scope;
use prost_reflect::{DescriptorPool, FieldDescriptor, MethodDescriptor};

/// Methods of HTTP rules.
const METHODS: [&str; 5] = ["get", "put", "post", "delete", "patch"];

/// RPCs that take a stream, and the RPCs of one request each that do the same: a call over HTTP has one request, and
/// browsers cannot stream.
const STREAMED: [(&str, &[&str]); 1] =
    [("WriteMessage", &["AppendMessages", "AppendDraft", "AppendParts", "FinishMessage"])];

/// Paths that streams have which no RPC describes.
const RESERVED: [&str; 3] = ["/v1/events", "/v1/sessions/{}/events", "/v1/sessions/{}/view/events"];

/// RPCs whose path lacks their noun, with the reason.
const WITHOUT_NOUN: [(&str, &str); 9] = [
    ("BatchGetMessages", "the verb has two words"),
    ("CheckIntegrity", "a verb of the store"),
    ("EraseContent", "a verb of the session"),
    ("GetServerInfo", "what a get of the server returns"),
    ("MoveShard", "a verb of the cluster"),
    ("RedoChange", "a verb of the session"),
    ("SearchHistory", "the verb is the resource"),
    ("SimulatePresets", "a verb of the session"),
    ("UndoChange", "a verb of the session"),
];

/// What a rule says.
struct Rule {
    method: &'static str,
    /// The path with its variables emptied.
    path: String,
    variables: Vec<String>,
    body: String,
}

fn rule(pool: &DescriptorPool, rpc: &MethodDescriptor) -> Option<Rule> {
    let extension = pool.get_extension_by_name("google.api.http")?;
    let options = rpc.options();
    if !options.has_extension(&extension) {
        return None;
    }
    let rule = options.get_extension(&extension);
    let text = |field: &str| {
        let value = rule.as_message().and_then(|rule| rule.get_field_by_name(field));
        value.and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
    };
    let (method, template) = METHODS.iter().map(|method| (*method, text(method))).find(|(_, path)| !path.is_empty())?;
    let mut path = String::new();
    let mut variables = Vec::new();
    for piece in template.split('{') {
        match piece.split_once('}') {
            Some((variable, rest)) => {
                variables.push(variable.to_owned());
                path.push_str(&format!("{{}}{rest}"));
            }
            None => path.push_str(piece),
        }
    }
    Some(Rule { method, path, variables, body: text("body") })
}

/// True if one path matches both.
fn overlap(left: &str, right: &str) -> bool {
    let segments = |path: &str| -> Vec<String> { path.replace(':', "/:").split('/').map(str::to_owned).collect() };
    let (left, right) = (segments(left), segments(right));
    let alike = |(left, right): (&String, &String)| {
        let variable = [left, right].iter().any(|segment| *segment == "{}");
        let verb = [left, right].iter().any(|segment| segment.starts_with(':'));
        left == right || (variable && !verb)
    };
    left.len() == right.len() && left.iter().zip(&right).all(alike)
}

/// True if the path has the noun of the RPC's name, so that a thing has one word at both doors.
fn has_noun(name: &str, path: &str) -> bool {
    let noun: String = words(name).iter().skip(1).map(|word| word.to_lowercase()).collect();
    path.to_lowercase().contains(noun.trim_end_matches('s'))
}

/// The findings about the options of all RPCs.
fn lint(pool: &DescriptorPool) -> Vec<String> {
    let mut findings = Vec::new();
    let mut rules: Vec<(String, Rule)> = Vec::new();
    for rpc in pool.services().flat_map(|service| service.methods().collect::<Vec<_>>()) {
        let name = rpc.name().to_owned();
        let scope = pool.get_extension_by_name("longhand.v1.scope");
        let number = scope.and_then(|scope| rpc.options().get_extension(&scope).as_enum_number());
        if number.unwrap_or_default() == 0 {
            findings.push(format!("rule 21: {name} has no scope"));
        }
        let found = rule(pool, &rpc);
        if rpc.is_client_streaming() {
            if found.is_some() {
                findings.push(format!("rule 21: {name} takes a stream, and has an HTTP rule"));
            }
            let twins = STREAMED.iter().find(|(streamed, _)| *streamed == name).map_or(&[] as &[&str], |(_, all)| all);
            let service = rpc.parent_service().clone();
            let is_there =
                |twin: &&str| service.methods().any(|other| other.name() == *twin && !other.is_client_streaming());
            if twins.is_empty() || !twins.iter().all(is_there) {
                findings.push(format!("rule 21: {name} takes a stream, and no calls of one request do the same"));
            }
            continue;
        }
        let Some(rule) = found else {
            findings.push(format!("rule 21: {name} has no HTTP rule"));
            continue;
        };
        let scalar = |field: &FieldDescriptor| !field.is_list() && field.kind().as_message().is_none();
        for variable in &rule.variables {
            if !rpc.input().get_field_by_name(variable).is_some_and(|field| scalar(&field)) {
                findings.push(format!("rule 21: {name}: the path names {variable}, which is no scalar of the request"));
            }
        }
        if !["", "*"].contains(&rule.body.as_str()) && rpc.input().get_field_by_name(&rule.body).is_none() {
            findings.push(format!("rule 21: {name}: the body is {}, which the request does not have", rule.body));
        }
        if rule.body.is_empty() != (rule.method == "get") {
            findings.push(format!("rule 21: {name}: a get has no body, and everything else has one"));
        }
        if !rule.path.starts_with("/v1/") {
            findings.push(format!("rule 21: {name}: {} is not below /v1", rule.path));
        }
        let collides = |other: &(String, Rule)| other.1.method == rule.method && overlap(&other.1.path, &rule.path);
        if let Some((other, _)) = rules.iter().find(|other| collides(other)) {
            findings.push(format!("rule 21: {name} and {other} have one path and method"));
        }
        if rule.method == "get" && RESERVED.iter().any(|path| overlap(path, &rule.path)) {
            findings.push(format!("rule 21: {name}: {} is for streams", rule.path));
        }
        let is_excepted = WITHOUT_NOUN.iter().any(|(excepted, _)| *excepted == name);
        if has_noun(&name, &rule.path) == is_excepted {
            findings.push(format!("rule 21: {name}: {} and the RPC have one noun, or an exception", rule.path));
        }
        rules.push((name, rule));
    }
    findings
}

#[test]
fn every_rpc_has_a_scope_and_a_rule() {
    let findings = lint(&ours_compiled().descriptor_pool());
    assert!(findings.is_empty(), "{} findings:\n{}", findings.len(), findings.join("\n"));
    let served = longhand::pb::DESCRIPTORS.clone();
    assert_eq!(lint(&served), [""; 0], "the descriptors in the program lost the options");
}

#[test]
fn the_rules_are_the_reviewed_ones() {
    let pool = ours_compiled().descriptor_pool();
    let scope = pool.get_extension_by_name("longhand.v1.scope").expect("the extension");
    let rpcs = pool.services().flat_map(|service| service.methods().collect::<Vec<_>>());
    let mut lines: Vec<String> = rpcs
        .map(|rpc| {
            let number = rpc.options().get_extension(&scope).as_enum_number().unwrap_or_default();
            let scope = Scope::try_from(number).expect("a scope").as_str_name();
            let Some(rule) = rule(&pool, &rpc) else { return format!("no path: {} {scope}\n", rpc.name()) };
            let mut variables = rule.variables.iter();
            let pieces: Vec<&str> = rule.path.split("{}").collect();
            let mut path = pieces[0].to_owned();
            for piece in &pieces[1..] {
                path.push_str(&format!("{{{}}}{piece}", variables.next().expect("a variable")));
            }
            format!("{path} {} {} {scope}\n", rule.method, rpc.name())
        })
        .collect();
    lines.sort_unstable();
    let why = "a path that changes breaks clients, and a scope decides who may call";
    assert_reviewed("tests/snapshots/http_rules.txt", &lines.concat(), why);
}

const SOUND: &str = r#"syntax = "proto3";
package longhand.v1;
import "google/api/annotations.proto";
import "longhand/v1/options.proto";
service ThingService {
  rpc GetThing(GetThingRequest) returns (GetThingResponse) {
    option (scope) = SCOPE_READ;
    option (google.api.http) = { get: "/v1/things/{thing_id}" };
  }
  rpc CreateThing(CreateThingRequest) returns (CreateThingResponse) {
    option (scope) = SCOPE_WRITE;
    option (google.api.http) = { post: "/v1/things" body: "*" };
  }
}
message GetThingRequest { string thing_id = 1; repeated string names = 2; }
message GetThingResponse {}
message CreateThingRequest {}
message CreateThingResponse {}
"#;

#[track_caller]
fn check(before: &str, after: &str, expected: &[&str]) {
    assert!(SOUND.contains(before), "the sound file has no {before:?}");
    let compiled = compiler(Made(SOUND.replace(before, after)), &["longhand/v1/thing.proto".to_owned()]);
    let found = lint(&compiled.descriptor_pool());
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (finding, part) in found.iter().zip(expected) {
        assert!(finding.contains(part), "{finding:?} does not contain {part:?}");
    }
}

#[test]
fn a_missing_or_unusable_option_is_found() {
    check("package", "package", &[]);
    check("    option (scope) = SCOPE_READ;\n", "", &["GetThing has no scope"]);
    check("SCOPE_READ", "SCOPE_UNSPECIFIED", &["GetThing has no scope"]);
    check("option (google.api.http) = { post: \"/v1/things\" body: \"*\" };", "", &["CreateThing has no HTTP rule"]);
    check("{thing_id}", "{id}", &["names id"]);
    check("{thing_id}", "{names}", &["names names"]);
    check("body: \"*\"", "body: \"thing\"", &["the body is thing"]);
    check(" body: \"*\"", "", &["a get has no body"]);
    check("/v1/things\"", "/things\"", &["not below /v1"]);
    check("post: \"/v1/things\" body: \"*\"", "get: \"/v1/things/all\"", &["one path and method"]);
    check("post: \"/v1/things\" body: \"*\"", "get: \"/v1/events\"", &["is for streams", "one noun"]);
    check("post: \"/v1/things\" body: \"*\"", "get: \"/v1/things/all:go\"", &[]);
    check("rpc GetThing(", "rpc GetObject(", &["GetObject: /v1/things/{} and the RPC have one noun"]);
    let streamed = "rpc CreateThing(stream CreateThingRequest)";
    let findings = &["CreateThing takes a stream, and has an HTTP rule", "no calls of one request do the same"];
    check("rpc CreateThing(CreateThingRequest)", streamed, findings);
}
