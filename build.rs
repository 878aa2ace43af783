//! Compiles the protos with protox, so that no `protoc` is needed.

use prost::Message;
use std::{env, error::Error, fs, path::PathBuf};

const PROTOS: [&str; 7] = ["session", "message", "context", "compaction", "summary_task", "event", "admin"];

fn main() -> Result<(), Box<dyn Error>> {
    let files: Vec<String> = PROTOS.iter().map(|name| format!("longhand/v1/{name}.proto")).collect();
    let descriptors = protox::compile(&files, ["proto"])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("longhand_descriptor.bin"), descriptors.encode_to_vec())?;
    let mut config = tonic_prost_build::Config::new();
    config.enable_type_names();
    tonic_prost_build::configure().compile_fds_with_config(descriptors, config)?;
    println!("cargo:rerun-if-changed=proto");
    println!("cargo:rerun-if-changed=migrations");
    Ok(())
}
