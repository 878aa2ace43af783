//! Compiles the protos with protox, so that no `protoc` is needed.

use flate2::{Compression, write::GzEncoder};
use std::{collections::HashMap, env, error::Error, fmt::Write as _, fs, io::Write as _, path::Path, path::PathBuf};

const PROTOS: [&str; 15] = [
    "options",
    "access",
    "archive",
    "session",
    "message",
    "view",
    "compaction",
    "summary_task",
    "run",
    "prompt",
    "approval",
    "event",
    "search",
    "erase",
    "admin",
];

fn main() -> Result<(), Box<dyn Error>> {
    let files: Vec<String> = PROTOS.iter().map(|name| format!("longhand/v1/{name}.proto")).collect();
    let mut compiler = protox::Compiler::new(["../../proto"])?;
    compiler.include_source_info(true).include_imports(true).open_files(&files)?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    // The encoder of the generator's own types would lose the options of RPCs that extensions declare.
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    packed.write_all(&compiler.encode_file_descriptor_set())?;
    fs::write(out.join("descriptors.gz"), packed.finish()?)?;
    let descriptors = compiler.file_descriptor_set();
    fs::write(out.join("calls.rs"), calls(&descriptors)?)?;
    let mut config = tonic_prost_build::Config::new();
    config.enable_type_names();
    tonic_prost_build::configure()
        .codec_path("crate::codec::BoundedCodec")
        .compile_fds_with_config(descriptors, config)?;
    share_events(&out.join("longhand.v1.rs"))?;
    println!("cargo:rerun-if-changed=../../proto");
    Ok(())
}

/// Has the server of events send `shared::EventFrame`: an event is encoded once for all streams.
fn share_events(generated: &Path) -> Result<(), Box<dyn Error>> {
    let code = fs::read_to_string(generated)?;
    let (before, server) = code.split_once("pub mod event_service_server {").ok_or("no server of events")?;
    let shared = server.replace("super::SubscribeEventsResponse", "crate::shared::EventFrame");
    if shared == server {
        return Err("the server of events has no stream of them".into());
    }
    Ok(fs::write(generated, format!("{before}pub mod event_service_server {{{shared}"))?)
}

/// What `call` declares of every method.
fn calls(descriptors: &prost_types::FileDescriptorSet) -> Result<String, Box<dyn Error>> {
    let ours = descriptors.file.iter().filter(|file| file.package() == "longhand.v1");
    let fields: HashMap<&str, Vec<&str>> = ours
        .clone()
        .flat_map(|file| &file.message_type)
        .map(|message| (message.name(), message.field.iter().map(|field| field.name()).collect()))
        .collect();
    let mut calls = String::new();
    for service in ours.flat_map(|file| &file.service) {
        for method in &service.method {
            let [request, answer] =
                [method.input_type(), method.output_type()].map(|name| name.rsplit('.').next().unwrap_or_default());
            let has = |message: &str, field: &str| fields.get(message).is_some_and(|fields| fields.contains(&field));
            let path = format!("/longhand.v1.{}/{}", service.name(), method.name());
            writeln!(calls, "impl Call for {request} {{ type Answer = {answer}; const PATH: &'static str = {path:?};")?;
            if has(request, "request_id") {
                writeln!(calls, "fn request_id(&mut self) -> Option<&mut String> {{ Some(&mut self.request_id) }}")?;
            }
            let kind = match (method.client_streaming(), method.server_streaming()) {
                (true, _) => "ClientStreaming",
                (false, true) => "ServerStreaming",
                (false, false) => "Unary",
            };
            writeln!(calls, "}} impl {kind} for {request} {{}}")?;
            if has(request, "page_token") && has(answer, "next_page_token") {
                writeln!(
                    calls,
                    "impl PagedRequest for {request} {{ fn set_page_token(&mut self, token: String) {{ self.page_token = token; }}"
                )?;
                writeln!(calls, "fn next_page_token(page: &{answer}) -> &str {{ &page.next_page_token }} }}")?;
            }
        }
    }
    Ok(calls)
}
