//! One run in several processes: each phase is this program again, so that it
//! starts with nothing in memory, and one can be killed.

use std::error::Error;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

const PHASE: &str = "CUCKOOD_BENCH_PHASE";
const FOLDER: &str = "CUCKOOD_BENCH_FOLDER";

/// What ends the lines of a phase that then waits to be killed.
const WAITING: &str = "(waiting)";

/// The phase that this process is, and its data directory; `None` in the
/// process that starts them all.
pub(crate) fn current() -> Option<(String, std::path::PathBuf)> {
    let phase = std::env::var(PHASE).ok()?;
    Some((phase, std::env::var_os(FOLDER)?.into()))
}

/// Runs a phase to its end.
pub(crate) fn run(phase: &str, folder: &Path) -> Result<(), Box<dyn Error>> {
    let mut child = start(phase, folder)?;
    echo(&mut child)?;
    let status = child.wait()?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("the phase {phase} ended with {status}").into()),
    }
}

/// Runs a phase until it waits, and kills it as `kill -9` does.
pub(crate) fn run_and_kill(phase: &str, folder: &Path) -> Result<(), Box<dyn Error>> {
    let mut child = start(phase, folder)?;
    let waits = echo(&mut child)?;
    child.kill()?;
    child.wait()?;
    match waits {
        true => Ok(()),
        false => Err(format!("the phase {phase} ended too early").into()),
    }
}

/// The end of a phase that is to be killed.
pub(crate) fn wait_to_be_killed() -> Result<(), Box<dyn Error>> {
    println!("{WAITING}");
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

fn start(phase: &str, folder: &Path) -> Result<Child, Box<dyn Error>> {
    Ok(Command::new(std::env::current_exe()?)
        .env(PHASE, phase)
        .env(FOLDER, folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?)
}

/// Prints what the phase says; tells whether it waits.
fn echo(child: &mut Child) -> Result<bool, Box<dyn Error>> {
    let output = child.stdout.take().ok_or("the phase has no output")?;
    for line in BufReader::new(output).lines() {
        let line = line?;
        if line == WAITING {
            return Ok(true);
        }
        println!("{line}");
    }
    Ok(false)
}
