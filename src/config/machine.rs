//! The machine on which the server runs, from which some defaults follow.

use std::path::Path;

/// Resources of the machine or of its container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Memory that may be used: the machine's, or less if the control group says so.
    pub memory_bytes: u64,
    /// Processor cores that may be used.
    pub cores: usize,
}

/// Memory that is assumed where the system does not say.
const UNKNOWN_MEMORY_BYTES: u64 = 1 << 30;

impl Machine {
    /// Asks the system.
    pub fn detect() -> Machine {
        let machine = memory_total(Path::new("/proc/meminfo"));
        let group = group_limit(Path::new("/proc/self/cgroup"), Path::new("/sys/fs/cgroup"));
        Machine {
            memory_bytes: [machine, group]
                .into_iter()
                .flatten()
                .min()
                .unwrap_or(UNKNOWN_MEMORY_BYTES),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

/// `MemTotal` of `/proc/meminfo`, in bytes.
fn memory_total(meminfo: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(meminfo).ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// The smallest `memory.max` of this process's control group (version 2) and
/// the groups around it; `None` if nothing limits it.
fn group_limit(membership: &Path, root: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(membership).ok()?;
    let group = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
    root.join(group)
        .ancestors()
        .take_while(|group| group.starts_with(root))
        .filter_map(|group| std::fs::read_to_string(group.join("memory.max")).ok())
        .filter_map(|limit| limit.trim().parse().ok())
        .min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tightest_group_around_the_process_limits_its_memory() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let membership = root.join("cgroup");
        std::fs::write(&membership, "0::/outer/inner\n").unwrap();
        std::fs::create_dir_all(root.join("outer/inner")).unwrap();
        assert_eq!(group_limit(&membership, root), None);
        std::fs::write(root.join("outer/inner/memory.max"), "max\n").unwrap();
        std::fs::write(root.join("outer/memory.max"), "536870912\n").unwrap();
        assert_eq!(group_limit(&membership, root), Some(512 << 20));
    }

    #[test]
    fn the_machines_memory_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let meminfo = directory.path().join("meminfo");
        std::fs::write(&meminfo, "MemTotal:       16000 kB\nMemFree:  1 kB\n").unwrap();
        assert_eq!(memory_total(&meminfo), Some(16000 * 1024));
        assert_eq!(memory_total(&directory.path().join("none")), None);
    }
}
