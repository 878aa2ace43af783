//! Has the package compiled again when files come that macros read: those do not notice new ones.

fn main() {
    println!("cargo:rerun-if-changed=migrations");
    println!("cargo:rerun-if-changed=console/dist");
}
