//! The keys file: JSON that people can read and a Kubernetes Secret can hold.
//! `docs/format.md` describes it. It is replaced as a whole, in one moment, so
//! a server that reads it meanwhile sees the old one or the new one.

use super::error::AccessError;
use super::grant::{Description, KeyExpiry, KeyName, Prefix, Scope};
use super::token::{Token, TokenDigest};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, fchown};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Most keys of a file.
pub const MAX_KEYS: usize = 10_000;

/// Largest file that is read: some 1,600 bytes a key, most of them for its
/// description.
const MAX_FILE_BYTES: u64 = 16 << 20;

const VERSION: u32 = 1;

/// A new file is its owner's alone. One that is there stays whose it is, and
/// readable for whom it was.
const MODE: u32 = 0o600;

/// A line of the file.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyEntry {
    /// What people call the key.
    pub name: KeyName,
    /// SHA-256 of the key.
    sha256: String,
    /// What it allows.
    pub scope: Scope,
    /// Whether it also allows fetching what has the secret key of a filter's hash.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub export: bool,
    /// For which filters; all if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<Prefix>,
    /// What it is for, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<Description>,
    /// When it was made (RFC 3339), for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<String>,
    /// From when on it is refused; never if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<KeyExpiry>,
}

impl KeyEntry {
    /// What is kept of the key.
    pub(super) fn digest(&self) -> Option<TokenDigest> {
        TokenDigest::parse(&self.sha256)
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Contents {
    version: u32,
    keys: Vec<KeyEntry>,
}

/// Of a newer file only this is understood.
#[derive(Deserialize)]
struct Version {
    version: u32,
}

/// What a key is to be that is made.
#[derive(Clone, Debug)]
pub struct NewKey {
    /// What people call it.
    pub name: KeyName,
    /// What it allows.
    pub scope: Scope,
    /// Whether it also allows fetching what has the secret key of a filter's hash.
    pub export: bool,
    /// For which filters; all if there is none.
    pub prefix: Option<Prefix>,
    /// What it is for.
    pub description: Option<Description>,
    /// From when on it is refused.
    pub expires_at: Option<KeyExpiry>,
}

impl NewKey {
    /// For all filters, for ever, without export.
    pub fn new(name: KeyName, scope: Scope) -> NewKey {
        NewKey {
            name,
            scope,
            export: false,
            prefix: None,
            description: None,
            expires_at: None,
        }
    }
}

/// Reads and checks a file.
///
/// # Errors
/// It can't be read, is of a newer program, or makes no sense.
pub fn read(path: &Path) -> Result<Vec<KeyEntry>, AccessError> {
    let mut text = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_end(&mut text))
        .map_err(|source| AccessError::Unreadable {
            path: path.to_owned(),
            source,
        })?;
    parse(&text, path)
}

pub(super) fn parse(text: &[u8], path: &Path) -> Result<Vec<KeyEntry>, AccessError> {
    let malformed = |reason: String| AccessError::Malformed {
        path: path.to_owned(),
        reason,
    };
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(malformed(format!(
            "it has more than {MAX_FILE_BYTES} bytes"
        )));
    }
    // What serde says names fields and places, never a value of the file that
    // is secret: there is none.
    let not_json = |error: serde_json::Error| malformed(error.to_string());
    let Version { version } = serde_json::from_slice(text).map_err(not_json)?;
    if version > VERSION {
        return Err(AccessError::Newer {
            path: path.to_owned(),
            found: version,
        });
    }
    if version != VERSION {
        return Err(malformed(format!("version is {version}, allowed is 1")));
    }
    let Contents { keys, .. } = serde_json::from_slice(text).map_err(not_json)?;
    if keys.len() > MAX_KEYS {
        return Err(AccessError::TooMany {
            path: path.to_owned(),
            most: MAX_KEYS,
        });
    }
    let (mut names, mut digests) = (HashSet::new(), HashSet::new());
    for key in &keys {
        let name = &key.name;
        if !names.insert(name) {
            return Err(malformed(format!("two keys are named {name}")));
        }
        let digest = key
            .digest()
            .ok_or_else(|| malformed(format!("sha256 of {name} is not 64 hexadecimal digits")))?;
        if !digests.insert(digest) {
            return Err(malformed(format!("{name} is the same key as another")));
        }
    }
    Ok(keys)
}

