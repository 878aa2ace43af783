//! Has the package compiled again when files of the console come: the macro that embeds them does not notice new ones.

fn main() {
    println!("cargo:rerun-if-changed=../../console/dist");
}
