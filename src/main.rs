//! Parses arguments, calls `cli`, turns an error into an exit code. Decides and prints nothing itself.

use std::process::ExitCode;

fn main() -> ExitCode {
    gaggle::cli::main(std::env::args_os()).into()
}
