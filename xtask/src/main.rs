//! Everything CI runs, as one program.
fn main() {}
