//! Compiles the protos with protox, so that no `protoc` is needed.

use std::{env, error::Error, fs, path::PathBuf};

const PROTOS: [&str; 15] = [
    "options",
    "access",
    "archive",
    "session",
    "message",
    "context",
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
    fs::write(out.join("longhand_descriptor.bin"), compiler.encode_file_descriptor_set())?;
    let descriptors = compiler.file_descriptor_set();
    let mut config = tonic_prost_build::Config::new();
    config.enable_type_names();
    tonic_prost_build::configure()
        .codec_path("crate::codec::BoundedCodec")
        .compile_fds_with_config(descriptors, config)?;
    println!("cargo:rerun-if-changed=../../proto");
    Ok(())
}
