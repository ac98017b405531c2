//! What the kernel says of this process, of others, and of files.

use std::fs;
use std::path::Path;

/// The machine and how busy it is, in a few words.
pub(crate) fn described() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let processor = read("/proc/cpuinfo")
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map_or("a processor".to_owned(), |(_, name)| name.to_owned());
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let memory = field(&read("/proc/meminfo"), "MemTotal:") >> 20;
    let load = read("/proc/loadavg");
    let load = load.split(' ').next().unwrap_or("?");
    format!("{cores} cores of {processor}, {memory} GiB of memory, load average {load}")
}

/// The number behind a name, in the unit of the file.
fn field(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|rest| rest.split_whitespace().next());
    number.and_then(|it| it.parse().ok()).unwrap_or_default()
}

/// Bytes of memory that a process has, "self" or by its number.
pub(crate) fn resident_bytes(process: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status"));
    field(&status.unwrap_or_default(), "VmRSS:") << 10
}

/// Bytes that this process had written to the disk: pages that it made dirty,
/// each as often as it became dirty again after it was written.
pub(crate) fn written_bytes() -> u64 {
    let io = fs::read_to_string("/proc/self/io").unwrap_or_default();
    field(&io, "write_bytes:")
}

/// Bytes of all files of a directory, by their lengths.
pub(crate) fn directory_bytes(path: &Path) -> std::io::Result<u64> {
    let mut total = 0;
    for entry in fs::read_dir(path)? {
        let metadata = entry?.metadata()?;
        if metadata.is_file() {
            total += metadata.len();
        }
    }
    Ok(total)
}
