//! The names of backups, which are times.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

/// How the file of an archive is called, around the name of the backup.
pub(super) const PREFIX: &str = "cuckood-";
pub(super) const ENDING: &str = ".tar";

/// Name of a backup: the second in which it was begun (UTC), as
/// `20261121T114517Z`. In the order of their times.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BackupId(String);

impl BackupId {
    /// The name of a backup begun in that second; `None` before 1970 and after
    /// 9999.
    pub fn of(time: SystemTime) -> Option<BackupId> {
        let since = time.duration_since(UNIX_EPOCH).ok()?;
        if since.as_secs() > 253_402_300_799 {
            return None;
        }
        let text = humantime::format_rfc3339_seconds(time).to_string();
        Some(BackupId(text.replace(['-', ':'], "")))
    }

    /// Reads a name; `None` if no backup can be called so.
    pub fn parse(text: &str) -> Option<BackupId> {
        let id = BackupId::of(time_of(text)?)?;
        (id.0 == text).then_some(id)
    }

    /// The second in which it was begun.
    pub fn time(&self) -> SystemTime {
        // It was made from a time.
        time_of(&self.0).unwrap_or(UNIX_EPOCH)
    }

    /// The same, in seconds since 1970.
    pub(super) fn seconds(&self) -> u64 {
        let since = self.time().duration_since(UNIX_EPOCH);
        since.unwrap_or_default().as_secs()
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// How its archive is called.
    pub fn file_name(&self) -> String {
        format!("{PREFIX}{}{ENDING}", self.0)
    }
}

impl fmt::Display for BackupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn time_of(text: &str) -> Option<SystemTime> {
    let part = |range: std::ops::Range<usize>| text.get(range);
    let time = format!(
        "{}-{}-{}T{}:{}:{}Z",
        part(0..4)?,
        part(4..6)?,
        part(6..8)?,
        part(9..11)?,
        part(11..13)?,
        part(13..15)?
    );
    humantime::parse_rfc3339(&time).ok()
}
