//! How the program was called.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// What calls this program again as it was called, in the same environment.
///
/// # Errors
/// The system does not say which program this is.
pub fn same_call() -> io::Result<Command> {
    let mut given = std::env::args_os();
    let name = given.next().unwrap_or_default();
    let mut command = Command::new(std::env::current_exe()?);
    command.arg0(name).args(given);
    Ok(command)
}