/// Makes a key and writes it down; makes the file if there is none. The key is
/// in no file: its user must keep it.
///
/// # Errors
/// The name is taken, it has expired already, or the file can't be read or
/// written.
pub fn add(path: &Path, new: NewKey, now: SystemTime) -> Result<Token, AccessError> {
    if new.expires_at.is_some_and(|expiry| expiry.is_over(now)) {
        return Err(AccessError::ExpiredAlready);
    }
    let token = Token::generate()?;
    change(path, |keys| {
        if keys.iter().any(|key| key.name == new.name) {
            return Err(AccessError::NameTaken {
                name: new.name.clone(),
                path: path.to_owned(),
            });
        }
        if keys.len() >= MAX_KEYS {
            return Err(AccessError::TooMany {
                path: path.to_owned(),
                most: MAX_KEYS,
            });
        }
        keys.push(KeyEntry {
            name: new.name,
            sha256: token.digest().to_string(),
            scope: new.scope,
            export: new.export,
            prefix: new.prefix,
            description: new.description,
            created_at: Some(humantime::format_rfc3339_seconds(now).to_string()),
            expires_at: new.expires_at,
        });
        Ok(())
    })?;
    Ok(token)
}

/// Takes a key out of the file.
///
/// # Errors
/// There is none of that name, or the file can't be read or written.
pub fn remove(path: &Path, name: &KeyName) -> Result<(), AccessError> {
    change(path, |keys| {
        let before = keys.len();
        keys.retain(|key| key.name != *name);
        match keys.len() < before {
            true => Ok(()),
            false => Err(AccessError::NameUnknown {
                name: name.clone(),
                path: path.to_owned(),
            }),
        }
    })
}

/// Reads, changes and replaces the file under a lock.
fn change(
    path: &Path,
    change: impl FnOnce(&mut Vec<KeyEntry>) -> Result<(), AccessError>,
) -> Result<(), AccessError> {
    let unwritable = |source| AccessError::Unwritable {
        path: path.to_owned(),
        source,
    };
    // The file itself, not a link to it, is what is replaced.
    let (target, is_new) = match path.canonicalize() {
        Ok(target) => (target, false),
        Err(error) if error.kind() == io::ErrorKind::NotFound => (path.to_owned(), true),
        Err(error) => return Err(unwritable(error)),
    };
    let directory = target.parent().filter(|it| !it.as_os_str().is_empty());
    let directory = File::open(directory.unwrap_or(Path::new("."))).map_err(unwritable)?;
    // Held until it is closed.
    directory.lock().map_err(unwritable)?;
    let mut keys = match is_new && !target.exists() {
        true => Vec::new(),
        false => read(&target)?,
    };
    change(&mut keys)?;
    replace(&target, keys, &directory).map_err(unwritable)
}

/// The file that lists these keys.
pub(super) fn written(keys: Vec<KeyEntry>) -> serde_json::Result<Vec<u8>> {
    let contents = Contents {
        version: VERSION,
        keys,
    };
    let mut text = serde_json::to_vec_pretty(&contents)?;
    text.push(b'\n');
    Ok(text)
}

fn replace(target: &Path, keys: Vec<KeyEntry>, directory: &File) -> io::Result<()> {
    let text = written(keys)?;
    let mut beside = target.as_os_str().to_owned();
    beside.push(".new");
    let beside = PathBuf::from(beside);
    // A process that was killed may have left it; the lock says that none uses it.
    match fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(MODE)
        .open(&beside)?;
    if let Ok(metadata) = fs::metadata(target) {
        file.set_permissions(metadata.permissions())?;
        let own = file.metadata()?;
        if (own.uid(), own.gid()) != (metadata.uid(), metadata.gid()) {
            fchown(&file, Some(metadata.uid()), Some(metadata.gid()))?;
        }
    }
    file.write_all(&text)?;
    file.sync_all()?;
    fs::rename(&beside, target)?;
    directory.sync_all()
}

#[cfg(test)]
mod tests;
