//! Parses arguments, calls `cli`, turns an error into an exit code.

fn main() {}
